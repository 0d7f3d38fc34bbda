"""The server half of the round protocol: age-aware strategies for Flower.

Each is used like any Flower strategy: construct it, then ``strategy.start(grid, initial_arrays, num_rounds=…)``.
"""

from aoi.rooms import check_rooms

check_rooms(__file__)

from strategies.central import OldestAge, ProportionalSelection, RandomSelection  # noqa: E402
from strategies.markov import MarkovParticipation  # noqa: E402
from strategies.plan import RoundOptions  # noqa: E402

__all__ = ["MarkovParticipation", "OldestAge", "ProportionalSelection", "RandomSelection", "RoundOptions"]
