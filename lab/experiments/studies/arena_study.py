"""Studies on the devices and data of an arena: each policy is an entrant with run keys of its own."""

from collections.abc import Mapping

from aoi_fl.lab.experiments.harness.federation import played
from aoi_fl.lab.experiments.harness.study import Study, rounded
from aoi_fl.lab.experiments.studies.arena import InTime, read_in_time

_LEVELS = (0.9, 0.92)


class ArenaStudy(InTime, Study):
    """Entrants on the devices and data of an arena, one a policy."""

    source = "In no paper; the arena's devices and data"
    entrants: Mapping[str, str]  # by policy

    @property
    def policies(self):
        return tuple(self.entrants)

    def keys(self, policy, seed, options):
        """Return the run keys of a policy."""
        return super().keys(self.entrants[policy], seed, options)

    def play(self, unit, options):
        """Run a federation in simulated time, and return when and at what work it reaches the levels."""
        keys = self.keys(unit["policy"], unit["seed"], options)
        return [self.row(played(self.name, keys, options), keys)]

    def row(self, ledger, keys):
        """Return when a run reaches the levels, with its work and its balance of load."""
        run, found, shares = read_in_time(ledger, keys)
        until, row = keys["until"], {}
        for level in _LEVELS:
            seconds, work = found.reaches(level, until)
            row |= {f"reached_{100 * level:.0f}": seconds, f"hours_{100 * level:.0f}": work}
        return rounded(2, **row, worked=found.worked) | {"final": found.accuracy_at(until)} | load_of(run, shares)


def load_of(run, shares):
    """Return a run's balance of load among the clients that are ever available, its rounds and updates."""
    clients, available = len(shares), int((shares > 0).sum())
    load = {
        "jain": run.measured.participation.jain * clients / available,
        "never": (run.in_time.never - clients + available) / available,
    }
    rounds = len(run.rounds)
    return {**rounded(4, **load), "rounds": rounds, **rounded(3, updates=len(run.history.members) / rounds)}
