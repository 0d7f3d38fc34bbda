"""A run is judged after a break as without one."""

from functools import partial

import pytest
from flwr.serverapp import strategy as flower

from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.strategies import RandomSelection
from tests import fakes
from tests.fakes import EVALUATE, TRAIN, Notes, ToyApp, zeros

N = 3


def failing(kind, rounds):
    """Return an app that fails on one kind of message in some rounds."""

    def behave(message, act, sent, round_, client):
        if sent == kind and round_ in rounds:
            raise OSError("no power")
        return act()

    return ToyApp(examples=1, evaluates=1.0, spoil=behave)


def evaluated(app):
    return sorted({round_ for sent, round_, _ in app.sent if sent == EVALUATE})


def play(app, folder, rounds, after=(), aggregation=None, **options):
    """Run rounds, resumed after each of these; return their records and why the run stopped, if it did."""
    make = partial(RandomSelection, N, aggregation=aggregation)
    how = {"notes": (notes := Notes(after)), "start": zeros(), "evaluate_clients": None} | options
    for _ in after:
        with pytest.raises(KeyboardInterrupt):
            fakes.play(make, app, folder, rounds, N, **how)
        how |= {"resume": notes.resume(), "start": notes.arrays}
    return notes.rounds, fakes.play(make, app, folder, rounds, N, **how).strategy.stopped


@pytest.mark.parametrize("after", [(), (2,), (1, 2, 3)])
def test_one_bad_round_does_not_end_a_clients_evaluations(after, tmp_path):
    app = failing(EVALUATE, [3])
    rounds, _ = play(app, tmp_path, 5, after)
    assert evaluated(app) == [1, 2, 3, 4, 5]
    assert [record.client_loss for record in rounds] == [1.0, 1.0, None, 1.0, 1.0]


@pytest.mark.parametrize("after", [(), (1,), (2, 3)])
def test_clients_without_evaluation_are_asked_once(after, tmp_path):
    app = failing(EVALUATE, range(9))
    play(app, tmp_path, 4, after)
    assert evaluated(app) == [1]


@pytest.mark.parametrize("after", [(), (1,), (2,), (1, 2)])
def test_rounds_without_an_update_are_counted_across_a_break(after, tmp_path):
    app = failing(TRAIN, range(2, 9))
    rounds, stopped = play(app, tmp_path, 8, after, max_empty_rounds=2)
    assert (len(rounds), stopped) == (3, "no usable update arrived in 2 rounds in a row (max-empty-rounds)")


class Undecided(flower.FedAvg):
    """An aggregation that makes no model of the updates that it is given."""

    def aggregate_train(self, server_round, replies):
        return None, None


@pytest.mark.parametrize("after", [(), (1,), (1, 2)])
def test_unusable_updates_are_no_success_after_a_resume(after, tmp_path):
    with pytest.raises(NothingTrainedError, match="not one update could be used"):
        play(failing(TRAIN, ()), tmp_path, 3, after, aggregation=Undecided())
