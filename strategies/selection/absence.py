"""Each client's availability, learned round by round, and warnings about rates out of reach."""

from typing import get_args

import numpy as np

from aoi_fl.config.values import Compensate
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.science.absence import achievable
from aoi_fl.science.errors import check_choice
from aoi_fl.science.presence import Presence
from aoi_fl.science.types import Floats, Mask
from aoi_fl.strategies.policy import RoundOutcome

_FIRST = 20  # rounds before the first warning, while little is known
_MORE = 0.1  # of k: growth of a shortfall before the next warning
_AWAY = ("late", "failed", "refused", "declined")  # results


class Absence(Presence):
    """Learns in which rounds each client was available.

    A client was available if it was connected and within reach. It was absent if it did not answer, rests for that
    reason, sent no update that counts, or declined by its owner's rule. A sleeping client shows nothing, and neither
    does a client of a surplus.

    Notes
    -----
    Two estimates are biased. A connected client that loses a share d of its work is absent only when it tries, so its
    availability appears as 1 − r·d for a rate r and not as 1 − d; it stays below its rate. A sleeping client is seen
    more when it is absent, so long absences make the estimate too low, and it takes part too often.
    """

    _warned_of = 0.0  # participations a round in the last warning

    def learn(self, outcome: RoundOutcome, asleep: Mask) -> None:
        """Learn from a round once its updates are in; ``asleep`` (n,) are the clients that slept at its start.

        A client that is forced in a second attempt has declined the first one, so it was available.
        """
        view = outcome.view
        again = [one.client for one in outcome.clients if one.forced] if view.second_attempt else []
        here = view.free & ~view.resting
        here[[one.client for one in outcome.clients if one.result in _AWAY]] = False
        here[again] = True
        met = view.known
        met[: len(asleep)][asleep] = False
        met[[one.client for one in outcome.clients if one.result == "surplus" and one.client not in again]] = False
        self.note(here, met)

    def achieved(self, rates: Floats) -> Floats:
        """Return (n,) the rates that the clients achieve."""
        return achievable(rates, self.reach(len(rates)).share[: len(rates)])

    def warn(self, rates: Floats, round_: int) -> None:
        """Warn of target rates out of reach, and again when the shortfall has grown."""
        if round_ < _FIRST:
            return
        lacking = rates - self.achieved(rates)
        if (total := float(lacking.sum())) > self._warned_of + _MORE * rates.sum():
            self._warned_of = total
            logger.warning(
                "Round %d: %d clients are available less often than their rates ask, client %d by most: %.3g of %.3g "
                "participations a round are out of reach. Give such clients smaller rates, or lower clients-per-round.",
                round_,
                np.count_nonzero(lacking > 0),
                int(np.argmax(lacking)),
                total,
                float(rates.sum()),
            )

    def state_dict(self) -> State:
        """Return the state as arrays by name."""
        return {**super().state_dict(), "absence-told": np.array([self._warned_of])}

    def load_state_dict(self, state: State) -> None:
        """Restore a state."""
        super().load_state_dict(state)
        self._warned_of = float(state["absence-told"][0])


def make_absence(compensate: Compensate) -> Absence | None:
    """Return the learner of availability, or None under another compensation; raise ConfigError for an unknown one."""
    check_choice("compensate", compensate, get_args(Compensate))
    return Absence() if compensate == "availability" else None
