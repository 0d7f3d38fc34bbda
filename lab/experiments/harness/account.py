"""The account of results: their units, seeds, core hours, and the commands that made them."""

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.store import key_of, plain


def seeds(rows):
    """Return the seeds of rows, in order."""
    return sorted({row["seed"] for row in rows if "seed" in row})


def telling(experiment, store):
    """Return the rows for conclusions: all, or those of seeds with all units complete."""
    if not experiment.whole_seeds:
        return store.rows
    quick = plain(experiment.kept_under(Options(quick=True))) == store.settings
    plan = {but_seed(unit) for unit in experiment.units(Options(quick=quick))}
    played = {}
    for unit in store.units:
        played.setdefault(unit["seed"], set()).add(but_seed(unit))
    return [row for row in store.rows if played[row["seed"]] >= plan]


def but_seed(unit):
    """Return the identity of a unit without its seed."""
    return key_of({key: value for key, value in unit.items() if key != "seed"})


def hours(seconds):
    """Write the time of one core: ``1.38 h``, ``29 s``."""
    return f"{seconds / 3600:.2f} h" if seconds >= 360 else f"{seconds:.0f} s"


def typed(name, options):
    """Return the command that runs an experiment with these options."""
    given = {"--seeds": options.seeds, "--rounds": options.rounds, "--model": options.model}
    words = ["aoi reproduce", name, *(f"{key} {value}" for key, value in given.items() if value is not None)]
    return " ".join([*words, "--quick"] if options.quick else words)
