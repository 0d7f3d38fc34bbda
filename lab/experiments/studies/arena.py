"""The arena: policies against one another in simulated time, on devices that come and go."""

from pathlib import Path

import numpy as np

from aoi_fl.config.keys import over_selected
from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.lab.experiments.harness.federation import played
from aoi_fl.lab.experiments.harness.findings import Conclusion
from aoi_fl.lab.experiments.studies.arena_page import beside_refl, tables_of, within_reach
from aoi_fl.lab.experiments.studies.entrants import ENTRANTS, own_keys
from aoi_fl.lab.simulated_time.traces import drawn_start, in_files, make_trace
from aoi_fl.science.absence import achievable

_ITS_OWN = {"clients-per-round", "over-selection"}  # what the arena sets for all, and an entrant may set for itself
_POINTS = 24  # of a curve
_REACHED = ("reached_lower", "reached_upper")  # seconds until each level
_LEVELS = {"digits": (0.8, 0.85), "mnist": (0.9, 0.95)}  # of accuracy


def federation(quick=False, model=None):
    """Return the run keys that all entrants share; ``quick``: digits, twenty minutes of simulated time."""
    shared = {"train-timeout": 60.0, "over-selection": 1.3}
    if quick:
        return shared | {
            "dataset": "digits",
            "model": "lr",
            "num-clients": 100,
            "clients-per-round": 8,
            "until": 1200.0,
            "learning-rate": 0.1,
            "batch-size": 10,
            "local-epochs": 2,
        }
    return shared | {
        "dataset": "mnist",
        "model": model or "2nn",
        "num-clients": 300,
        "clients-per-round": 15,
        "until": 3600.0,
    }


def distinct_entrants(shared):
    """Return the entrants that remain distinct under these shared keys."""
    apart = {}
    for entrant in ENTRANTS:  # by the keys alone: a trace need not be there
        keys = {**shared, **own_keys(entrant, ())}
        if int(keys["clients-per-round"]) <= int(shared["clients-per-round"]):
            plays = frozenset((k, f"{float(v):g}" if k in _ITS_OWN else str(v)) for k, v in keys.items())
            apart.setdefault(plays, entrant)
    return tuple(apart.values())


class InTime(Experiment):
    """Entrants in simulated time, on devices of one kind."""

    devices = "availability_300.npz"  # a file in the data folder, or as the run key clock
    partition = "dirichlet:0.3"  # the clients' data: iid or dirichlet:ALPHA

    def clock(self, options):
        """Return the run key's value, with the path of a file in the data folder."""
        return str((options.data_dir / self.devices).absolute()) if self.devices.endswith(".npz") else self.devices

    def datasets(self, options):
        return (self.settings(options)["dataset"],)

    def settings(self, options):
        return self.common(options)

    def common(self, options):
        """Return the run keys of all entrants, with names in place of what a seed draws."""
        return {
            "clock": Path(self.devices).name,
            **({"clock-start": "an hour drawn by seed"} if in_files(self.devices) else {}),
            "partition": self.partition,
            **federation(options.quick, options.model),
        }

    def keys(self, entrant, seed, options):
        """Return the run keys of an entrant; raises ConfigError for an unknown one."""
        settings = self.common(options)
        start = drawn_start(self.clock(options), seed) if settings.pop("clock-start", "") else 0.0
        return {
            **settings,
            "clock": self.clock(options),
            **({"clock-start": start} if start else {}),
            "num-server-rounds": int(settings["until"]),  # more than there is time for
            "max-empty-rounds": 0,
            "device": "cpu",
            "seed": seed,
            **own_keys(entrant, ()),
        }


class Arena(InTime):
    """Policies × seeds in simulated time."""

    def cells(self, options):
        return [{"policy": policy} for policy in distinct_entrants(self.settings(options))]

    def play(self, unit, options):
        """Run one entrant, and return its curve, with its costs in each row."""
        settings = self.settings(options)
        keys = self.keys(unit["policy"], unit["seed"], options)
        run, found, shares = read_in_time(played(self.name, keys, options), keys)
        end, levels = settings["until"], _LEVELS[settings["dataset"]]  # the last round is over later
        clients = settings["num-clients"]
        cost = {
            **{key: found.reaches(level, end)[0] for key, level in zip(_REACHED, levels, strict=True)},
            "final": found.accuracy_at(end),
            "seconds_a_round": found.seconds_a_round,
            "updates": len(run.history.members) / len(run.rounds),
            "worked": found.worked,
            "wasted": found.wasted,
            "never": found.never / clients,
            "interval": run.measured.interval_mean,
            "variance": run.measured.interval_variance,
            "jain": run.measured.participation.jain,
            "present": int((shares > 0).sum()),
            "reach": achievable(np.full(clients, _sent(settings) / clients), shares).sum(),
        }
        marks = [end * (i + 1) / _POINTS for i in range(_POINTS)]
        return [{"time": mark, "accuracy": found.accuracy_at(mark), **cost} for mark in marks]

    def conclude(self, rows, settings):
        levels, sent = _LEVELS[settings["dataset"]], _sent(settings)
        others = len({row["policy"] for row in rows}) - 1
        text = self.worded(
            **settings,
            hours=settings["until"] / 3600,
            refl=beside_refl(rows),
            sent=sent,
            reach=within_reach(rows, sent),
            others=others,
            comparisons=2 * 3 * others,
        )
        return Conclusion(text, tables=tables_of(rows, levels, settings["num-clients"]))


def read_in_time(ledger, keys):
    """Return a run, its cost in simulated time, and (n,) the share of it in which each device is available."""
    from aoi_fl.report.runs import load

    run = load(ledger.parent, keys["policy"])
    trace = make_trace(keys["clock"], keys["num-clients"], keys["seed"]).starting(keys.get("clock-start", 0.0))
    return run, run.in_time, trace.availability.shares_by(keys["until"])


def _sent(settings):
    """Return the clients that receive the model in a round, without an entrant's own keys."""
    return over_selected(settings["clients-per-round"], settings["over-selection"])
