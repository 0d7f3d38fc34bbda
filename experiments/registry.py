"""Every experiment by its name, in the order in which ``all`` plays them."""

from functools import cache

from aoi_fl.experiments.harness.base import Experiment
from aoi_fl.science.errors import ConfigError


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    from aoi_fl.experiments.figures.churn import Churn
    from aoi_fl.experiments.figures.compression import COMPRESSION
    from aoi_fl.experiments.figures.dropout import Dropout
    from aoi_fl.experiments.figures.intervals import Intervals
    from aoi_fl.experiments.figures.load_variance import LoadVariance
    from aoi_fl.experiments.figures.modes import Modes
    from aoi_fl.experiments.figures.remarks import Remarks
    from aoi_fl.experiments.figures.sigma import Sigma
    from aoi_fl.experiments.figures.skew import SKEW
    from aoi_fl.experiments.figures.start import Start
    from aoi_fl.experiments.figures.start_learning import StartLearning
    from aoi_fl.experiments.figures.tasks import LEARNING
    from aoi_fl.experiments.figures.theory import Theory
    from aoi_fl.experiments.figures.unequal import Unequal
    from aoi_fl.experiments.figures.wics_ages import WicsAges
    from aoi_fl.experiments.figures.wics_budget import WicsBudget
    from aoi_fl.experiments.figures.wics_exact import WicsExact
    from aoi_fl.experiments.figures.wics_learning import WicsLearning
    from aoi_fl.experiments.figures.wics_packing import WicsPacking
    from aoi_fl.experiments.figures.wics_sensitivity import WicsSensitivity
    from aoi_fl.experiments.figures.windows import Windows

    every: list[Experiment] = [
        Theory(),
        Remarks(),
        Sigma(),
        LoadVariance(),
        Intervals(),
        Windows(),
        Start(),
        StartLearning(),
        Churn(),
        Dropout(),
        Modes(),
        *COMPRESSION,
        WicsAges(),
        WicsExact(),
        WicsPacking(),
        *LEARNING,
        *SKEW,
        Unequal(),
        WicsLearning(),
        WicsSensitivity(),
        WicsBudget(),
    ]
    return {experiment.name: experiment for experiment in every}


@cache
def others() -> dict[str, Experiment]:
    """Return what is no figure of the papers', and is not played with ``all``."""
    from aoi_fl.experiments.figures.arena import ARENAS, Arena
    from aoi_fl.experiments.figures.cohorts import Cohorts
    from aoi_fl.experiments.figures.equal_work import EqualWork
    from aoi_fl.experiments.figures.fair_arena import FairArena
    from aoi_fl.experiments.figures.headline import Headline
    from aoi_fl.experiments.figures.natural import Natural
    from aoi_fl.experiments.figures.private import Privacy, PrivacyError
    from aoi_fl.experiments.figures.rare_classes import RareClasses
    from aoi_fl.experiments.figures.regularity import Regularity
    from aoi_fl.experiments.figures.traces import Traces

    every = (
        Traces(),
        Arena(),
        *ARENAS,
        RareClasses(),
        EqualWork(),
        Natural(),
        Headline(),
        Cohorts(),
        Regularity(),
        FairArena(),
        Privacy(),
        PrivacyError(),
    )
    return {experiment.name: experiment for experiment in every}


def known() -> dict[str, Experiment]:
    """Return all of both by name."""
    return experiments() | others()


def find(name: str) -> Experiment:
    """Return an experiment by its name; ConfigError, with the list, for an unknown one."""
    if name not in known():
        raise ConfigError("experiment", name, (*known(), "wics", "all", "list", "summary"), "Choose one of these.")
    return known()[name]
