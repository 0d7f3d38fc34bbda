"""The arena: policies against one another in simulated time, on devices that come and go."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from aoi_fl.config.keys import over_selected
from aoi_fl.config.run import RunConfig
from aoi_fl.engine.traces import check_files, in_files, make_trace, read_trace
from aoi_fl.experiments.harness.base import Conclusion, Experiment, Options, Row, Unit, seeds
from aoi_fl.experiments.harness.federation import played
from aoi_fl.experiments.harness.pages import listed
from aoi_fl.experiments.studies.arena_pages import beside_refl, draw, headline_of, tables_of, within_reach
from aoi_fl.experiments.studies.entrants import ENTRANTS, called, own_keys
from aoi_fl.science import draws
from aoi_fl.science.absence import achievable
from aoi_fl.science.errors import ConfigError, NothingTrainedError
from aoi_fl.server.sources import digest_of

# Run keys that have an option of the command, and those that the arena itself decides.
_OPTIONS = {
    "policy": "--policies", "seed": "--seeds", "clock": "--clock", "partition": "--partition",
    "alpha": "--partition dirichlet:ALPHA", "data-dir": "--data-dir", "runs-dir": "--work",
}  # fmt: skip
_DECIDED = ("clock-start", "num-server-rounds", "max-empty-rounds", "device", "run-name", "resume")
_ITS_OWN = {"clients-per-round", "over-selection"}  # what the arena sets for all, and an entrant may set for itself
_HOUR = 3600.0
_POINTS = 24  # of a curve
_REACHED = ("reached_lower", "reached_upper")  # seconds until each level
_LEVELS = {"digits": (0.8, 0.85), "mnist": (0.9, 0.95)}  # of accuracy


class Arena(Experiment):
    """Policies × seeds in simulated time.

    Parameters
    ----------
    name, title : of the results
    clock : the devices, unless the options say otherwise: as the run key, or a file in the data folder
    partition : the clients' data, unless the options say otherwise: ``iid`` or ``dirichlet:ALPHA``
    settled : when levels and entrants were
    """

    source = "In no paper: seconds, not rounds, on devices that come and go"
    minutes = 200
    version = 2

    def __init__(
        self,
        name: str = "arena",
        title: str = "Selection policies in simulated time",
        clock: str = "generated",
        partition: str = "iid",
        settled: str = "",
    ) -> None:
        self.name, self.title, self._clock, self._partition, self._settled = name, title, clock, partition, settled

    def clock(self, options: Options) -> str:
        """Return the run key's value: of a file in the data folder, where it lies."""
        if options.clock:
            return options.clock
        return str((options.data_dir / self._clock).absolute()) if self._clock.endswith(".npz") else self._clock

    def starts(self, seed: int, options: Options) -> float:
        """Return the second of a trace at which a seed's runs begin: a whole hour, drawn, of devices from a file."""
        files = check_files(self.clock(options))
        if not files:
            return 0.0
        hours = read_trace(*files).availability.period / _HOUR
        return _HOUR * int(draws.uniform(seed, 0, "clock-start", 0) * hours) if math.isfinite(hours) else 0.0

    def datasets(self, options: Options) -> tuple[str, ...]:
        """Return the data set that is learnt."""
        return (self.settings(options)["dataset"],)

    def settings(self, options: Options) -> Mapping[str, Any]:
        """Return the federation."""
        digest = digest_of(options.clock or "")  # the user's own files may change; the project's do not
        shared = {
            "clock": Path(self.clock(options)).name,
            **({"clock-start": "an hour drawn by seed"} if in_files(self.clock(options)) else {}),
            **({"digest": digest[:16]} if digest else {}),
            "partition": options.partition or self._partition,
            "train-timeout": 60.0,
            "over-selection": 1.3,
        }
        if options.quick:
            return shared | {
                "dataset": "digits", "model": "lr", "num-clients": 100, "clients-per-round": 8, "until": 1200.0,
                "learning-rate": 0.1, "batch-size": 10, "local-epochs": 2, **dict(options.keys),
            }  # fmt: skip
        return shared | {
            "dataset": "mnist", "model": options.model or "2nn", "num-clients": 300, "clients-per-round": 15,
            "until": 3600.0, **dict(options.keys),
        }  # fmt: skip

    def entrants(self, options: Options) -> tuple[str, ...]:
        """Return who plays: those that are asked for, else the arena's own, as far as its keys leave them apart."""
        if options.policies:
            return options.policies
        shared = self.settings(options)
        apart: dict[frozenset[tuple[str, str]], str] = {}
        for entrant in ENTRANTS:  # by the keys alone: a trace need not be there
            keys = {**shared, **own_keys(entrant, ())}
            if int(keys["clients-per-round"]) <= shared["clients-per-round"]:
                plays = frozenset((k, f"{float(v):g}" if k in _ITS_OWN else str(v)) for k, v in keys.items())
                apart.setdefault(plays, entrant)
        return tuple(apart.values())

    def units(self, options: Options) -> list[Unit]:
        """Return a unit for each seed and policy."""
        policies = self.entrants(options)
        return [{"seed": s, "policy": policy} for s in seeds(options, 10, 2) for policy in policies]

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Play one run, and return its curve, with what it cost in each row."""
        from aoi_fl.report.in_time import in_time
        from aoi_fl.server.ledger import read

        settings = self.settings(options)
        keys = self.keys(unit["policy"], unit["seed"], options)
        try:
            ledger = played(self.name, keys, options, settings.get("digest", ""))
        except NothingTrainedError as error:
            raise ConfigError(
                called(unit["policy"]),
                f"seed {unit['seed']}",
                f"a run that trains: {error}",
                f"Raise train-timeout ({settings['train-timeout']:g} s of simulated time) or until "
                f"({settings['until']:g} s), or leave this policy out (--policies).",
            ) from error
        found = in_time(read(ledger, "rounds"), read(ledger, "participations"), settings["num-clients"])
        if found is None:
            raise RuntimeError(f"{ledger} has no simulated time")
        end, levels = settings["until"], _LEVELS[settings["dataset"]]  # the last round is over later
        clients = settings["num-clients"]
        trace = make_trace(keys["clock"], clients, unit["seed"]).starting(keys.get("clock-start", 0.0))
        shares = trace.availability.shares_by(end)
        cost = {
            **{key: found.reaches(level, end) for key, level in zip(_REACHED, levels, strict=True)},
            "final": found.accuracy_at(end),
            "seconds_a_round": found.seconds_a_round,
            "updates": found.used / found.rounds,
            "worked": found.worked,
            "wasted": found.wasted,
            "never": found.never_share,
            "interval": found.load.interval_mean,
            "variance": found.load.interval_variance,
            "jain": found.load.participation.jain,
            "present": int((shares > 0).sum()),
            "reach": float(achievable(np.full(clients, _sent(settings) / clients), shares).sum()),
        }
        marks = [end * (i + 1) / _POINTS for i in range(_POINTS)]
        return [{"time": mark, "accuracy": found.accuracy_at(mark), **cost} for mark in marks]

    def keys(self, entrant: str, seed: int, options: Options) -> dict[str, Any]:
        """Return the run keys of an entrant, or raise ConfigError for one that is none."""
        settings = dict(self.settings(options))
        start = self.starts(seed, options)
        settings = {key: value for key, value in settings.items() if key not in ("clock-start", "digest")}
        settings["partition"], _, alpha = settings["partition"].partition(":")
        values = {
            **settings,
            **({"alpha": float(alpha)} if alpha else {}),
            "clock": self.clock(options),
            **({"clock-start": start} if start else {}),
            "num-server-rounds": int(settings["until"]),  # more than there is time for
            "max-empty-rounds": 0,
            "device": "cpu",
            "seed": seed,
        }
        return values | own_keys(entrant, {*values, *_OPTIONS, *_DECIDED} - _ITS_OWN)

    def shared(self, asked: Mapping[str, str], options: Options) -> tuple[tuple[str, Any], ...]:
        """Return run keys that are to hold for all entrants, with their values, for the options.

        Raises
        ------
        ConfigError
            A key is none, or has an option, or is the arena's to decide, or its value is out of range.
        """
        for key in asked:
            if key in _OPTIONS:
                raise ConfigError(f"-c {key}", asked[key], f"given as {_OPTIONS[key]}", f"Use {_OPTIONS[key]}.")
            if key in _DECIDED:
                raise ConfigError(
                    f"-c {key}", asked[key], "left out, because the arena sets it", "Leave it out, or lower until."
                )
        first = self.entrants(options)[0]
        checked = RunConfig.parse(self.keys(first, 1, options) | asked).flat()
        if not checked["until"] >= 1:
            raise ConfigError("until", checked["until"], "at least 1 s of simulated time", "Raise it.")
        if checked["dataset"] not in _LEVELS:
            raise ConfigError(
                "dataset", checked["dataset"], tuple(_LEVELS), "Choose one of them: only they have levels of accuracy."
            )
        return tuple((key, checked[key]) for key in asked)

    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        """Put the policies beside one another, and beside random selection in pairs of equal seed."""
        levels, sent = _LEVELS[settings["dataset"]], _sent(settings)
        others = len({row["policy"] for row in rows}) - 1
        sentences = (
            f"{settings['num-clients']} clients by clock={settings['clock']}, {settings['clients-per-round']} a round, "
            f"over-selection {settings['over-selection']:g}, deadline {settings['train-timeout']:g} s, "
            f"{settings['until'] / 3600:g} h of simulated time; {settings['model']} on {settings['dataset']}, "
            f"{settings['partition']}. {beside_refl(rows)}"
        ).rstrip()
        points = (
            "Intervals are t-intervals over pairs of runs of one seed; p is of the paired test of times, censored "
            "where a level was not reached. Where one seed is far off, they may disagree. Each is a comparison by "
            "itself.",
            "Work is in vain if its update was lost, late or not awaited, also in the last round. Var[X] and E[X] "
            "are of the rounds between two used updates, both within the time.",
            f"The server selects {sent} of the available clients, or as many as an entrant's own keys set. Where "
            f"clients decide, each takes part at a rate of {sent} in {settings['num-clients']} while available, so "
            "fewer train.",
            within_reach(rows, sent),
            "The learning rate falls from round to round, so that a policy with short rounds ends with a lower one. "
            "The accuracy after the hour therefore compares runs at different rates.",
            f"The arena is exploratory. On this page {others} policies meet random selection in three measures; with "
            f"the project's {len(ARENAS)} arenas that makes {3 * others * len(ARENAS)} comparisons, and no interval is "
            "widened for so many.",
            "Each seed begins at another hour of the trace." if "clock-start" in settings else "",
            self._settled,
        )
        return Conclusion(
            listed(sentences, [point for point in points if point]),
            tables=tables_of(rows, levels, settings["num-clients"]),
            headline=headline_of(self.title, rows, levels[0]),
        )

    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        """Draw accuracy against simulated time, and each policy beside random selection."""
        draw(rows, _LEVELS[settings["dataset"]], figure)


def _sent(settings: Mapping[str, Any]) -> int:
    """Return how many clients are sent the model in a round, unless an entrant's own keys say otherwise."""
    return over_selected(settings["clients-per-round"], settings["over-selection"])


_SETTLED = "The lower level and the entrants' keys were settled after a first look at seed 1."
_SPLITS = {"dirichlet": ("dirichlet:0.3", "unequal data"), "iid": ("iid", "equal data")}
_DEVICES = {
    "trace": ("availability_300.npz", "300 devices of a trace"),
    "generated": ("generated", "300 devices generated"),
}
ARENAS = tuple(
    Arena(f"arena-{devices}-{split}", f"The arena: {name}, {dealt}", clock, partition, _SETTLED)
    for split, (partition, dealt) in _SPLITS.items()
    for devices, (clock, name) in _DEVICES.items()
)
