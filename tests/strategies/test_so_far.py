"""How a run is judged: the same after a break as without one, and whoever plays the rounds."""

import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.serverapp import strategy as flower

from aoi_fl.science.errors import NothingTrainedError
from aoi_fl.server.ledger import read_run
from aoi_fl.server.record import record
from aoi_fl.strategies import RandomSelection, RoundOptions
from tests.fakes import Notes, ScriptedGrid, ToyApp, zeros

N = 3


def failing(at=(), mortals=range(N)) -> ToyApp:
    """Return an app that fails at some pairs of message type and round."""
    at = set(at)

    def behave(message, act, kind, round_, client):
        if (kind, round_) in at and client in mortals:
            raise OSError("no power")
        return act()

    return ToyApp(examples=1, evaluates=1.0, spoil=behave)


def rounds_of(app, kind):
    return sorted({round_ for sent, round_, _ in app.sent if sent == kind})


def play(app, folder, rounds, after=(), aggregation=None, **options):
    """Run rounds, resumed after each of these; return their records and why the run stopped, if it did."""
    notes, resume = Notes(after), None
    for _ in range(len(after) + 1):
        strategy = RandomSelection(
            N, aggregation=aggregation, options=RoundOptions(run="r", join_timeout=0.2, **options), observer=notes,
            resume=resume,
        )  # fmt: skip
        try:
            grid = ScriptedGrid(app, {"runs-dir": str(folder)}, N)
            strategy.start(grid, notes.arrays if notes.models else zeros(), rounds)
        except KeyboardInterrupt:
            resume = notes.resume()
    return notes.rounds, strategy.stopped


@pytest.mark.parametrize("after", [(), (2,), (1, 2, 3)])
def test_one_bad_round_does_not_end_a_clients_evaluations(after, tmp_path):
    app = failing({("evaluate", 3)})
    rounds, _ = play(app, tmp_path, 5, after)
    assert rounds_of(app, "evaluate") == [1, 2, 3, 4, 5]
    assert [record.client_loss for record in rounds] == [1.0, 1.0, None, 1.0, 1.0]


@pytest.mark.parametrize("after", [(), (1,), (2, 3)])
def test_clients_without_evaluation_are_asked_once(after, tmp_path):
    app = failing(("evaluate", round_) for round_ in range(9))
    play(app, tmp_path, 4, after)
    assert rounds_of(app, "evaluate") == [1]


@pytest.mark.parametrize("after", [(), (1,), (2,), (1, 2)])
def test_rounds_without_an_update_are_counted_across_a_break(after, tmp_path):
    app = failing(("train", round_) for round_ in range(2, 9))
    rounds, stopped = play(app, tmp_path, 8, after, max_empty_rounds=2)
    assert (len(rounds), stopped) == (3, "no usable update arrived in 2 rounds in a row (max-empty-rounds)")


def test_one_failed_evaluation_does_not_end_evaluations(tmp_path):
    app = failing({("evaluate", round_) for round_ in range(99)}, mortals=range(2))
    rounds, _ = play(app, tmp_path, 12, evaluate_clients=1)
    judged = [record.client_loss is not None for record in rounds]
    assert not judged[0] and any(judged)  # by a seed with which one that cannot is drawn first


@pytest.mark.parametrize("after", [(), (1,), (2, 3)])
def test_every_drawn_client_is_asked_before_evaluation_ends(after, tmp_path):
    app = failing(("evaluate", round_) for round_ in range(99))
    play(app, tmp_path, 30, after, evaluate_clients=1)
    asked = rounds_of(app, "evaluate")
    assert N <= len(asked) < 30 and asked == list(range(1, len(asked) + 1))


class Undecided(flower.FedAvg):
    """An aggregation that makes no model of the updates that it is given."""

    def aggregate_train(self, server_round, replies):
        return None, None


