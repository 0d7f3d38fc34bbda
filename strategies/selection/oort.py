"""Oort (Lai et al. 2021): clients that have both much to teach and little time to take."""

from dataclasses import asdict
from typing import Any

from aoi_fl.science.oort import OortSelector, OortSettings
from aoi_fl.strategies.selection.central import seed_of
from aoi_fl.strategies.selection.learned import LearnedSelection


class OortSelection(LearnedSelection):
    """``per_round`` clients by the losses and seconds they last reported, weighted by data size.

    Seconds are measured, so that two runs of one seed differ; under a simulated clock they do not.

    Parameters
    ----------
    per_round : k
    oort : Oort's constants
    """

    selector: OortSelector

    def __init__(self, per_round: int, oort: OortSettings | None = None, **settings: Any) -> None:
        super().__init__(OortSelector(per_round, seed_of(settings), oort or OortSettings()), **settings)

    def parameters(self) -> dict[str, Any]:
        """Return the policy's kind, k and constants."""
        return super().parameters() | asdict(self.selector.settings)
