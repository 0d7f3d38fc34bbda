"""Simulated time in the local engine, against timelines worked out by hand."""

import math
from itertools import cycle, islice, pairwise

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from aoi_fl.cli.keys import pairs
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import DeviceTrace, without_loading
from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.server.app import app as server_app
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.server.folder import MODEL
from aoi_fl.strategies.round.exchange import Exchange
from tests.fakes import ToyApp, availability, unchanged, zeros
from tests.ledgers import about_of, parts_of, rounds_of
from tests.refusals import refused
from tests.server.interrupted import run_here

# Sent the model at second 0, client 0 answers at 10, client 1 leaves at 15 and would need 20, client 2 is away until
# 20, and client 3 answers at 50.
SPELLS = [[(0, 100)], [(0, 15), (40, 100)], [(20, 100)], [(0, 100)]]
SECONDS = [9.0, 19.0, 9.0, 49.0]  # and one for the way there and back


@pytest.fixture
def ran():
    return []


@pytest.fixture
def grid(ran):
    def learn(array, client, round_):
        ran.append(client)
        return array

    return ClockedGrid(ToyApp(learn), {}, 4, without_loading(availability(SPELLS, 100.0), SECONDS, "example"))


def messages_to(grid, clients, round_=""):
    nodes = list(grid._contexts)
    content = RecordDict({"arrays": zeros(), "config": ConfigRecord()})
    return {client: Message(content, nodes[client], "train", group_id=round_) for client in clients}


def send(grid, clients, timeout, **how):
    return Exchange(grid, messages_to(grid, clients), timeout, sequential=True, **how)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_round_ends_at_its_deadline_with_what_arrived(grid, ran, ordered):
    messages = messages_to(grid, [3, 2, 1, 0])
    exchange = Exchange(grid, messages, 30.0, sequential=True, ordered=ordered)
    came = [(exchange.client_of(reply), grid.clock.came(reply)) for reply in exchange]
    assert came == [(0, 10.0)]
    assert exchange.missing == {1, 2, 3}
    assert grid.clock.simulated == 30.0
    worked = {client: grid.clock.worked(message.metadata.message_id) for client, message in messages.items()}
    assert worked == {0: 10.0, 1: 15.0, 2: 0.0, 3: 30.0}
    assert ran == [0]  # a lost or late client does not train in earnest


def test_a_round_ends_when_enough_or_all_have_answered(grid, ran):
    exchange = send(grid, [3, 0], 600.0, ordered=True, enough=1)
    for reply in exchange:
        assert exchange.client_of(reply) == 0
        exchange.counted()
    assert grid.clock.simulated == 10.0 and exchange.satisfied and ran == [0]
    exchange = send(grid, [3, 0], 600.0, ordered=True)  # which the surplus client of the last round does not delay
    assert [exchange.client_of(reply) for reply in exchange] == [3, 0]
    assert grid.clock.simulated == 60.0 and ran == [0, 3, 0]


def test_time_passes_without_available_nodes(grid):
    nodes = list(grid.get_node_ids())
    assert len(nodes) == 4  # before the clock starts
    send(grid, [0], 1.0)
    assert list(grid.get_node_ids()) == [nodes[0], nodes[1], nodes[3]]
    grid = lone([(30, 40)])
    send(grid, [0], 1.0)
    assert len(list(grid.get_node_ids())) == 1
    assert grid.clock.simulated == 30.0


def lone(spells, training=1.0, download=1.0, upload=1.0, **config):
    """Return a grid of a single client."""
    speeds = [np.array([each]) for each in (training, download, upload)]
    trace = DeviceTrace(availability([spells], 100.0), speeds[0], "example", *speeds[1:])
    return ClockedGrid(ToyApp(unchanged), config, 1, trace)


def test_model_transfer_and_epochs_take_their_time():
    grid = lone([(0, 100)], 2.0, 8.0, 4.0, **{"local-epochs": 3, "compression": "float16"})
    list(send(grid, [0], 600.0))
    size = len(zeros()["w"].data)
    assert grid.clock.simulated == 1 + size / 8 + 3 * 2.0 + size / 2 / 4  # half as many bytes up as down
    foreseen = grid.clock.foresight
    assert (foreseen.seconds[0], foreseen.uploads[0]) == (grid.clock.simulated, size / 2 / 4)


def test_flowers_own_loop_waits_in_simulated_time(grid):
    replies = list(grid.send_and_receive(messages_to(grid, [0, 1, 3]).values(), timeout=20.0))
    assert len(replies) == 1
    assert grid.clock.simulated == 20.0
    assert len(list(grid.send_and_receive(messages_to(grid, [0, 3]).values()))) == 2
    assert grid.clock.simulated == 70.0


def test_surplus_clients_are_forgotten_in_the_next_round(grid, ran):
    late = list(grid.push_messages(messages_to(grid, [3], "1").values()))
    grid.clock.wait(late, 1, 0.0, 20.0)
    assert list(grid.pull_messages(late)) == []
    ids = list(grid.push_messages(messages_to(grid, [0], "2").values()))
    grid.clock.wait(ids, 1, 0.0, 90.0)
    assert len(list(grid.pull_messages(ids))) == 1
    grid.clock.wait(late, 1, 0.0, 90.0)
    assert list(grid.pull_messages(late)) == []
    assert ran == [0]


