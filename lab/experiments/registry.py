"""Every experiment by its name, in the order of ``all``."""

from functools import cache
from importlib import import_module

from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.science.errors import ConfigError

# Modules and their names: an experiment's class, or a tuple of experiments.
_FIGURES = (
    "papers.theory:Theory",
    "papers.remarks:Remarks",
    "papers.sigma:Sigma",
    "papers.load_variance:LoadVariance",
    "papers.intervals:Intervals",
    "papers.windows:Windows",
    "studies.start:Start",
    "studies.start_learning:StartLearning",
    "studies.churn:Churn",
    "studies.dropout:Dropout",
    "studies.modes:Modes",
    "studies.compression:Compression",
    "papers.wics_ages:WicsAges",
    "papers.wics_exact:WicsExact",
    "papers.wics_packing:WicsPacking",
    "papers.tasks:LEARNING",
    "papers.skew:SKEW",
    "studies.unequal:Unequal",
    "papers.wics_learning:WicsLearning",
    "papers.wics_sensitivity:WicsSensitivity",
    "papers.wics_budget:WicsBudget",
)
_OTHERS = (
    "studies.traces:Traces",
    "studies.arena:ARENAS",
    "studies.rare_classes:RareClasses",
    "studies.client_accuracy:ClientAccuracy",
    "studies.equal_work:EqualWork",
    "studies.natural:Natural",
    "studies.headline:Headline",
    "studies.cohorts:Cohorts",
    "studies.regularity:Regularity",
    "studies.fair_arena:FairArena",
    "studies.barrier:Barrier",
    "studies.open_arena:OpenArena",
    "studies.open_arena:OpenBarrier",
    "studies.private:PrivateLearning",
    "studies.private:PrivateRival",
    "studies.private:PrivacyError",
)


def _imported(places):
    found = []
    for module, _, name in (place.partition(":") for place in places):
        here = getattr(import_module(f"aoi_fl.lab.experiments.{module}"), name)
        found += here if isinstance(here, tuple) else [here()]
    return {experiment.name: experiment for experiment in found}


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    return _imported(_FIGURES)


@cache
def others() -> dict[str, Experiment]:
    """Return the experiments that are no figures of the papers, and not part of ``all``."""
    return _imported(_OTHERS)


def known() -> dict[str, Experiment]:
    """Return all of both by name."""
    return experiments() | others()


def find(name: str) -> Experiment:
    """Return an experiment by its name; ConfigError, with the list, for an unknown one."""
    if name not in known():
        raise ConfigError("experiment", name, (*known(), "wics", "all", "list", "summary"), "Choose one of these.")
    return known()[name]
