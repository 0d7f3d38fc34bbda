"""Named clients, the quorum of a round and the cap of weights."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import NodesError, NothingTrainedError
from aoi_fl.strategies import MarkovParticipation, RandomSelection
from tests import fakes
from tests.fakes import MODEL, everyone, honest_app, hostile_app, same_model, steps_of, values
from tests.refusals import refused

N = 4


class Tagged(fakes.ScriptedGrid):
    """A grid whose odd clients have a tag."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for client, node in enumerate(self.nodes):
            self._contexts[node].node_config["tags"] = "gpu, ward-7" if client % 2 else "ward-8"


@pytest.mark.parametrize("make", [partial(RandomSelection, 1), partial(MarkovParticipation.optimal, 2, 1)])
@pytest.mark.parametrize(
    ("clients", "numbers"), [("client-0,client-3", {0, 3}), ("client-1,client-2", {1, 2}), ("tag:ward-7", {1, 3})]
)
def test_a_run_sends_work_to_its_named_clients_alone(clients, numbers, make, tmp_path):
    notes = fakes.play(make, honest_app(), tmp_path, 6, N, Tagged, clients=clients, min_clients=2)
    assert {record.name for record in notes.clients} == {f"client-{number}" for number in numbers}
    assert {client for kind, _, client in notes.grid.sent if kind != fakes.HELLO} <= numbers
    assert sum(notes.column("trained"))


def test_a_run_waits_for_its_named_clients_alone(tmp_path):
    with pytest.raises(NodesError):
        fakes.play(everyone, honest_app(), tmp_path, 1, N, clients="client-0,client-7", min_clients=2)


@pytest.mark.parametrize("quorum", [{"min_updates": 4}, {"must_include": "client-1"}])
def test_a_round_below_its_quorum_does_not_count(quorum, tmp_path):
    def spoil(message, act):
        if fakes.of(message)[1] == 2:
            raise RuntimeError("no power")
        return act()

    notes = fakes.play(everyone, hostile_app(spoil, whom={1}), tmp_path, 3, N, **quorum)
    assert [(record.trained, record.empty) for record in notes.rounds] == [(4, False), (0, True), (4, False)]
    same_model(notes.result.arrays, fakes.expected(range(N), 2))  # the second round left the model as it was
    ages = {part.client: part.age for part in notes.rounds[2].participations}
    assert ages == dict.fromkeys(range(N), 1)  # also of those whose updates had arrived
    assert notes.strategy._run.roster.last.tolist() == [3] * N


def test_a_run_without_any_quorum_names_the_quorum(tmp_path):
    with pytest.raises(NothingTrainedError) as error:
        fakes.play(partial(RandomSelection, 2), honest_app(), tmp_path, 2, N, must_include="client-9")
    assert "must-include" in str(error.value) and "train-timeout" not in str(error.value)


def test_named_clients_are_in_every_round(tmp_path):
    notes = fakes.play(partial(RandomSelection, 1), honest_app(), tmp_path, 8, N, must_include="client-2")
    rounds = notes.trained()
    assert all(2 in clients and 1 <= len(clients) <= 2 for clients in rounds)
    assert len({client for clients in rounds for client in clients}) > 2


def test_no_client_has_more_than_the_largest_weight(tmp_path):
    """Sizes 10, 20, 30, 40 are shares .1, .2, .3, .4; what the last gives up makes the third too large as well."""
    notes = fakes.play(everyone, honest_app(), tmp_path, 1, N, min_updates=4, max_weight=0.29)
    shares = [0.14, 0.28, 0.29, 0.29]  # of the rest .42 in the ratio 1 : 2
    found = [part.weight for part in sorted(notes.parts, key=lambda part: part.client)]
    np.testing.assert_allclose(found, shares)
    moved = sum(share * steps_of(client)["w"] for client, share in enumerate(shares))
    np.testing.assert_allclose(values(notes.result.arrays)["w"], MODEL["w"] + moved, rtol=1e-6)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"clients": "a,b,a", "num-clients": 3}, "clients"),
        ({"clients": "a,b", "num-clients": 3, "clients-per-round": 1}, "num-clients"),
        ({"must-include": "a", "policy": "markov-optimal"}, "must-include"),
        ({"clients": "a,b", "dataset": "csv:x.csv", "target": "y", "client-column": "ward"}, "clients"),
        ({"min-updates": 6, "clients-per-round": 5}, "min-updates"),
        ({"max-weight": 0.3, "min-updates": 3}, "min-updates"),
        ({"max-weight": 0.3, "min-updates": 4, "weights": "unbiased"}, "max-weight"),
        ({"min-updates": 2, "privacy": "white"}, "min-updates"),
    ],
)
def test_a_quorum_that_cannot_be_had_is_refused(keys, key):
    with refused(key):
        RunConfig.parse({"policy": "random", "num-clients": 10, "clients-per-round": 5} | keys)
