"""Rounds without a barrier: the fair arena with a new model after four updates, for four policies and their rivals."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aoi_fl.lab.experiments.harness.base import Options, Row, Unit
from aoi_fl.lab.experiments.harness.federation import played
from aoi_fl.lab.experiments.harness.study import Contrast, Hypothesis, Measure, expect
from aoi_fl.lab.experiments.studies.arena import ARENAS
from aoi_fl.lab.experiments.studies.equal_work import ArenaStudy, costs
from aoi_fl.lab.experiments.studies.fair_arena import rate_for, write_available

_ARENA = ARENAS[0]
_CASE = "trace, Dirichlet 0.3"
_OURS: Mapping[str, str] = {
    "random": "random",
    "oldest-age": "oldest-age:weights=size",
    "markov, learned": "markov-optimal:weights=size:compensate=availability",
    "systematic, learned": "systematic:weights=size:compensate=availability",
}
_DECIDE = ("markov, learned", "systematic, learned")  # policies under which clients decide
_BUFFER = ":buffer=4:late-rounds=100"
_WITHOUT = ", B = 4"
_ENTRANTS: Mapping[str, str] = {
    **{name + suffix: keys + more for name, keys in _OURS.items() for suffix, more in (("", ""), (_WITHOUT, _BUFFER))},
    "random, late updates": "random:late-rounds=5",
    "oort, speeds": "oort:foresight=true",
    "fedcs, speeds": "fedcs:foresight=true",
}
_BEST = "oldest-age"  # of the age policies, by the pilot


def _sooner(policy: str) -> Hypothesis:
    text = f"Without a barrier {policy} needs less than 0.7 of the time to 90 % that it needs with one"
    return expect(text, (_CASE,), policy + _WITHOUT, "log_reached_90", -1, policy, math.log(0.7))


def _cheaper(policy: str) -> Hypothesis:
    text = f"Without a barrier {policy} needs fewer device-hours to 90 % than with one"
    return expect(text, (_CASE,), policy + _WITHOUT, "log_hours_90", -1, policy)


class Barrier(ArenaStudy):
    """Four policies with and without a barrier, and three rivals, in the setting of the fair arena."""

    name = "barrier"
    title = "Rounds without a barrier: a new model after four updates"
    minutes = 300
    policies = tuple(_ENTRANTS)
    measures = (
        Measure("reached_90", "minutes to 90 %", 2, 1 / 60, drawn=True),
        Measure("log_reached_90", "ln(minutes to 90 %)", 2, compared=False),
        Measure("hours_90", "device-hours until 90 %", 3, 1 / 3600, drawn=True),
        Measure("log_hours_90", "ln(device-hours until 90 %)", 2, compared=False),
        Measure("final", "final accuracy, %", 1, 100.0),
        Measure("jain", "Jain's index of those available", 2, drawn=True),
        Measure("updates", "updates a model", 1, compared=False),
        Measure("stale", "mean staleness", 1, compared=False),
    )
    hypotheses = (
        *map(_sooner, _OURS),
        *map(_cheaper, _OURS),
        Hypothesis(
            f"Without a barrier {_BEST} reaches 90 % within 1.3 minutes, its Jain's index is at most 0.02 below that "
            "with a barrier, and its accuracy after the hour at most 0.2 points below",
            (
                Contrast(_CASE, _BEST + _WITHOUT, "reached_90", -1, None, 1.3),
                Contrast(_CASE, _BEST + _WITHOUT, "jain", 1, _BEST, -0.02),
                Contrast(_CASE, _BEST + _WITHOUT, "final", 1, _BEST, -0.2),
            ),
        ),
    )
    planned, first = 10, 501
    committed = "32006934"

    def settings(self, options: Options) -> Mapping[str, Any]:
        changed = {
            "num-clients": "devices available within the hour",
            "over-selection": 1.0,
            "learning-rate": "auto:1.0",
            "buffer": "4 updates with B = 4, else 0",
        }
        return {**super().settings(options), **changed}

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Run a federation in simulated time, and return when and at what work it reaches the levels."""
        from aoi_fl.server.ledger import read

        seed, policy = unit["seed"], unit["policy"]
        keys = _ARENA.keys(_ENTRANTS[policy], seed, options)
        start = float(keys.pop("clock-start", 0.0))
        folder = options.work.absolute() / self.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"devices-{seed}.npz"
        shares = write_available(Path(keys["clock"]), path, start, keys["until"])
        wanted = min(keys["clients-per-round"], int(shares.sum()))
        if policy in _DECIDE:  # with a buffer the number of clients at work is kept whatever their rate
            wanted = max(1, round(rate_for(wanted, shares) * len(shares)))
        keys |= {
            "clock": str(path),
            **({"clock-start": start} if start else {}),
            "num-clients": len(shares),
            "clients-per-round": wanted,
            "over-selection": 1.0,
            "learning-rate": "auto:1.0",
        }
        ledger = played(self.name, keys, options)
        row = costs(ledger, keys)
        late = [part["rounds_late"] or 0 for part in read(ledger, "participations") if part["outcome"] == "trained"]
        logs = {
            f"log_{column}": None if row[column] is None else round(math.log(row[column] * scale), 5)
            for column, scale in (("reached_90", 1 / 60), ("hours_90", 1 / 3600))
        }
        return [{**row, **logs, "stale": round(sum(late) / len(late), 3)}]

    def summary(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
        return (
            "The setting is that of the fair arena: the phones of the trace that are available within the hour, about "
            f"{settings['clients-per-round']} of them at work, and a constant learning rate. *B = 4*: the server makes "
            "a new model after four updates, and an update that is s models old counts (1+s)^−½ of its change. "
            "Device-hours count the work up to the moment. The ratio of a policy without and with the barrier is exp "
            "of the difference of the logarithms. Oort and FedCS know the devices' speeds. The goals, set before: in "
            "minutes a ratio of at most 0.5, with an interval below 0.7, and of at most 1.0 in device-hours."
        )
