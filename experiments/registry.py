"""Every experiment by its name, in the order in which ``all`` plays them."""

from functools import cache

from aoi.errors import ConfigError
from experiments.base import Experiment


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    from experiments.churn import Churn
    from experiments.compression import COMPRESSION
    from experiments.dropout import Dropout
    from experiments.intervals import Intervals
    from experiments.learning import LEARNING
    from experiments.load_variance import LoadVariance
    from experiments.modes import Modes
    from experiments.skew import SKEW
    from experiments.start import Start
    from experiments.theory import Theory
    from experiments.wics_ages import WicsAges
    from experiments.wics_budget import WicsBudget
    from experiments.wics_exact import WicsExact
    from experiments.wics_learning import WicsLearning
    from experiments.windows import Windows

    every: list[Experiment] = [
        Theory(),
        LoadVariance(),
        Intervals(),
        Windows(),
        Start(),
        Churn(),
        Dropout(),
        Modes(),
        *COMPRESSION,
        WicsAges(),
        WicsExact(),
        *LEARNING,
        *SKEW,
        WicsLearning(),
        WicsBudget(),
    ]
    return {experiment.name: experiment for experiment in every}


def find(name: str) -> Experiment:
    """Return an experiment by its name; ConfigError, with the list, for an unknown one."""
    if name not in experiments():
        raise ConfigError(f"experiment {name!r} is unknown: give one of {', '.join(experiments())}, wics, all or list.")
    return experiments()[name]
