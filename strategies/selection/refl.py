"""REFL (Abdelmoniem et al. 2023): of the clients that are there, those least likely to be there next."""

from typing import Any

from aoi_fl.science.refl import Refl
from aoi_fl.strategies.selection.central import seed_of
from aoi_fl.strategies.selection.learned import LearnedSelection


class ReflSelection(LearnedSelection):
    """``per_round`` clients of those connected, by how likely each is to be there next, with equal weights.

    Parameters
    ----------
    per_round : k
    """

    selector: Refl

    def __init__(self, per_round: int, **settings: Any) -> None:
        super().__init__(Refl(per_round, seed_of(settings)), **settings)

    def parameters(self) -> dict[str, Any]:
        """Return the policy's kind, k and how long who has trained rests."""
        return super().parameters() | {"rest": self.selector.rest}