@pytest.mark.parametrize("after", [(), (1,), (1, 2)])
def test_unusable_updates_are_no_success_after_a_resume(after, tmp_path):
    with pytest.raises(NothingTrainedError, match="not one update could be used"):
        play(failing(), tmp_path, 3, after, aggregation=Undecided())


class Bare(RandomSelection):
    """Somebody's own loop, which trains and never evaluates."""

    def start(self, grid, initial_arrays, num_rounds=3, **_):
        arrays = initial_arrays
        for round_ in range(1, num_rounds + 1):
            messages = self.configure_train(round_, arrays, ConfigRecord(), grid)
            fresh, _ = self.aggregate_train(round_, grid.send_and_receive(messages))
            arrays = arrays if fresh is None else fresh
        return arrays


class BareWithPrivacy(flower.DifferentialPrivacyServerSideFixedClipping):
    """The same loop in a subclass of Flower's wrapper, which clips what ours is handed."""

    start = Bare.start


def private(strategy):
    return BareWithPrivacy(strategy, noise_multiplier=0.0, clipping_norm=1e6, num_sampled_clients=N)


LOOPS = {"one's own": Bare, "a wrapper's": lambda per_round, **s: private(RandomSelection(per_round, **s))}


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_loop_that_never_evaluates_is_a_success_if_it_trained(make, rounds, tmp_path):
    observer = Notes()
    strategy = make(N, observer=observer)
    arrays = strategy.start(ScriptedGrid(failing(), {"runs-dir": str(tmp_path)}, N), zeros(), rounds)
    np.testing.assert_allclose(arrays["w"].numpy(), np.full(2, rounds), rtol=1e-6)
    (strategy if make is Bare else strategy.strategy)._loop.leave()  # as the interpreter does at its end
    assert [(record.round, record.trained) for record in observer.rounds] == [(r, N) for r in range(1, rounds + 1)]


@pytest.mark.parametrize(("make", "rounds"), [(Bare, 3), (LOOPS["a wrapper's"], 4)])
def test_a_loop_that_never_evaluates_fails_if_it_trained_nobody(make, rounds, tmp_path):
    app = failing(("train", round_) for round_ in range(9))
    with pytest.raises(NothingTrainedError, match="not one update could be used in 3 round"):
        make(N).start(ScriptedGrid(app, {"runs-dir": str(tmp_path)}, N), zeros(), rounds)


def test_max_empty_rounds_ends_a_foreign_loop(tmp_path):
    app = failing(("train", round_) for round_ in range(9))
    strategy = Bare(N, options=RoundOptions(max_empty_rounds=2))
    with pytest.raises(NothingTrainedError, match="not one update could be used in 2 round"):
        strategy.start(ScriptedGrid(app, {"runs-dir": str(tmp_path)}, N), zeros(), 9)


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_an_empty_first_round_only_warns_a_foreign_loop(make, tmp_path, caplog):
    app = failing({("train", 1)})
    arrays = make(N).start(ScriptedGrid(app, {"runs-dir": str(tmp_path)}, N), zeros(), 3)
    np.testing.assert_allclose(arrays["w"].numpy(), [2.0, 2.0], rtol=1e-6)
    (said,) = [m for m in caplog.messages if "not one update could be used" in m]
    assert said.endswith("After 3 such rounds the run fails.")
    assert "client-0 failed: error: OSError" in said


@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_a_loop_that_trains_no_client_fails_in_the_ledger(make, tmp_path, caplog):
    """Ours is not called again, so nothing can fail the run itself."""
    recording = record("mine", tmp_path / "runs")
    strategy = make(N, observer=recording)
    app = failing({("train", 1)})
    strategy.start(ScriptedGrid(app, {"runs-dir": str(tmp_path)}, N), zeros(), 1)
    (strategy if make is Bare else strategy.strategy)._loop.leave()  # as the interpreter does at its end
    assert "not one update could be used in 1 round" in caplog.text
    about = read_run(recording.folder / "ledger.sqlite")
    assert about["status"] == "failed" and "not one update could be used" in about["reason"]
