"""Clients that have declared no data size, where a policy goes by size: of mean size, and named once."""

import numpy as np
import pytest

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.science.rates import make_rates
from aoi_fl.science.selection import Population, ProportionalSelector
from aoi_fl.strategies import (
    MarkovParticipation,
    ProportionalSelection,
    RandomSelection,
    RoundOptions,
    SystematicParticipation,
)
from tests.fakes import Notes, honest, model
from tests.refusals import refused

N = 4
SIZES = np.array([10, 20, 30, 20])  # client 3 declares nothing: it counts as one of mean size
MAKE = {
    "proportional": lambda **s: ProportionalSelection(2, **s),
    "markov": lambda **s: MarkovParticipation.optimal(N, 2, rates="size", **s),
    "systematic": lambda **s: SystematicParticipation(N, 2, rates="size", **s),
    "unbiased": lambda **s: RandomSelection(2, weights="unbiased", **s),
}


def play(make, folder, declaring=range(N - 1)):
    app, notes = ClientApp(), Notes()
    app.train()(honest)

    @app.introduce()
    def introduce(context, ask):
        partition = context.node_config["partition-id"]
        return {"num-examples": int(SIZES[partition])} if partition in declaring else {}

    options = RoundOptions(run="r", seed=3, deterministic=True, join_timeout=0.2, evaluate_clients=0)
    strategy = make(options=options, observer=notes)
    strategy.start(LocalGrid(app, {"runs-dir": str(folder), "seed": 3}, N), model(), 5)
    return strategy, notes


def said(caplog):
    return [r.getMessage() for r in caplog.records if "num-examples" in r.getMessage()]


@pytest.mark.parametrize("policy", MAKE)
def test_an_undeclared_size_is_named_once_and_counts_as_mean(policy, tmp_path, caplog):
    play(MAKE[policy], tmp_path)
    (text,) = said(caplog)
    assert text.startswith("No num-examples declared by client-3: for ")
    assert "the others' mean is used, 20. To mend it, set num-examples in the node configurations" in text


def test_proportional_draws_take_it_for_one_of_mean_size(tmp_path):
    _, notes = play(MAKE["proportional"], tmp_path)
    everybody = Population(np.zeros(N, np.int64), SIZES, np.ones(N, bool))
    selector = ProportionalSelector(2, 3)
    wanted = [selector.select(record.round, everybody).clients.tolist() for record in notes.rounds]
    assert [sorted(p.client for p in record.participations) for record in notes.rounds] == wanted


def test_rates_by_size_take_it_for_one_of_mean_size(tmp_path):
    strategy, _ = play(MAKE["systematic"], tmp_path)
    np.testing.assert_allclose(strategy.plan.rates, make_rates("size", SIZES, 2)[0])


@pytest.mark.parametrize("policy", ["proportional", "markov", "systematic"])
def test_rates_by_size_without_sizes_are_refused(policy, tmp_path):
    with refused("num-examples"):
        play(MAKE[policy], tmp_path, declaring=())


def test_unbiased_weights_without_sizes_are_equal(tmp_path, caplog):
    _, notes = play(MAKE["unbiased"], tmp_path, declaring=())
    assert {p.weight for record in notes.rounds for p in record.participations} == {0.5}  # q/r = (1/4)/(2/4)
    (text,) = said(caplog)
    assert "client-0, client-1, client-2, client-3: for weights 'unbiased' all have the same size" in text


@pytest.mark.parametrize(("weights", "share"), [("size", 1.0), ("equal", 1 / N)])
@pytest.mark.parametrize("boast", [10**9, 10**8])
def test_a_boast_has_all_the_weight_by_size_and_none_else(weights, share, boast, tmp_path):
    app, notes = ClientApp(), Notes()

    @app.train()
    def train(message, context):
        reply = honest(message, context)
        if context.node_config["partition-id"] == 3:
            reply.content["metrics"]["num-examples"] = boast
        return reply

    @app.introduce()
    def introduce(context, ask):
        return {"num-examples": boast if context.node_config["partition-id"] == 3 else 10}

    options = RoundOptions(run="r", seed=3, deterministic=True, join_timeout=0.2, evaluate_clients=0)
    strategy = RandomSelection(N, weights=weights, options=options, observer=notes)
    strategy.start(LocalGrid(app, {"runs-dir": str(tmp_path), "seed": 3}, N), model(), 1)
    ours = {part.name: part.weight for part in notes.rounds[0].participations}
    assert ours["client-3"] / sum(ours.values()) == pytest.approx(share, abs=1e-5)
