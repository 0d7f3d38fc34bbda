"""One round: its plan, the model that it trains, and what the policy learns from it."""

from typing import cast

import numpy as np
from flwr.app import ArrayRecord

from aoi_fl.protocol.records import BELOW_QUORUM, SURPLUS
from aoi_fl.strategies.policy import ClientOutcome, Plan, Policy, Result, RoundOutcome, RoundView
from aoi_fl.strategies.round.recorder import RoundRecorder


class Round:
    """The round at hand.

    Parameters
    ----------
    number : from 1; 0 before the first round
    opened : simulated seconds at which it began; None: time is the machine's
    hidden : whether the run records of clients their participation alone

    Attributes
    ----------
    recorder : of its record
    plan, planned : the last plan, and whether there is one
    model : what the clients of the plan are sent
    sent : seconds, by the run's clock, at which the model was sent
    step_begun : machine seconds at which the step at hand began
    """

    def __init__(self, number: int, opened: float | None = None, hidden: bool = False) -> None:
        self.recorder, self.opened = RoundRecorder(number, hidden), opened
        self.plan, self.planned = Plan(np.empty(0, np.int64), np.empty(0)), False
        self.model = ArrayRecord()
        self.sent = self.step_begun = 0.0
        self._view: RoundView | None = None  # of the last plan, until the policy has learned from the round
        self._trainings = 0  # outcomes before the training
        self._attempt = 0  # and before its second attempt

    @property
    def number(self) -> int:
        """The round's number."""
        return self.recorder.round

    def plan_by(self, view: RoundView, plan: Plan, policy: str) -> None:
        """Take a plan and the view that it was made from."""
        self._view = view
        self.recorder.plan(plan, policy)

    def begin_collection(self) -> None:
        """Separate the outcomes up to now from those of the training."""
        self._attempt = len(self.recorder.record.participations)
        if self._view is None or not self._view.second_attempt:
            self._trainings = self._attempt

    def may_try_again(self, arrays: ArrayRecord | None) -> bool:
        """Tell whether every client has declined the model, so that the policy may select another one."""
        return arrays is None and self.recorder.record.willing == 0 and self.plan.undecided

    def observe(self, policy: Policy) -> tuple[str | None] | None:
        """Let the policy learn from the round; return why the run is complete, in a tuple; None: it has learned."""
        if self._view is None:
            return None
        view, self._view = self._view, None  # a view refers to the strategy: no cycle stays
        record = self.recorder.record
        outcomes = [
            ClientOutcome(
                part.client,
                "ask" if place < self._trainings else "train",
                self.plan.forced and place >= self._attempt,
                part.refreshed,
                cast(Result, "surplus" if part.reason in (SURPLUS, BELOW_QUORUM) else part.outcome),
                part.loss,
                part.seconds,
                part.rounds_late,
            )
            for place, part in enumerate(record.participations)
        ]
        complete = policy.observe(RoundOutcome(view, self.plan, outcomes, record.declined))
        self.recorder.pay(self.plan)
        return (complete,)
