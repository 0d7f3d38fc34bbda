"""What a strategy learns of who is there, round after round, and what it says of rates that nobody can keep."""

import logging
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from aoi_fl.config.values import Compensate
from aoi_fl.science.absence import achievable
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.presence import Presence
from aoi_fl.strategies.policy import Mask, RoundOutcome, State

logger = logging.getLogger("flwr")

_FIRST = 20  # rounds before anything is said: what is known by then is little
_MORE = 0.1  # of k: what a shortfall must have grown by to be told again
_AWAY = ("late", "failed", "refused", "declined")  # results


class Absence:
    """Who was there in each round: a client that takes no part in what is asked of it, for whatever reason, was not.

    There is who was connected and not found out of reach: whoever did not answer, is therefore not asked for a while,
    sent no update that counts, or declined by a rule of its owner's, was away. Of who sleeps until its round, by leave
    of the policy, nothing is known, nor of one that was not waited for as enough others had come.

    Two things are learned in part only. A client that is connected and loses a share d of its work is away just in the
    rounds in which it tried: a comes out near 1 − r·d for a rate r, not 1 − d, and it stays below its rate. Of one that
    sleeps, presence is mostly slept through and absence is watched: a comes out too low where absences last, and it
    takes part too often.

    Attributes
    ----------
    presence : what is known of each client
    """

    def __init__(self) -> None:
        self.presence = Presence()
        self._told = 0.0  # participations a round that were said to be out of reach

    def note(self, outcome: RoundOutcome, asleep: Mask) -> None:
        """Take note of a round, once its updates are in; ``asleep`` are (n,) the clients that were so when it began.

        A client that is forced in a second attempt has declined the first, and so was there.
        """
        view = outcome.view
        again = [one.client for one in outcome.clients if one.forced] if view.second_attempt else []
        here = view.free & ~view.resting
        here[[one.client for one in outcome.clients if one.result in _AWAY]] = False
        here[again] = True
        met = view.known
        met[: len(asleep)][asleep] = False
        met[[one.client for one in outcome.clients if one.result == "surplus" and one.client not in again]] = False
        self.presence.note(here, met)

    def achieved(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n,) what the clients achieve of their target rates."""
        return achievable(rates, self.presence.reach(len(rates)).share[: len(rates)])

    def warn(self, rates: NDArray[np.float64], round_: int) -> None:
        """Say how much of the target rates is out of reach, when that is known, and again whenever it has grown."""
        if round_ < _FIRST:
            return
        lacking = rates - self.achieved(rates)
        if (total := float(lacking.sum())) > self._told + _MORE * rates.sum():
            self._told = total
            logger.warning(
                "Round %d: %d clients are available less often than their rates ask, client %d by most: %.3g of %.3g "
                "participations a round are out of reach. Give such clients smaller rates, or lower clients-per-round.",
                round_, np.count_nonzero(lacking > 0), int(np.argmax(lacking)), total, float(rates.sum()),
            )  # fmt: skip

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return what is known, as arrays by name."""
        return {**self.presence.state_dict(), "absence-told": np.array([self._told])}

    def load_state_dict(self, state: State) -> None:
        """Take back what :meth:`state_dict` returned."""
        self.presence, self._told = Presence.recalled(state), float(state["absence-told"][0])


def make_absence(compensate: Compensate) -> Absence | None:
    """Return what learns each client's availability, or None where that is not compensated for.

    Raises ConfigError for a value that there is not.
    """
    if compensate not in get_args(Compensate):
        raise ConfigError("compensate", compensate, get_args(Compensate), "Choose one of these.")
    return Absence() if compensate == "availability" else None
