"""When a round begins and ends, whoever plays it: the roll call before it, its record, what the next one must know."""

import atexit
import logging
import math
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from aoi_fl.flower.grids import be_patient, uploads
from aoi_fl.protocol import ParticipationRequest, packing
from aoi_fl.science.devices import ROUND_TRIP
from aoi_fl.science.errors import AoiError, ConfigError, NothingTrainedError, ResumeError
from aoi_fl.science.selection import Population
from aoi_fl.strategies.aggregation.base import Aggregation
from aoi_fl.strategies.aggregation.private import Privacy
from aoi_fl.strategies.clock import MACHINE, Clock, clock_of
from aoi_fl.strategies.evaluation import Evaluation
from aoi_fl.strategies.joining import Joining
from aoi_fl.strategies.lifetime import RunObserver
from aoi_fl.strategies.plan import Resume, RoundOptions
from aoi_fl.strategies.policy import ClientOutcome, Plan, Policy, Result, RoundOutcome, RoundView, named
from aoi_fl.strategies.questions import Inbox
from aoi_fl.strategies.records import SURPLUS, ClientRecord, Observer, Participation, RoundRecord, State
from aoi_fl.strategies.retry_policy import QUESTION
from aoi_fl.strategies.roster import Roster
from aoi_fl.strategies.round_timer import RoundTimer, between_looks
from aoi_fl.strategies.serving import ServedModel
from aoi_fl.strategies.so_far import RunProgress, nothing_trained
from aoi_fl.strategies.stragglers import Stragglers

logger = logging.getLogger("flwr")
_MOST_IN_VAIN = 3  # rounds of somebody else's loop in which nothing is trained, unless the options say how many
_begun: Counter[int] = Counter()  # runs of ours by Flower's id


