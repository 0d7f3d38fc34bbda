"""The generator of devices that come and go beside the trace that it was fitted to."""

import numpy as np

from aoi_fl.lab.experiments.harness.base import Experiment, seeds
from aoi_fl.lab.experiments.harness.findings import Conclusion
from aoi_fl.lab.experiments.harness.natural_data import existing
from aoi_fl.lab.simulated_time.availability import DAY
from aoi_fl.lab.simulated_time.phone_availability import phones
from aoi_fl.lab.simulated_time.traces import read_trace

FILE = "availability_300.npz"  # in the data folder
_TRACE, _GENERATED = "trace", "generated"
_QUANTILES = (0, 5, 10, 25, 50, 75, 90, 95, 99, 100)
_HOURS = 24


class Traces(Experiment):
    """Fit against trace."""

    def units(self, options):
        return [{"seed": 0, "of": _TRACE}, *({"seed": seed, "of": _GENERATED} for seed in seeds(options, 10, 2))]

    def play(self, unit, options):
        """Return the quantiles of each quantity, and the share of clients present by the hour."""
        if unit["of"] == _GENERATED:
            return described(phones(self.settings(options)["clients"], unit["seed"]))
        return described(read_trace(existing(options.data_dir / FILE)))

    def conclude(self, rows, settings):
        """Return nothing: its picture stands on a page of the documents."""
        return Conclusion("")


def described(trace):
    """Return quantiles of a trace's spells, shares and training times, and its daily pattern, as rows."""
    there = trace.availability
    client = np.repeat(np.arange(there.clients), np.diff(there.offsets))
    gaps = (there.begins[1:] - there.ends[:-1])[client[1:] == client[:-1]]
    found = {
        "presence": there.ends - there.begins,
        "absence": gaps,
        "share": there.shares,
        "spells": np.diff(there.offsets) * DAY / there.period,
        "training": trace.speed,
    }
    rows = [
        {"what": what, "at": q, "value": np.percentile(values, q)} for what, values in found.items() for q in _QUANTILES
    ]
    days, looks = int(there.period // DAY), 4
    for hour in range(_HOURS):
        times = [DAY * day + 3600 * (hour + look / looks) for day in range(days) for look in range(looks)]
        rows.append({"what": "hour", "at": hour, "value": np.mean([there.here(t).mean() for t in times])})
    return rows
