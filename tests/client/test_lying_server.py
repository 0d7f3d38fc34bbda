"""A server that lies to a real client: what leaves the device never exceeds the promise, whatever arrives."""

import contextlib
import json
import math
import os
import random
import shutil
import threading

import flwr.clientapp
import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

from aoi_fl.client import ClientApp, attach, promises, session
from aoi_fl.client.device.status import status
from aoi_fl.flower.messages import context
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science.errors import ConfigError
from tests.fakes import record_of, reply_of, request
from tests.processes import FORK

B, T = 6, 24
K = math.ceil(T / B)
TERMS = {"min-separation": B, "rounds": T}


def train(message, context):
    return reply_of(message, {"num-examples": 1}, record_of({"w": np.ones(2)}))


def evaluate(message, context):
    return reply_of(message, {"num-examples": 1, "loss": 0.125})


class Device:
    """A real client, and the number of its updates and evaluations that leave it."""

    def __init__(self, folder, attached=False, **node):
        self.app = flwr.clientapp.ClientApp() if attached else ClientApp()
        for action in ("default", "x"):
            self.app.train(action)(train)
            self.app.evaluate(action)(evaluate)
        self.app = attach(self.app)
        self.folder = folder / "state"
        self.node = {"partition-id": 3, "state-dir": str(self.folder)} | node
        self.config = {"runs-dir": str(folder / "runs"), "seed": 1}

    def send(self, kind, round_=1, *, bare=False, **record):
        """Return whether an update or a metric leaves the device."""
        record = {k.replace("_", "-"): v for k, v in record.items()}
        message = request(kind, ParticipationRequest("r", 1), arrays=ArrayRecord({}), config=ConfigRecord({}))
        message.content["aoi"] = ConfigRecord(
            {k: v for k, v in ({"run": "r", "round": round_} | TERMS | record).items() if v is not None}
        )
        if bare:
            del message.content["aoi"]
        try:
            reply = self.app(message, context(1, 99, self.config, self.node))
        except ValueError:
            return False
        return reply.has_content() and any(isinstance(r, ArrayRecord | MetricRecord) for r in reply.content.values())

    def trained(self, times, **record):
        """Return the rounds in which an update leaves."""
        return [t for t in times if self.send("train", t, **record)]


def every_round(**more):
    return [("train", t, more) for t in range(1, T + 1)]


NUMBERS = (2**31, 2**62, -(2**62), 6.0, math.nan, math.inf, True, 0, -1, "6", [6])
ATTACKS = {  # messages, and how many updates may leave
    "no record": ([(kind, 1, {"bare": True}) for kind in ("train", "train.x")] * 10, 0),
    "all rounds": (every_round(), K),
    "forced": (every_round(forced=True), K),
    "terms of no kind": (
        [("train", 1, {key: value}) for key in ("min_separation", "rounds") for value in NUMBERS]
        + [("train", value, {}) for value in NUMBERS if value is not True]
        + every_round(),
        K,
    ),
    "waits beyond all bounds": (
        [
            m
            for t in range(1, T + 1)
            for m in (
                ("query.participate", t, {"wire": "reserve", "table": [0.0, 1e-15]}),
                ("query.participate", t, {"wire": "poll", "table": [1e-15]}),
                ("query.participate", t, {"wire": "reserve", "rate": 1e-300}),
                ("train", t, {"wire": "reserve", "table": [0.0, 1e-15], "forced": True}),
            )
        ],
        K,
    ),
    "evaluations": ([(kind, t, {}) for t in range(20) for kind in ("evaluate", "evaluate.x")], 0),
    "evaluations without a record": ([(k, 1, {"bare": True}) for k in ("evaluate", "evaluate.x")] * 10, 0),
    "evaluations said to be clear later": ([("evaluate", 1, {})] + [("evaluate", 1, {"clear": True})] * 20, 0),
}


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_more_leaves_than_promised(attack, attached, tmp_path, caplog):
    device = Device(tmp_path, attached)
    device.send("query.hello")
    messages, most = ATTACKS[attack]
    left = sum(device.send(kind, round_, **more) for kind, round_, more in messages)
    assert left == most
    assert "corrupt" not in caplog.text


def test_evaluations_in_the_clear_are_allowed_from_the_first_terms_on(tmp_path):
    device = Device(tmp_path)
    device.send("query.hello", clear=True)
    assert device.send("evaluate", clear=True)
    assert not device.send("evaluate") and not device.send("evaluate", clear=True)


@pytest.mark.parametrize("lost", ["state/r", "state"])
def test_a_lost_state_is_no_new_promise(lost, tmp_path):
    device, left = Device(tmp_path), 0
    device.send("query.hello")
    for _ in range(20):
        left += device.send("train")
        shutil.rmtree(tmp_path / lost, ignore_errors=True)
        left += device.send("query.hello")
    assert left == 1


def test_a_client_that_lost_its_age_refuses_for_b_rounds(tmp_path):
    device = Device(tmp_path)
    device.send("query.hello")
    assert device.trained([8]) == [8]
    shutil.rmtree(device.folder / "r")
    assert device.trained(range(9, 9 + 2 * B)) == [8 + B, 8 + 2 * B]


def test_terms_that_arrive_in_the_middle_of_a_run_count_the_round_before(tmp_path):
    device = Device(tmp_path)
    assert device.send("train", 5, min_separation=None, rounds=None)
    assert device.trained(range(6, 6 + B)) == [5 + B]
    newcomer = Device(tmp_path / "b")
    newcomer.send("query.participate", min_separation=None, rounds=None, wire="poll", table=[0.5])
    assert newcomer.send("train", 2)


