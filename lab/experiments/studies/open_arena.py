"""The arena without foresight: 1,000 generated devices, six hours, each rival with its best weights; and no barrier."""

from collections.abc import Mapping, Sequence
from typing import Any

from aoi_fl.lab.experiments.harness.study import rounded
from aoi_fl.lab.experiments.studies.arena import read_in_time
from aoi_fl.lab.experiments.studies.arena_study import ArenaStudy, load_of


class OpenArena(ArenaStudy):
    """Policies on 1,000 generated devices, with what a server knows from its clients' replies."""

    devices = "generated"
    shared: Mapping[str, Any]  # run keys
    hours: Sequence[int]  # after which the accuracy counts; a run ends after the last

    def common(self, options):
        own = {} if options.quick else {**self.shared, "until": 3600.0 * self.hours[-1]}
        return {**super().common(options), **own}

    def row(self, ledger, keys):
        """Return a run's accuracy after each hour, its load and its work."""
        run, found, shares = read_in_time(ledger, keys)
        last = self.hours[-1]
        hours = {f"accuracy_{hour}": found.accuracy_at(keys["until"] * hour / last) for hour in self.hours}
        return hours | load_of(run, shares) | rounded(2, worked=found.worked, wasted=found.wasted)

    def summary(self, settings):
        return super().summary({**settings, "length": settings["until"] / 3600})
