"""The arena with about equally many updates a round: every rival gets the information that its paper assumes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aoi_fl.lab.experiments.harness.study import Measure, expect, within
from aoi_fl.lab.experiments.studies.equal_work import CASE, ArenaStudy
from aoi_fl.lab.simulated_time.traces import read_trace
from aoi_fl.protocol.files import write_whole
from aoi_fl.science.absence import achievable

_RANDOM = "random"
DECIDE = ("markov, learned", "systematic, learned")  # policies under which clients decide
_ENTRANTS = {
    _RANDOM: "random",
    DECIDE[0]: "markov-optimal:weights=size:compensate=availability",
    DECIDE[1]: "systematic:weights=size:compensate=availability",
    "oldest-age": "oldest-age:weights=size",
    "oort, speeds": "oort:foresight=true",
    "fedcs, speeds": "fedcs:foresight=true",
    "refl, forecast": "refl:foresight=true:late-rounds=5",
    "f3ast": "f3ast",
    "pow-d": "pow-d",
    "rpow-d": "rpow-d",
}
_LEVEL = 1.0  # minutes within which two policies count as level


def _sooner(policy, text):
    claim = f"{text} reaches 90 % sooner than random selection with about 15 updates a round"
    return expect(claim, (CASE,), policy, "reached_90", -1, _RANDOM)


def _level(policy, text):
    claim = f"{text} reaches 90 % within {_LEVEL:g} minute of random selection with about 15 updates a round"
    return within(claim, (CASE,), policy, "reached_90", _RANDOM, _LEVEL)


class HourStudy(ArenaStudy):
    """Entrants on the phones that exist in the hour; the rate of those that decide gives as many updates."""

    fixed = {"over-selection": 1.0, "learning-rate-decay": 1.0}  # run keys
    told: Mapping[str, Any]  # the settings of the results that differ from the arena's

    def settings(self, options):
        return {**super().settings(options), "num-clients": "devices available within the hour", **self.told}

    def keys(self, policy, seed, options):
        """Return the run keys of a policy, with the devices of the hour in a file."""
        keys = dict(self.arena.keys(self.entrants[policy], seed, options))
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


class FairArena(HourStudy):
    """Ten policies on the phones that exist in the hour, with about 15 updates a round and a constant rate."""

    name = "fair-arena"
    title = "The arena with the devices of the hour, and with what each rival assumes"
    minutes = 130
    entrants = _ENTRANTS
    measures = (
        Measure("reached_90", "minutes to 90 %", 1, 1 / 60, drawn=True, margin=_LEVEL),
        Measure("hours_90", "device-hours until 90 %", 2, 1 / 3600),
        Measure("final", "final accuracy, %", 1, 100.0, drawn=True),
        Measure("jain", "Jain's index of those available", 2, drawn=True),
        Measure("updates", "updates a round", 1, compared=False),
    )
    hypotheses = (
        _level(DECIDE[1], "Systematic participation with learned availability"),
        _level(DECIDE[0], "Markov participation with learned availability"),
        _sooner("oort, speeds", "Oort with the devices' speeds"),
        _sooner("fedcs, speeds", "FedCS with the devices' speeds"),
        _sooner("refl, forecast", "REFL with its forecast of availability and late updates"),
        _level("f3ast", "F3AST"),
    )
    planned, first = 10, 41
    committed = "755522cc"

    told = {**HourStudy.fixed, "updates a round": "clients-per-round under every policy"}

    def summary(self, rows, settings):
        return (
            f"The federation has only the devices of the trace that are available within the hour; all policies get "
            f"{settings['clients-per-round']} updates a round without over-selection, at a constant learning rate. "
            "Where clients decide, their common rate is raised until the availability of the hour gives as many. "
            "Oort and FedCS know the devices' speeds, REFL knows when devices leave and takes late updates, and F3AST "
            "shares its rates among the devices that exist. Only REFL takes late updates, and it keeps its equal "
            "weights on unequal data. The rates come from the hour's availability, which no server knows beforehand."
        )


def write_available(source, path, start, seconds):
    """Write the devices of a trace that are available within a time, and return their shares of it.

    ``source`` is a file with changes, see :mod:`aoi_fl.lab.simulated_time.traces`; ``path`` keeps the trace's time.
    """
    import io

    shares = read_trace(source).starting(start).availability.shares_by(seconds)
    chosen = np.flatnonzero(shares > 0)
    with np.load(source, allow_pickle=False) as file:
        offsets, changes = file["offsets"], {name: file[name] for name in ("seconds", "available")}
        training = file["training_seconds"][chosen]
    rows = [np.arange(offsets[i], offsets[i + 1]) for i in chosen]
    taken, last = np.concatenate(rows), changes["seconds"].max()
    kept = {name: array[taken] for name, array in changes.items()}
    ends = np.cumsum([len(own) for own in rows])
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
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if achievable(np.full(len(shares), middle), shares).sum() < wanted else (low, middle)
    return round(high, 12)