def test_devices_that_are_never_available_are_refused():
    with refused("clock"):
        lone([])


# Whole runs ----------------------------------------------------------------------------------------------------------


def play(folder, name, **more):
    few = {"num-clients": 30, "clients-per-round": 8, "num-server-rounds": 5, "model": "lr", "local-epochs": 1}
    return run_here(few | {"seed": 3, "runs-dir": str(folder), "run-name": name} | more)


def model_of(folder):
    return (folder / MODEL).read_bytes()


@pytest.mark.parametrize("line", ["policy=random", "policy=markov-optimal sizes=zipf:1.5 evaluate-clients=2"])
def test_equal_clients_give_the_model_of_a_run_without_a_clock(line, tmp_path):
    policy = pairs(line.split())
    plain, clocked = play(tmp_path, "plain", **policy), play(tmp_path, "clocked", clock="always", **policy)
    assert model_of(plain) == model_of(clocked)
    times = [row["clock"] for row in rounds_of(clocked)]
    assert all(later > earlier for earlier, later in pairwise([0.0, *times]))
    assert {row["clock"] for row in rounds_of(plain)} == {None}


def test_a_simulated_run_ends_in_time(tmp_path):
    line = (
        "policy=random clock=generated num-clients=60 over-selection=1.25 train-timeout=25 until=120 evaluate-every=4"
    )
    how = pairs(line.split()) | {"num-server-rounds": 1000}
    run = play(tmp_path, "run", **how)
    rounds = rounds_of(run)
    assert rounds[-2]["clock"] < 120.0 <= rounds[-1]["clock"]
    evaluated = [row["round"] for row in rounds if row["test_accuracy"] is not None]
    assert evaluated == sorted({*range(4, len(rounds) + 1, 4), len(rounds)})
    assert about_of(run)["status"] == "completed"
    parts = parts_of(run)
    assert all(part["device_seconds"] > 0 for part in parts)
    for part in parts:
        if part["outcome"] == "trained":
            assert math.isclose(part["seconds"], part["device_seconds"])
    assert max(row["trained"] for row in rounds) <= 8


@pytest.mark.parametrize(("steps", "batch"), [(1, 10), (7, 10), (40, 8), (3, 1000)])
def test_local_steps_take_as_long_as_the_images_of_their_batches(steps, batch, tmp_path):
    """A mean client takes ten seconds; each pass is cut into batches, of which the last may be short."""
    how = {"policy": "random", "clock": "always", "sizes": "zipf:1.5", "clients-per-round": 30, "num-server-rounds": 1}
    run = play(
        tmp_path, "run", **how, **{"local-epochs": 0, "local-steps": steps, "batch-size": batch, "train-timeout": 600.0}
    )
    parts = parts_of(run)

    def images(examples):
        of_a_pass = [batch] * (examples // batch) + [examples % batch] * (examples % batch > 0)
        return sum(islice(cycle(of_a_pass), steps))

    work = np.array([images(part["examples"]) for part in parts])
    assert [part["seconds"] for part in parts] == pytest.approx(1 + 10 * work / work.mean())


def test_a_clock_is_for_the_local_engine_alone():
    with refused("clock", "always"):
        values = RunConfig.parse({"clock": "always"}).flat()
        run_local(server_app, "aoi_fl.learning.client_app:app", values, nodes=100, workers=2)


SELECT, DECIDE = "A round selects 8 clients", "Clients decide as if they were always available"


@pytest.mark.parametrize(
    ("line", "warnings"),
    [
        ("policy=random clock=bernoulli:0.2", {SELECT}),
        ("policy=systematic clock=bernoulli:0.5", {DECIDE}),
        ("policy=systematic clock=bernoulli:0.5 compensate=availability", set()),
    ],
)
def test_too_few_available_clients_are_a_warning(line, warnings, tmp_path, caplog):
    play(tmp_path, "few", **pairs(line.split()), **{"num-server-rounds": 1})
    assert {warning for warning in (SELECT, DECIDE) if warning in caplog.text} == warnings


def test_a_run_without_a_reply_in_time_fails_with_the_remedy(tmp_path):
    with pytest.raises(NothingTrainedError, match=r"no reply by the deadline.*Raise train-timeout"):
        play(tmp_path, "slow", policy="random", clock="always", **{"train-timeout": 1.5, "num-server-rounds": 1})


def test_no_round_begins_after_until_without_clients(tmp_path):
    """All leave a minute and a half after the trace begins, a minute before the run, and come back a day later."""
    trace, of_each = tmp_path / "gap.npz", {"seconds": [0.0, 95.0, 86400.0], "available": [True, False, False]}
    changes = {key: np.tile(values, 30) for key, values in of_each.items()}
    np.savez(trace, offsets=3 * np.arange(31), training_seconds=np.full(30, 9.0), **changes)
    how = {"policy": "random", "clock": str(trace), "until": 600.0, "train-timeout": 30.0, "num-server-rounds": 999}
    how["clock-start"] = 60.0
    how["join-timeout"] = 0.3  # which is the machine's time
    rounds = rounds_of(play(tmp_path, "gap", **how))
    assert 600 <= rounds[-1]["clock"] < 602 and rounds[-1]["trained"] == 0 and 35 < rounds[-2]["clock"] < 70
