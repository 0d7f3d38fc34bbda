"""The account of results: their units, seeds, core hours, and the commands that reproduce them."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from aoi_fl.lab.experiments.harness.base import Experiment, Options, Row, Unit
from aoi_fl.lab.experiments.harness.store import Store, key_of, plain


def seeds(rows: Sequence[Row]) -> list[int]:
    """Return the seeds of rows, in order."""
    return sorted({row["seed"] for row in rows if "seed" in row})


def telling(experiment: Experiment, store: Store) -> list[Row]:
    """Return the rows for conclusions: all, or those of seeds with all units complete."""
    if not experiment.whole_seeds:
        return store.rows
    fits = [o for o in (Options(), Options(quick=True)) if plain(experiment.kept_under(o)) == store.settings]
    plan = {but_seed(unit) for unit in experiment.units(fits[0] if fits else Options())}
    played: dict[int, set[frozenset[tuple[str, Any]]]] = {}
    for unit in store.units:
        played.setdefault(unit["seed"], set()).add(but_seed(unit))
    return [row for row in store.rows if played[row["seed"]] >= plan]


def but_seed(unit: Unit) -> frozenset[tuple[str, Any]]:
    """Return the identity of a unit without its seed."""
    return key_of({key: value for key, value in unit.items() if key != "seed"})


def count(store: Store, rows: Sequence[Row]) -> int:
    """Return the number of seeds behind rows of a store; a row may be the mean of a batch."""
    return len(seeds(rows)) * _batch(store)


def _batch(store: Store) -> int:
    return int(store.settings.get("seeds a batch", 1))


def behind(experiment: Experiment, store: Store, command: str) -> str:
    """Return a line with a store's commands, seeds, time and machine; ``command`` if no command is known.

    It gives the complete share if the plan or these commands have more units, and the settings that an earlier version
    lacks.
    """
    known = commands(experiment, store)
    shown = " and ".join(f"`{c}`" for c in known or [command])
    new = [key for key in plain(experiment.settings(Options())) if key not in store.settings]
    if not known and (new or store.settings.get("version", 1) < experiment.version):
        lacking = f", without {', '.join(new)}" if new else ""
        shown += f" (these are of an earlier version{lacking})"
    fits = plain(experiment.kept_under(Options())) == store.settings
    own = experiment.units(Options()) if fits else []
    planned = len({key_of(unit) for units in (own, store.units, *known.values()) for unit in units})
    part = f" · {len(store.units)} of {planned} units" if planned > len(store.units) else ""
    found, batch = seeds(telling(experiment, store)), _batch(store)
    first, last = ((found[0] - 1) * batch + 1, found[-1] * batch) if found else (0, 0)
    range_ = "none" if not found else f"{first} to {last}" if last > first else str(first)
    return f"Command: {shown}{part} · seeds: {range_} · {hours(store.seconds)} of one core · {store.machine}"


def hours(seconds: float) -> str:
    """Write the time of one core: ``1.38 h``, ``29 s``."""
    return f"{seconds / 3600:.2f} h" if seconds >= 360 else f"{seconds:.0f} s"


def typed(name: str, options: Options) -> str:
    """Return the command that runs an experiment with these options."""
    given = {"--seeds": options.seeds, "--rounds": options.rounds, "--model": options.model}
    words = ["aoi reproduce", name, *(f"{key} {value}" for key, value in given.items() if value is not None)]
    return " ".join([*words, "--quick"] if options.quick else words)


def commands(experiment: Experiment, store: Store) -> dict[str, list[Unit]]:
    """Return the commands that reproduce a store's complete units, each with its units; empty if none fits.

    Of the commands with the store's settings, those without missing units come first, then those that cover most.
    """
    there = {key_of(unit) for unit in store.units}
    missing = set(there)
    found: dict[str, list[Unit]] = {}
    candidates = [(typed(experiment.name, options), options) for options in _options(store)]
    fitting = {c: experiment.units(o) for c, o in candidates if plain(experiment.kept_under(o)) == store.settings}
    keys = {command: {key_of(unit) for unit in units} for command, units in fitting.items()}
    while useful := [c for c in keys if keys[c] & missing]:
        best = max(useful, key=lambda c: (keys[c] <= there, len(keys[c] & missing), -len(keys[c] - missing), -len(c)))
        missing -= keys[best]
        found[best] = fitting[best]
    return found


def _options(store: Store) -> list[Options]:
    """Return the options that a user may have chosen."""
    models = {unit["model"] for unit in store.units if "model" in unit} | {store.settings.get("model")}
    rounds = store.settings.get("num-server-rounds", store.settings.get("rounds"))
    found = seeds(store.rows)
    most = found[-1] - found[0] + 1 if found else None
    return [
        Options(seeds=s, rounds=r, model=m, quick=quick)
        for quick, s, r, m in product(
            (False, True), (None, most), (None, rounds), (None, *sorted(models - {None}, key=str))
        )
        if not (quick and r)  # a quick look at all rounds is no command for users
    ]
