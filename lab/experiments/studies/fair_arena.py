"""The arena with the devices of the hour: every rival has what its paper assumes, with and without a barrier."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aoi_fl.lab.experiments.harness.study import rounded
from aoi_fl.lab.experiments.studies.arena_study import ArenaStudy
from aoi_fl.lab.simulated_time.traces import read_trace
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.absence import achievable
from aoi_fl.science.privacy.account import bisect

DECIDE = ("markov, learned", "systematic, learned")  # policies under which clients decide


class HourStudy(ArenaStudy):
    """Entrants on the phones that exist in the hour; the rate of those that decide gives as many updates."""

    fixed = {"over-selection": 1.0, "learning-rate-decay": 1.0}  # run keys
    told: Mapping[str, Any]  # the settings of the results that differ from the arena's

    def settings(self, options):
        return {**super().settings(options), "num-clients": "devices available within the hour", **self.told}

    def keys(self, policy, seed, options):
        """Return the run keys of a policy, with the devices of the hour in a file."""
        keys = super().keys(policy, seed, options)
        start = float(keys.pop("clock-start", 0.0))
        path = options.work.absolute() / self.name / f"devices-{seed}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        shares = write_available(Path(keys["clock"]), path, start, keys["until"])
        wanted = min(keys["clients-per-round"], int(shares.sum()))
        if policy in DECIDE:
            wanted = max(1, round(rate_for(wanted, shares) * len(shares)))
        return {
            **keys,
            "clock": str(path),
            **({"clock-start": start} if start else {}),
            "num-clients": len(shares),
            "clients-per-round": wanted,
            **self.fixed,
        }


class Barrier(HourStudy):
    """Policies with and without a barrier between rounds, in the setting of the fair arena."""

    def row(self, ledger, keys):
        """Return when and at what work a run reaches the levels, and how late its updates are."""
        from aoi_fl.server.ledger import read

        row = super().row(ledger, keys)
        late = [part["rounds_late"] or 0 for part in read(ledger, "participations") if part["outcome"] == "trained"]
        for column, scale in (("reached_90", 1 / 60), ("hours_90", 1 / 3600)):
            row[f"log_{column}"] = None if row[column] is None else round(math.log(row[column] * scale), 5)
        return row | rounded(3, stale=sum(late) / len(late))


def write_available(source, path, start, seconds):
    """Write the devices of a trace that are available within a time, and return their shares of it.

    ``source`` is a file with changes, see :mod:`aoi_fl.lab.simulated_time.traces`; ``path`` keeps the trace's time.
    """
    import io

    shares = read_trace(source).starting(start).availability.shares_by(seconds)
    chosen = shares > 0
    with np.load(source, allow_pickle=False) as file:
        counts, training = np.diff(file["offsets"]), file["training_seconds"][chosen]
        changes = {name: file[name] for name in ("seconds", "available")}
    kept = {name: array[np.repeat(chosen, counts)] for name, array in changes.items()}
    last, ends = changes["seconds"].max(), np.cumsum(counts[chosen])
    if kept["seconds"].max() < last:  # the last device leaves at the trace's end, which keeps the trace's length
        kept = {"seconds": np.append(kept["seconds"], last), "available": np.append(kept["available"], 0)}
        ends[-1] += 1
    text = io.BytesIO()
    np.savez(text, offsets=np.concatenate([[0], ends]), training_seconds=training, **kept)
    write_whole(path, text.getvalue())
    return shares[chosen]


def rate_for(wanted, shares):
    """Return the common rate r with Σ min(r, a_i) = wanted; 1 where even that is too little.

    >>> rate_for(1.0, np.array([0.25, 0.5, 1.0]))
    0.375
    >>> rate_for(9.0, np.array([0.25, 0.5]))
    1.0
    """
    return round(bisect(lambda rate: achievable(np.full(len(shares), rate), shares).sum() < wanted, 1.0), 12)
