"""Clients that have declared no data size, where a policy goes by size: of mean size, and named once."""

from functools import partial

import numpy as np
import pytest

from aoi_fl.science.rates import make_rates
from aoi_fl.strategies import MarkovParticipation, ProportionalSelection, RandomSelection, SystematicParticipation
from tests import fakes
from tests.fakes import ToyApp, examples_of
from tests.refusals import refused

N = 4
SIZES = np.array([10, 20, 30, 20])  # client 3 declares nothing: it counts as one of mean size
MAKE = {
    "proportional": partial(ProportionalSelection, 2),
    "markov": partial(MarkovParticipation.optimal, N, 2, rates="size"),
    "systematic": partial(SystematicParticipation, N, 2, rates="size"),
    "unbiased": partial(RandomSelection, 2, weights="unbiased"),
}


def play(make, folder, declaring=range(N - 1)):
    def declare(client):
        return {"num-examples": int(SIZES[client])} if client in declaring else {}

    app = ToyApp(examples=examples_of, declares=declare)
    return fakes.play(make, app, folder, 5, N)


def said(caplog):
    return [message for message in caplog.messages if "num-examples" in message]


@pytest.mark.parametrize("policy", MAKE)
def test_an_undeclared_size_is_named_once_and_counts_as_mean(policy, tmp_path, caplog):
    notes = play(MAKE[policy], tmp_path)
    (text,) = said(caplog)
    assert "client-3" in text and "20" in text
    if policy == "systematic":
        np.testing.assert_allclose(notes.strategy._run.round.plan.rates, make_rates("size", SIZES, 2)[0])


@pytest.mark.parametrize("policy", ["proportional", "markov", "systematic"])
def test_rates_by_size_without_sizes_are_refused(policy, tmp_path):
    with refused("num-examples"):
        play(MAKE[policy], tmp_path, declaring=())


def test_unbiased_weights_without_sizes_are_equal(tmp_path, caplog):
    notes = play(MAKE["unbiased"], tmp_path, declaring=())
    assert {p.weight for p in notes.parts} == {0.5}  # q/r = (1/4)/(2/4)
    assert len(said(caplog)) == 1


@pytest.mark.parametrize(("weights", "share"), [("size", 1.0), ("equal", 1 / N)])
def test_a_boast_has_all_the_weight_by_size_and_none_else(weights, share, tmp_path):
    size = lambda client: 10**9 if client == 3 else examples_of(client)  # noqa: E731
    app = ToyApp(examples=size, declares=lambda client: {"num-examples": size(client)})
    notes = fakes.play(partial(RandomSelection, N, weights=weights), app, tmp_path, 1, N)
    ours = {part.name: part.weight for part in notes.parts}
    assert ours["client-3"] / sum(ours.values()) == pytest.approx(share, abs=1e-5)
