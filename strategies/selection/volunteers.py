"""Bound how often a client that decides for itself is taken, by the law of its rule.

A client that keeps to its rule takes part in a round with the hazard p of its interval's law, given its last
participation. For odds θ a round multiplies a number M of the client by θ/(1 − p + θp) if it takes part, and by
1/(1 − p + θp) if not. M begins at 1, and its mean never grows. So it ever reaches 1/ε with probability ε at most
(Ville's inequality). A round that would bring M to 1/ε is not given to the client. M is the mean over several θ.

A refused update counts as a participation. After a lost or refused one the client may or may not have begun anew, so
the larger of both hazards counts. A round whose answer was lost, and an age that the law does not have, change no M.
"""

from collections.abc import Callable

import numpy as np

from aoi_fl.protocol.records import State
from aoi_fl.science.rule import IntervalLaw
from aoi_fl.science.types import Floats, Ints, Mask
from aoi_fl.strategies.policy import ClientOutcome, RoundOutcome

_ODDS = np.array([[1.25], [2.0], [8.0], [64.0]])
_STATE = ("volunteers-logs", "volunteers-last", "volunteers-sent")


class VolunteerBound:
    """Compares each client's participations with the law of its rule."""

    def __init__(self) -> None:
        self._logs: Floats = np.zeros((len(_ODDS), 0))
        # The round of the last update, 0: unknown; and the last round that a client may have taken part in.
        self._rounds: Ints = np.zeros((2, 0), np.int64)
        self._known: Mask = np.zeros(0, np.bool_)  # whose hazard of the present round is known
        self._more: Floats = np.zeros(0)  # θp − p, of the present round

    def allowed(self, law: IntervalLaw, clients: int, round_: int, error: float) -> Mask:
        """Return (n,) the clients that may take part in a round.

        Parameters
        ----------
        law : the law of the interval between two participations of a client
        clients, round_ : n and the round
        error : ε, the probability that an honest client is ever left out
        """
        pmf = law.interval_pmf()
        left = np.maximum(1 - np.cumsum(pmf) + pmf, pmf)
        hazards = np.divide(pmf, left, out=np.ones(len(pmf)), where=left > 0)
        new = ((0, 0), (0, clients - self._rounds.shape[1]))
        self._logs, self._rounds = np.pad(self._logs, new), np.pad(self._rounds, new)
        last = self._rounds[0]
        self._known = (last > 0) & (round_ - last <= len(hazards))
        ages = np.where(self._known, round_ - self._rounds, 1)
        chance = hazards[ages - 1].max(axis=0)
        self._more = np.log1p((_ODDS - 1) * chance)
        after = self._logs + np.where(self._known, np.log(_ODDS) - self._more, 0.0)
        allowed: Mask = np.logaddexp.reduce(after, axis=0) - np.log(len(_ODDS)) < -np.log(error)
        return allowed

    def note(self, outcome: RoundOutcome) -> None:
        """Learn from a round once its updates are in."""

        def clients(fits: Callable[[ClientOutcome], bool]) -> Mask:
            return np.isin(np.arange(self._rounds.shape[1]), [one.client for one in outcome.clients if fits(one)])

        trained = clients(lambda one: one.result == "trained")
        sent = clients(lambda one: one.step == "train" and one.result != "declined")
        took = trained | clients(lambda one: one.result == "refused")
        forced = clients(lambda one: one.forced)
        counts = self._known & ~forced & (took | ~sent)
        self._logs += np.where(counts, np.where(took, np.log(_ODDS), 0.0) - self._more, 0.0)
        self._rounds = np.where([trained, sent], outcome.view.round, self._rounds)

    def state_dict(self) -> State:
        """Return what is known of the clients."""
        return dict(zip(_STATE, (self._logs, *self._rounds), strict=True))

    def load_state_dict(self, state: State) -> None:
        """Restore it."""
        if _STATE[0] in state:
            self._logs, *rounds = (np.array(state[name]) for name in _STATE)
            self._rounds = np.array(rounds)
