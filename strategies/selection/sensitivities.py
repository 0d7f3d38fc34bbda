"""The sensitivities φ that a run estimates itself: what clients are ranked by, and what their losses teach it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aoi_fl.science.estimate import SlopeEstimate
from aoi_fl.strategies.policy import ClientOutcome
from aoi_fl.strategies.records import Memory


class LearnedSensitivities:
    """Estimates of φ, :mod:`aoi_fl.science.estimate`, round by round."""

    def __init__(self) -> None:
        self._slopes = SlopeEstimate.of(0)
        self._ranked_by = np.zeros(0)

    def joined(self, clients: int) -> None:
        """Add so many newcomers at the end."""
        self._slopes = self._slopes.joined(clients)

    def rank_by(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return (n,) φ of clients of these sizes, by which this round ranks them."""
        self._ranked_by = self._slopes.sensitivities(sizes)
        return self._ranked_by

    def learn(self, parts: Sequence[ClientOutcome], ages: NDArray[np.int64]) -> None:
        """Take in the losses of a round's training; ``ages`` (n,) are those of data not refreshed."""
        told = [part for part in parts if part.result == "trained" and part.loss is not None]
        clients = np.array([part.client for part in told], dtype=np.int64)
        trained_at = np.where([part.refreshed for part in told], 0, ages[clients])
        losses = np.array([part.loss for part in told], dtype=np.float64)
        self._slopes = self._slopes.after(clients, trained_at, losses)

    def memory(self) -> dict[str, NDArray[Any]]:
        """Return what the estimate goes by."""
        return {"moments": self._slopes.moments, "level": np.array([self._slopes.level])}

    def recall(self, memory: Memory) -> None:
        """Take it back."""
        self._slopes = SlopeEstimate(memory["moments"].copy(), float(memory["level"][0]))