def test_the_owners_rule_holds_without_the_servers_terms(tmp_path):
    owned = Device(tmp_path / "a", **{"min-separation": 3}).trained(range(1, 10), min_separation=None, rounds=None)
    assert owned == [1, 4, 7]
    assert Device(tmp_path / "b", **{"min-separation": 8}).trained(range(1, 20)) == [1, 9, 17]


def test_the_promise_keeps_the_least_noise_that_was_announced(tmp_path):
    device = Device(tmp_path)
    for t, terms in enumerate([{}, {"mu": 0.2, "delta": 1e-5}, {"mu": 0.1}, {"delta": 1e-3}, {}], 1):
        device.send("train", t, **terms)
    promise = promises.Device(device.folder, "client-3", durable=True).load().runs["r"]
    assert (promise.mu, promise.delta, promise.separation) == (0.2, 1e-5, B)


def test_a_state_set_aside_forbids_the_run(tmp_path):
    device = Device(tmp_path)
    assert device.send("train", 1)
    (device.folder / "r" / "client-3.json").write_text("{")
    assert not any(device.send("train", t) for t in range(1, 3 * T))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}', "x" * 2**25])
def test_promises_that_cannot_be_read_forbid_every_run(content, tmp_path):
    device = Device(tmp_path)
    assert device.send("train", 1)
    (path := device.folder / "client-3.promises").write_text(content)
    assert not any(device.send("train", t, run=run) for t in range(1, T) for run in ("r", "s"))
    assert path.read_text() == content


@pytest.mark.parametrize("node", [{}, {"pause": False}, {"min-separation": 3}, {"simulated": True, "max-norm": 1.0}])
def test_promises_and_rules_need_the_owners_folder(node, tmp_path):
    device = Device(tmp_path, **node)
    del device.node["state-dir"]
    left = 0
    for i in range(20):
        device.config["runs-dir"] = str(tmp_path / str(i))
        left += device.send("query.hello") + device.send("train")
    assert left == 0


@pytest.mark.parametrize("start", ["threads", "processes"])
def test_of_four_messages_at_once_one_has_an_update(start, tmp_path):
    device = Device(tmp_path)
    device.send("query.hello")
    kind = threading.Thread if start == "threads" else FORK.Process
    barrier = threading.Barrier(4) if start == "threads" else FORK.Barrier(4)
    left = FORK.Queue()

    def slow(message, context):
        barrier.wait(1) if not barrier.broken else None
        return train(message, context)

    def send():
        barrier.wait(20)
        left.put(device.send("train"))

    workers = [kind(target=send) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert sum(left.get(timeout=30) for _ in workers) == 1
    for worker in workers:
        worker.join(30)
    assert not device.send("train", 2)


class Model:
    """The promise, written again as plainly as possible: a set of rounds, and the terms that were heard."""

    def __init__(self):
        self.rounds, self.b, self.end, self.first = [], 1, math.inf, None

    def hear(self, round_, b, end):
        self.b, self.end = max(self.b, b or 1), min(self.end, end or math.inf)
        self.first = round_ if self.first is None else self.first

    def may(self, round_):
        gaps = [round_ - t for t in self.rounds] + ([round_ - self.first + 1] if self.first > 1 else [])
        return 1 <= round_ <= self.end and all(gap >= self.b for gap in gaps)


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_a_model_on_random_servers(seed, attached, tmp_path):
    rng, device, model = random.Random(seed), Device(tmp_path, attached), Model()
    for _ in range(120):
        round_, b, end = (
            rng.choice([*range(-2, 41), 2**31 - 1]),
            rng.choice([None, 1, 3, 6, 9]),
            rng.choice([None, 24, 36]),
        )
        kind, token = rng.choice(["train", "train.x", "query.hello", "query.participate"]), rng.choice([None, "a", "b"])
        if model.first is None and b is None and end is None:
            continue
        model.hear(round_, b, end)
        expected = kind.startswith("train") and model.may(round_)
        terms = {"min_separation": b, "rounds": end, "token": token, "forced": rng.random() < 0.5}
        assert device.send(kind, round_, **terms) == expected
        if expected:
            model.rounds.append(round_)


def test_a_seed_of_the_run_is_not_the_seed_of_a_private_client(tmp_path):
    def seed(name, **node):
        device = Device(tmp_path / name, **node)
        device.send("query.participate", wire="poll", table=[0.5])
        return json.loads((device.folder / "r" / "client-3.json").read_text())["seed"]

    assert len({1, seed("a"), seed("b")}) == 3 and seed("c", seed=77) == 77


# A client trains only if it can use these.
OWN = ["r/client-3.json", "client-3.promises", "client-3.lock", "client-3.training"]


@pytest.mark.parametrize("name", [*OWN, "session", "gate.json", "receipts.jsonl", "node.toml"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
def test_a_file_of_no_regular_kind_hangs_nothing(name, kind, tmp_path):
    device = Device(tmp_path)
    path = device.folder / name
    path.parent.mkdir(parents=True)
    if name != "node.toml":
        (device.folder / "node.toml").write_text(f'name = "client-3"\nstate-dir = "{device.folder}"\n')
    match kind:
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    assert device.send("train") == (name not in OWN)
    for read in (session.Session, lambda path: list(status(device.folder))):
        with contextlib.suppress(ConfigError):
            read(path)
