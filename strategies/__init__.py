"""The server half of the round protocol: age-aware strategies for Flower.

Each is used like any Flower strategy: construct it, then ``strategy.start(grid, initial_arrays, num_rounds=…)``.
"""

try:
    from aoi.rooms import check_rooms
except ModuleNotFoundError as error:
    raise ImportError(
        "AoI-FL's package 'aoi' is hidden by another module of that name. Rename that module or folder in your app."
    ) from error

check_rooms(__file__)

from strategies.budgeted import BudgetedRefresh  # noqa: E402
from strategies.central import OldestAge, ProportionalSelection, RandomSelection  # noqa: E402
from strategies.markov import MarkovParticipation  # noqa: E402
from strategies.plan import RoundOptions  # noqa: E402

__all__ = [
    "BudgetedRefresh",
    "MarkovParticipation",
    "OldestAge",
    "ProportionalSelection",
    "RandomSelection",
    "RoundOptions",
]
