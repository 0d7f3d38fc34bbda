"""Equal work: systematic participation against few random clients, with the server's momentum and a served average."""

from collections.abc import Mapping, Sequence

from aoi_fl.lab.experiments.harness.federation import played
from aoi_fl.lab.experiments.harness.study import Contrast, Hypothesis, Measure, Study, expect
from aoi_fl.lab.experiments.studies.arena import ARENAS, read_in_time
from aoi_fl.lab.experiments.studies.entrants import BOTH

CASE = "trace, Dirichlet 0.3"
_LEVELS = (0.9, 0.92)
_FEW = "random:clients-per-round={}:over-selection=1"
_AGE = "systematic:weights=size:compensate=availability"
_RANDOM, _OURS = "random, k = 4, both", "systematic, both"
_PLAIN, _OURS_PLAIN = "random, k = 4", "systematic"
_ENTRANTS = {
    _RANDOM: _FEW.format(4) + BOTH,
    _OURS: _AGE + BOTH,
    _PLAIN: _FEW.format(4),
    _OURS_PLAIN: _AGE,
    "random, k = 3, both": _FEW.format(3) + BOTH,
    "random, k = 2, both": _FEW.format(2) + BOTH,
    "random, k = 3": _FEW.format(3),
    "random, k = 2": _FEW.format(2),
}


class ArenaStudy(Study):
    """Entrants on the devices and data of an arena, one a policy."""

    source = "In no paper; the arena's devices and data"
    arena = ARENAS[0]
    cases: Sequence[str] = (CASE,)
    entrants: Mapping[str, str]  # by policy

    def __init_subclass__(cls):
        cls.policies = tuple(getattr(cls, "entrants", ()))

    def datasets(self, options):
        return self.arena.datasets(options)

    def settings(self, options):
        return self.arena.settings(options)

    def keys(self, policy, seed, options):
        """Return the run keys of a policy."""
        return self.arena.keys(self.entrants[policy], seed, options)

    def play(self, unit, options):
        """Run a federation in simulated time, and return when and at what work it reaches the levels."""
        keys = self.keys(unit["policy"], unit["seed"], options)
        return [self.row(played(self.name, keys, options), keys)]

    def row(self, ledger, keys):
        """Return when a run reaches the levels, with its work and its balance of load."""
        found, shares = read_in_time(ledger, keys)
        row = {}
        for level in _LEVELS:
            row[f"reached_{100 * level:.0f}"] = _rounded(found.reaches(level, keys["until"]))
            row[f"hours_{100 * level:.0f}"] = _rounded(found.work_until(level, keys["until"]))
        row |= {"worked": round(found.worked, 2), "final": found.accuracy_at(keys["until"])}
        return {**row, **load_of(found, shares)}


class EqualWork(ArenaStudy):
    """Policies of about equal work on the devices of a trace, each with and without momentum and a served average."""

    name = "equal-work"
    page = "fair-arena"
    title = "About equal work: few random clients or systematic participation, momentum and a served average"
    minutes = 30
    entrants = _ENTRANTS
    measures = (
        Measure("reached_90", "minutes to 90 %", 1, 1 / 60, drawn=True),
        Measure("hours_90", "device-hours until 90 %", 2, 1 / 3600),
        Measure("hours_92", "device-hours until 92 %", 2, 1 / 3600, compared=False),
        Measure("worked", "device-hours in the hour", 1, 1 / 3600, compared=False),
        Measure("final", "final accuracy, %", 1, 100.0, compared=False),
        Measure("jain", "Jain's index of those available", 2, drawn=True),
    )
    hypotheses = (
        Hypothesis(
            "With momentum 0.5 and a served average of 0.8, systematic participation reaches 90 % at most one minute "
            "later than four random clients a round, at a Jain's index above 0.80",
            (Contrast(CASE, _OURS, "reached_90", -1, _RANDOM, 1.0), Contrast(CASE, _OURS, "jain", 1, None, 0.8)),
        ),
        expect(
            "With both, systematic participation shares the load more evenly than four random clients a round",
            (CASE,),
            _OURS,
            "jain",
            1,
            _RANDOM,
        ),
        expect(
            "Momentum and a served average bring random selection to 90 % sooner",
            (CASE,),
            _RANDOM,
            "reached_90",
            -1,
            _PLAIN,
        ),
        expect(
            "Momentum and a served average bring systematic participation to 90 % sooner",
            (CASE,),
            _OURS,
            "reached_90",
            -1,
            _OURS_PLAIN,
        ),
    )
    planned, first = 10, 21
    committed = "8357bd18"

    def summary(self, rows, settings):
        return (
            f"An hour of {settings['num-clients']} devices of a trace, each seed from another hour, with "
            f"{settings['model']} on {settings['dataset']}; random selection takes k clients without over-selection, "
            "and systematic participation does about the work of k = 4, with more updates a round. "
            "*Both* is the run key `server-momentum=0.5` with `serve-average=0.8`. "
            "Device-hours are those of all clients that were sent the model until then, in vain or not."
        )


def load_of(found, shares):
    """Return a run's balance of load among the clients that are ever available, its rounds and updates."""
    clients, available = len(shares), int((shares > 0).sum())
    return {
        "jain": round(found.load.participation.jain * clients / available, 4),
        "never": round((found.never - clients + available) / available, 4),
        "rounds": found.rounds,
        "updates": round(found.used / found.rounds, 3),
    }


def _rounded(value):
    return None if value is None else round(value, 2)