class Bookkeeping:
    """The run's clients and its round at hand.

    Parameters
    ----------
    policy : decides which clients take part
    needs : clients without which the run does not begin
    aggregation : what makes a model of the updates
    options, observer, resume : as in :class:`aoi_fl.strategies.round.AgeAwareStrategy`
    """

    def __init__(
        self,
        policy: Policy,
        needs: int,
        aggregation: Aggregation,
        options: RoundOptions,
        observer: Observer,
        resume: Resume | None,
    ) -> None:
        self.policy, self.options, self.observer = policy, options, observer
        self._needs, self._aggregation, self._resume = needs, aggregation, resume
        self.roster = Roster(resume.clients if resume else (), expected=needs, packs=options.packing == packing.AUTO)
        self._clock: Clock = MACHINE
        self._stragglers = Stragglers(options.late_rounds, self.roster)
        self._privacy: Privacy | None = None  # of a private run, from its start on
        self._served = ServedModel(options.serve_average)
        self._joining: Joining | None = None
        self._so_far = RunProgress()
        self._pace = RoundTimer(options.round_seconds)
        self._inbox = Inbox()
        self._over: str | None = None  # why the run is complete
        self._unable: set[int] = set()  # clients that have failed to evaluate
        self._last = 0  # the last round that our own start plays; 0 where somebody else does
        # Of the round at hand.
        self._record = RoundRecord(0)
        self._begun = 0.0
        self._step_begun = 0.0
        self._opened: float | None = None  # in simulated time
        self._plan = Plan(np.empty(0, np.int64), np.empty(0))
        self._view: RoundView | None = None  # of the last plan
        self._first_part = self._attempt = 0  # participations before the training, and before its second attempt
        self._observed = True
        self._model = ArrayRecord()
        self._evaluation: Evaluation | None = None
        self._outstanding = False  # somebody else plays the rounds, and has not handed the replies on yet
        self._withheld = False  # nor has it done so, to all appearances, when the round was over
        self._failed = False
        self._unrecorded: ArrayRecord | None = None  # the model after a round that is not written down yet

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return all that the next round needs to know of those before it: (n,) arrays by client number, and more."""
        return {
            "last": self.roster.last,
            "next_round": self.roster.next_round,
            "away": self.roster.away,
            "seen": self.roster.seen,
            "so_far": self._so_far.state_dict(),
            "unable": np.array(sorted(self._unable), np.int64),
            **self.roster.patience.state_dict(simulated=self._clock.simulated is not None),
            **self._clock.state_dict(),
            **self._stragglers.state_dict(),
            **self._served.state_dict(),
            **self._aggregation.state_dict(),
            **({} if self._over is None else {"over": np.frombuffer(self._over.encode(), np.uint8)}),
            **self.policy.state_dict(),
        }

    def load_state_dict(self, memory: State) -> None:
        """Take back what :meth:`memory` returned; clients met since then follow at the arrays' ends."""
        for name in ("last", "next_round", "away", "seen"):
            if name in memory:
                getattr(self.roster, name)[: len(memory[name])] = memory[name]
        self.roster.patience.load_state_dict(memory, simulated=self._clock.simulated is not None)
        if "so_far" in memory:
            self._so_far = RunProgress.load_state_dict(memory["so_far"])
        self._unable = set(memory.get("unable", np.empty(0, np.int64)).tolist())
        if self._so_far.idle == self.options.max_empty_rounds:  # it was stopped for that, and is to try again
            self._so_far.idle = 0
        self._clock.load_state_dict(memory)
        self._stragglers.load_state_dict(memory)
        self._aggregation.load_state_dict(memory)
        self._over = memory["over"].tobytes().decode() if "over" in memory else None
        self.policy.load_state_dict(memory)

    def _take_back(self, memory: State) -> None:
        try:
            self.load_state_dict(memory)
        except AoiError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ResumeError(
                f"what the run's checkpoint holds beside the model does not fit this strategy ({type(error).__name__}: "
                f"{error}). Go on with the version and the settings that it was made with, or start a new run."
            ) from error

    def population(self, round_: int) -> Population:
        """Return the clients as a selector sees them, with what the grid's clock tells, if it has one."""
        foresight = self._clock.foresight if self.options.foresight else None
        return replace(self.roster.population(round_), now=self._clock.simulated, foresight=foresight)

    def _ask(self, round_: int) -> ParticipationRequest:
        looks = between_looks(max(self._needs, len(self.roster)))
        ask = ParticipationRequest(
            self.options.run, round_, looks=looks, token=self.options.token, pace=self._round_duration
        )
        if self._separation == 1 or self._privacy is None:
            return ask
        return replace(ask, min_separation=self._separation, rounds=self._privacy.spec.rounds)

    @property
    def _separation(self) -> int:
        """The least number of rounds between two participations of a client that count."""
        return 1 if self._privacy is None else self._privacy.separation

    @property
    def _round_duration(self) -> float | None:
        """Seconds of a round; None where clients evaluate, since any of them may be needed in any round."""
        evaluating = self.options.evaluators(1) and not self._so_far.unevaluable
        return None if evaluating else self._pace.seconds

    def _plain(self, ask: ParticipationRequest) -> ParticipationRequest:
        """Return what a message says to clients that decide nothing."""
        return replace(ask, pace=None)

    def _join(self, first: int, grid: Grid) -> Joining:
        """Take up the run, wait for its clients."""
        self._clock = clock_of(grid)
        be_patient(grid)
        if self._resume is not None:
            if first != self._resume.next_round:
                raise ConfigError(
                    "round",
                    first,
                    f"{self._resume.next_round}, the next round of the resumed run",
                    "Start with that round.",
                )
            if self._resume.memory:
                self._take_back(self._resume.memory)
        if not self.options.run:
            self.options = replace(self.options, run=_next_name(grid.run.run_id))
        self._joining = Joining(self.roster, self.options, self._needs, first)
        self._joining.await_clients(grid)
        if not self._last:
            atexit.register(self._leave)
        return self._joining

    def _played(self) -> ConfigError:
        return ConfigError(
            "strategy",
            type(self).__name__,
            "a new one: this one has been used for a run already",
            "Create a new one for each run.",
        )

    def _refuse_another_run(self, round_: int) -> None:
        """Refuse to begin a round that is over, as a loop of somebody else's does that plays a second run."""
        over = self._unrecorded is None and not self._outstanding
        if self._joining is not None and (round_ < self._record.round or (over and round_ == self._record.round)):
            raise self._played()

    def _hear_refused(self) -> None:
        """Drop and name whose replies a loop that is not ours was not shown, where it has handed nothing on."""

    def _settle(self, arrays: ArrayRecord) -> None:
        """See by the model that somebody else comes with whether something was made of replies that we did not get."""
        self._hear_refused()
        if self._outstanding:
            self._outstanding, self._unrecorded = False, arrays
            self._record.empty = self._withheld = arrays is self._model
            self._so_far.trained |= not self._record.empty
            self._check_training()

    def _open(self, round_: int, grid: Grid) -> None:
        """Begin a round: its record, and the roll call."""
        if self._record.round == round_:
            return
        self._close()
        joining = self._joining or self._join(round_, grid)
        self._record, self._evaluation = RoundRecord(round_, started=time.time()), None
        self._begun, self._opened = time.monotonic(), self._clock.simulated
        self._greet(round_, grid, joining)

    def _greet(self, round_: int, grid: Grid, joining: Joining) -> list[ClientRecord]:
        """Call the roll, and hear what clients say that come with it; return those that are new."""
        ask = self._ask(round_)
        if uploads(grid) and (self._resume is None or round_ > joining.first):
            # Over a network a newcomer then costs one exchange. Whom a resumed run meets again may know its round.
            ask = self.policy.request_for(ask, None, "hello") or self._plain(ask)
        else:
            ask = self._plain(ask)
        with self._record.timed("hello"):
            fresh, waited = joining.call_roll(grid, ask)
        self._record.nodes = joining.nodes if uploads(grid) else None
        for client, answer in joining.answers.items():
            self._inbox.put(ask, client, answer)
        for client, answer in joining.late.items():
            if answer.next_round is not None and answer.next_round >= round_:  # it may sleep until then
                self.roster.note_decision(client, answer, round_, self._round_duration)
                self.roster.patience.answered(QUESTION, client)
        self._record.add_seconds("hello", -waited)
        self._begun += waited
        self._record.messages += 2 * len(fresh)
        if fresh:
            self.observer.clients_seen(fresh)
        return fresh

    def _greet_newcomers(self, round_: int, grid: Grid) -> None:
        """Greet who has come since the round was opened: as long as it is not greeted, it looks in vain."""
        if self._joining is not None and self._clock.simulated is None:
            self._greet(round_, grid, self._joining)

    @property
    def _time_is_up(self) -> bool:
        """Whether no further round begins, for the simulated time that has passed."""
        now = self._clock.simulated or 0.0
        if now == self._opened:  # nobody was sent anything, see _close
            now += ROUND_TRIP
        return 0 < self.options.until <= now

    @property
    def ending(self) -> bool:
        """Whether the round at hand, whose training is over, is the last: by its number, by time, or by the budget."""
        over = self._over or self._privacy_over(self._record.round + 1)
        return self._record.round == self._last or self._time_is_up or over is not None

    def _privacy_over(self, round_: int) -> str | None:
        """Return why a private run must not play a round."""
        return None if self._privacy is None else self._privacy.over(round_)

    def _observe(self) -> None:
        """Let the policy learn from the round, once."""
        if self._observed or self._view is None:
            return
        self._observed, view, self._view = True, self._view, None  # a view refers to the strategy: no cycle stays
        record, plan = self._record, self._plan
        record.participations = [_with_terms(part, plan) for part in record.participations]
        outcomes = [
            ClientOutcome(
                part.client,
                "ask" if place < self._first_part else "train",
                plan.forced and place >= self._attempt,
                part.refreshed,
                cast(Result, "surplus" if part.reason == SURPLUS else part.outcome),
                part.loss,
                part.seconds,
                part.rounds_late,
            )
            for place, part in enumerate(record.participations)
        ]
        with named(self.policy, "observe"):
            self._over = self.policy.observe(RoundOutcome(view, plan, outcomes, record.declined))

    def _close(self, by_start: bool = False) -> None:
        """Write the round down, unless it is our own start that does so when it is over."""
        if self._unrecorded is None or (self._last and not by_start):
            return
        arrays, self._unrecorded = self._unrecorded, None
        self._record.seconds = time.monotonic() - self._begun
        if self._opened is not None and self._clock.simulated == self._opened:  # nobody was sent anything
            self._clock.wait((), 0, 0.0, self._opened + ROUND_TRIP)
        self._record.clock = self._clock.simulated
        if self._privacy is not None:
            self._record.epsilon = self._privacy.epsilon(self._record.round)
        if self._record.round == self._last or self._time_is_up:
            self._stragglers.end(self._record, self._clock)
        self._so_far.idle = self._so_far.idle + 1 if self._record.empty else 0
        self.observer.round_done(self._record, arrays, self.state_dict())

    def _leave(self) -> None:
        """Tell the observer what is left to tell, where somebody else has played the rounds.

        Where replies were never handed on, and nobody came back with a model, this is the first moment to say so. It is
        too late to fail the run, whose ledger alone can still be put right.
        """
        with suppress(NothingTrainedError):  # as is said below
            self._hear_refused()
        self._close()
        self._withheld, self._outstanding = self._withheld or self._outstanding, False
        nothing = None if self._so_far.trained else self._nothing_trained()
        if nothing is not None and not self._failed:
            logger.error("%s", nothing)
        if isinstance(self.observer, RunObserver):
            how = "the rounds were played by a loop of its own, which does not say how it ended"
            self.observer.run_ends(None if nothing else how, nothing)

    def _check_trained(self) -> None:
        if not self._so_far.trained:
            self._close()
            self._failed = True
            raise self._nothing_trained()

    def _nothing_trained(self) -> NothingTrainedError:
        return nothing_trained(self._record, len(self._plan.clients) if self._withheld else 0)

    def _check_training(self) -> None:
        """Warn of a round of somebody else's loop in which nothing was trained as in those before; of several, raise.

        Our own ``start`` knows which round is the last, and goes on until then.
        """
        if self._so_far.trained:
            return
        most = self.options.max_empty_rounds or _MOST_IN_VAIN
        if self._so_far.idle + 1 >= most:
            self._check_trained()
        logger.warning("%s (After %d such rounds the run ends as failed.)", self._nothing_trained(), most)


def _with_terms(part: Participation, plan: Plan) -> Participation:
    """Return a client's part with what it was paid, and the φ by which it was ranked."""
    payment, sensitivity = (
        None if values is None or math.isnan(values[part.client]) else float(values[part.client])
        for values in (plan.payments, plan.sensitivities)
    )
    return part if payment is sensitivity is None else replace(part, payment=payment, sensitivity=sensitivity)


def _next_name(run_id: int) -> str:
    """Return a name made from Flower's run id, another one for each of our runs that one of Flower's plays in turn.

    Clients keep their state by the run's name: under one name the second would find them as the first has left them.
    """
    _begun[run_id] += 1
    return f"flwr-{run_id}" + (f"-{_begun[run_id]}" if _begun[run_id] > 1 else "")
