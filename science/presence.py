"""Each client's availability, and its return after an absence, learned round by round.

An available client leaves, and an unavailable one returns, each with its own probability, so spells are geometric. A
coin a round is the case in which both states have the same chance of availability next.
"""

from types import MappingProxyType

import numpy as np

from aoi_fl.science.client_stats import ClientArrays
from aoi_fl.science.types import Floats, Mask

WINDOW = 500  # rounds; one this long ago counts 1/e as much as the last
_KEPT = 1 - 1 / WINDOW
_COUNTS = ("rounds", "there", "aways", "returns", "stands", "stays")


class Presence(ClientArrays):
    """Counts of informative rounds for each of n clients; they forget with :data:`WINDOW` rounds' memory.

    At first a client counts as always available (Beta(1, 0)), as returning from an absence with probability 1/2, and as
    staying with certainty.

    Attributes
    ----------
    rounds, there : (n,) rounds, and those with the client available
    aways, returns : (n,) rounds after an absence, and those with the client available again
    stands, stays : (n,) rounds after a presence, and those with the client still available
    before : (n,) 1 if available in the last round, 0 if not, −1 if unknown
    """

    prefix = "presence"
    unknown = MappingProxyType(dict.fromkeys(_COUNTS, 0.0) | {"before": -1.0})

    rounds: Floats
    there: Floats
    aways: Floats
    returns: Floats
    stands: Floats
    stays: Floats
    before: Floats

    def note(self, here: Mask, known: Mask | None = None) -> None:
        """Take note of (n,) the clients available in the next round; ``known`` is False where that is unknown."""
        self.reach(len(here))
        known = np.ones(len(here), np.bool_) if known is None else known
        before = self.before[: len(here)]
        away, stood = before == 0, before == 1
        for count, seen in (
            (self.rounds, known),
            (self.there, here),
            (self.aways, away),
            (self.returns, away & here),
            (self.stands, stood),
            (self.stays, stood & here),
        ):
            count *= _KEPT
            count[: len(here)] += seen & known
        before[:] = np.where(known, here, -1.0)

    def of(self, client: int) -> tuple[float, float]:
        """Return a and b of one client, as :attr:`share` and :attr:`returning` have them."""
        share = (self.there[client] + 1) / (self.rounds[client] + 1)
        return float(share), float((self.returns[client] + 1) / (self.aways[client] + 2))

    @property
    def share(self) -> Floats:
        """Return (n,) a, the probability of availability, in (0, 1]."""
        return (self.there + 1) / (self.rounds + 1)

    @property
    def returning(self) -> Floats:
        """Return (n,) b, the probability of availability a round after an absence, in (0, 1)."""
        return (self.returns + 1) / (self.aways + 2)

    @property
    def staying(self) -> Floats:
        """Return (n,) the probability of availability a round after availability, in (0, 1]."""
        return (self.stays + 1) / (self.stands + 1)
