"""Every experiment by its name, in the order in which ``all`` plays them."""

from functools import cache

from aoi_fl.experiments.harness.base import Experiment
from aoi_fl.science.errors import ConfigError


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    from aoi_fl.experiments.papers.intervals import Intervals
    from aoi_fl.experiments.papers.load_variance import LoadVariance
    from aoi_fl.experiments.papers.remarks import Remarks
    from aoi_fl.experiments.papers.sigma import Sigma
    from aoi_fl.experiments.papers.skew import SKEW
    from aoi_fl.experiments.papers.tasks import LEARNING
    from aoi_fl.experiments.papers.theory import Theory
    from aoi_fl.experiments.papers.wics_ages import WicsAges
    from aoi_fl.experiments.papers.wics_budget import WicsBudget
    from aoi_fl.experiments.papers.wics_exact import WicsExact
    from aoi_fl.experiments.papers.wics_learning import WicsLearning
    from aoi_fl.experiments.papers.wics_packing import WicsPacking
    from aoi_fl.experiments.papers.wics_sensitivity import WicsSensitivity
    from aoi_fl.experiments.papers.windows import Windows
    from aoi_fl.experiments.studies.churn import Churn
    from aoi_fl.experiments.studies.compression import COMPRESSION
    from aoi_fl.experiments.studies.dropout import Dropout
    from aoi_fl.experiments.studies.modes import Modes
    from aoi_fl.experiments.studies.start import Start
    from aoi_fl.experiments.studies.start_learning import StartLearning
    from aoi_fl.experiments.studies.unequal import Unequal

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
    from aoi_fl.experiments.studies.arena import ARENAS, Arena
    from aoi_fl.experiments.studies.client_accuracy import ClientAccuracy
    from aoi_fl.experiments.studies.cohorts import Cohorts
    from aoi_fl.experiments.studies.equal_work import EqualWork
    from aoi_fl.experiments.studies.fair_arena import FairArena
    from aoi_fl.experiments.studies.headline import Headline
    from aoi_fl.experiments.studies.natural import Natural
    from aoi_fl.experiments.studies.private import Privacy, PrivacyError
    from aoi_fl.experiments.studies.rare_classes import RareClasses
    from aoi_fl.experiments.studies.regularity import Regularity
    from aoi_fl.experiments.studies.traces import Traces

    every = (
        Traces(),
        Arena(),
        *ARENAS,
        RareClasses(),
        ClientAccuracy(),
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
