"""A run: its clients, and what one round leaves to the next."""

import math
from collections import Counter
from dataclasses import astuple, replace
from typing import Literal

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import Grid

from aoi_fl.flower.grids import be_patient, uploads
from aoi_fl.protocol import MAX_MU, ParticipationRequest
from aoi_fl.protocol.clock import ROUND_TRIP, clock_of
from aoi_fl.protocol.records import BELOW_QUORUM, State
from aoi_fl.science.errors import AoiError, NothingTrainedError, ResumeError
from aoi_fl.science.selection import Population
from aoi_fl.strategies.round.at_work import AtWork
from aoi_fl.strategies.round.current import Round
from aoi_fl.strategies.round.roll_call import RollCall
from aoi_fl.strategies.round.shared import RunProgress, Shared
from aoi_fl.strategies.round.timer import between_looks
from aoi_fl.strategies.serving import ServedModel

_POLICY = "policy/"  # begins the names of the policy's own state
_OF_CLIENTS = ("last", "next_round", "away", "seen")  # arrays of the roster that a resumed run restores
_begun: Counter[int] = Counter()  # runs of ours by Flower's id


class StrategyRun(Shared):
    """The state of a run.

    Attributes
    ----------
    at_work, served : the parts that outlive a round
    roll : waits for clients and calls the roll
    complete : why the run is complete before its last round; None: it is not
    last : the last round; 0 before the start
    unable : clients that have failed to evaluate
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_work, self.served = AtWork(self), ServedModel(self.options.serve_average)
        self.roll = RollCall(self)
        self.complete: str | None = None
        self.last = self._started = 0  # the last round of all, and the last that has started
        self.unable = set[int]()

    def state_dict(self) -> State:
        """Return what the next round needs: (n,) arrays by client number, and the states of the parts."""
        return {
            **{name: getattr(self.roster, name) for name in _OF_CLIENTS},
            "so_far": np.array(astuple(self.progress), np.int64),
            "unable": np.array(sorted(self.unable), np.int64),
            **self.roster.patience.state_dict(simulated=self.clock.simulated is not None),
            **self.clock.state_dict(),
            **self.at_work.state_dict(),
            **self.served.state_dict(),
            **self.aggregation.state_dict(),
            **({} if self.complete is None else {"over": np.frombuffer(self.complete.encode(), np.uint8)}),
            **{f"{_POLICY}{name}": array for name, array in self.policy.state_dict().items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state; clients met since then follow at the ends of arrays.

        Raises
        ------
        ResumeError
            The state does not fit.
        """
        try:
            for name in _OF_CLIENTS:
                getattr(self.roster, name)[: len(state[name])] = state[name]
            self.roster.patience.load_state_dict(state)
            self.progress = RunProgress(*state["so_far"].reshape(4).tolist())
            self.unable = set(state["unable"].tolist())
            if self.progress.idle == self.options.max_empty_rounds:  # the run stopped for that, and tries again
                self.progress.idle = 0
            self.clock.load_state_dict(state)
            self.at_work.load_state_dict(state)
            self.aggregation.load_state_dict(state)
            self.complete = state["over"].tobytes().decode() if "over" in state else None
            own = {name.removeprefix(_POLICY): value for name, value in state.items() if name.startswith(_POLICY)}
            self.policy.load_state_dict(own)
        except AoiError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ResumeError(
                f"what the run's checkpoint holds beside the model does not fit this strategy ({type(error).__name__}: "
                f"{error}). Go on with the version and the settings that it was made with, or start a new run."
            ) from error

    def population(self) -> Population:
        """Return the clients as a selector sees them, with what a simulated clock knows."""
        traits = self.policy.traits
        needs = traits.clients_needed if traits.least is None else traits.least
        return replace(
            self.roster.population(needs if self.places is None else min(needs, self.places)),
            now=self.clock.simulated,
            foresight=self.clock.foresight if self.options.foresight else None,
        )

    @property
    def places(self) -> int | None:
        """How many clients the server may select; None: any number, since there is no buffer, or clients decide."""
        if not self.options.buffer or self.policy.traits.decides:
            return None
        return max(0, self.most_at_work - len(self.at_work))

    def request(self, round_: int) -> ParticipationRequest:
        """Return what every message of a round says to clients that decide."""
        pace, elapsed = self.round_duration, None
        if pace is not None:  # else no client knows the duration; before the start the seconds are negative
            elapsed = self.timer.elapsed if round_ == self._started else -self.timer.remaining
        request = ParticipationRequest(
            self.options.run,
            round_,
            looks=between_looks(max(self.needs, len(self.roster)), self.roll.latency),
            token=self.options.token,
            pace=pace,
            elapsed=elapsed,
        )
        if self.private is None:
            return request
        spec = self.private.spec
        return replace(
            request,
            min_separation=self.separation,
            rounds=spec.rounds,
            mu=min(self.private.account.mu, MAX_MU),
            delta=spec.delta,
            clear=spec.metrics == "clear",
        )

    @property
    def hidden(self) -> bool:
        """Whether the run records of clients their participation alone."""
        return self.private is not None and self.private.spec.metrics == "hidden"

    def join(self, grid: Grid) -> None:
        """Begin the run, or go on with it, and wait for its clients.

        Raises
        ------
        NodesError
            There are too few clients for a new run.
        """
        self.grid, self.clock = grid, clock_of(grid)
        be_patient(grid)
        if self.resume is not None and self.resume.memory:
            self.load_state_dict(self.resume.memory)
        if not self.options.run:
            self.options = replace(self.options, run=_next_name(grid.run.run_id))
        self.roll.await_clients()

    def open(self, round_: int) -> None:
        """Begin a round, unless it has begun: its record, and the roll call."""
        if self.round.number == round_:
            return
        self.round = Round(round_, self.clock.simulated, self.hidden)
        self._greet()
        self.at_work.release()

    def wait_for_start(self) -> None:
        """Wait until the round may start, and greet new clients meanwhile."""
        self.timer.begin(lambda: self._greet() if self.clock.simulated is None else None)
        self._started = self.round.number

    def _greet(self) -> None:
        """Call the roll."""
        roll, round_, number = self.roll, self.round, self.round.number
        base, far = self.request(number), uploads(self.grid)
        request = base.untimed()
        if far and (self.resume is None or number > self.first):
            # Over a network a newcomer then costs one exchange. A client that a resumed run meets again may know its
            # round.
            request = self.policy.request_for(base, None, "hello") or request
        with round_.timed("hello"):
            fresh, waited = roll.begin_round(request)
        round_.record.nodes = roll.nodes if far else None
        round_.waited(waited)
        round_.record.messages += 2 * len(fresh)
        if fresh:
            shown = [replace(one, examples=None, sensitivity=None) for one in fresh] if self.hidden else fresh
            self.observer.clients_seen(shown)

    def observe(self) -> None:
        """Let the policy learn from the round."""
        self.complete = self.round.observe(self.policy) or self.complete

    def evaluate(self, source: Literal["test", "client"], metrics: MetricRecord) -> None:
        """Record what an evaluation measured; warn once of an accuracy that is no share."""
        number, record = self.round.number, self.round.record
        if caution := self.round.evaluate(source, metrics):
            name = "test accuracy" if source == "test" else "mean of the clients' accuracies"
            self.warn_once(source, "Round %d: the %s %s", number, name, caution)
        if math.inf in (record.test_loss, record.test_rmse):
            diverged = "The model has diverged. Lower learning-rate, noise or momentum."
            self.warn_once("loss", "Round %d: the test loss is not a number. %s", number, diverged)

    @property
    def time_is_up(self) -> bool:
        """Whether no further round begins, because of the simulated time that has passed."""
        now = self.clock.simulated or 0.0
        if now == self.round.opened and not self.round.record.trained:  # no message was sent, see close
            now += ROUND_TRIP
        return 0 < self.options.until <= now

    def over(self, round_: int) -> str | None:
        """Return why a round must not begin; None: it may."""
        return self.complete or (None if self.private is None else self.private.over(round_))

    def close(self, arrays: ArrayRecord) -> None:
        """Write the round down, with the model after it."""
        round_, record, opened = self.round, self.round.record, self.round.opened
        if opened is not None and self.clock.simulated == opened and not record.trained:  # no message was sent
            self.clock.wait((), 0, 0.0, opened + ROUND_TRIP)
        round_.close(self.clock.simulated, None if self.private is None else self.private.epsilon(round_.number))
        if round_.number == self.last or self.time_is_up:
            self.at_work.end()
        self.progress.idle = self.progress.idle + 1 if record.empty else 0
        record = record.participation_only() if self.hidden else record
        self.observer.round_done(record, arrays, self.state_dict())

    def check_trained(self) -> None:
        """Refuse to end a run in which nothing was trained.

        Raises
        ------
        NothingTrainedError
            Not one update could be used.
        """
        if self.progress.trained:
            return
        last = self.round.record.participation_only() if self.hidden else self.round.record
        lost = [part for part in last.participations if part.outcome != "trained"]
        reasons = list(dict.fromkeys(f"{part.name} {part.outcome}: {part.reason}" for part in lost))
        remedy = ". Raise train-timeout" if {p.outcome for p in last.participations} == {"late"} else ""
        if any(part.reason == BELOW_QUORUM for part in lost):
            remedy = ". Lower min-updates, or start the clients of must-include"
        none = "No client was sent the model in the last of them."
        if last.trained:
            none = f"In the last of them no model was made of {last.trained} updates."
        raise NothingTrainedError(
            f"not one update could be used in {last.round} round(s), so the model is the one that the run began with. "
            f"{'; '.join(reasons[:3]) or none}{remedy}"
        )


def _next_name(run_id: int) -> str:
    """Return a name made from Flower's run id, another one for each of our runs that one of Flower's plays in turn.

    Clients keep their state by the run's name, so a second run under one name would find the state of the first.
    """
    _begun[run_id] += 1
    return f"flwr-{run_id}" + (f"-{_begun[run_id]}" if _begun[run_id] > 1 else "")
