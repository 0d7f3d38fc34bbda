"""Rounds without a barrier: the fair arena with a new model after four updates, for four policies and their rivals."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from aoi_fl.lab.experiments.harness.base import Row
from aoi_fl.lab.experiments.harness.study import Contrast, Hypothesis, Measure, expect
from aoi_fl.lab.experiments.studies.equal_work import CASE
from aoi_fl.lab.experiments.studies.fair_arena import HourStudy

_OURS = {
    "random": "random",
    "oldest-age": "oldest-age:weights=size",
    "markov, learned": "markov-optimal:weights=size:compensate=availability",
    "systematic, learned": "systematic:weights=size:compensate=availability",
}
_BUFFER = ":buffer=4:late-rounds=100"
_WITHOUT = ", B = 4"
_ENTRANTS = {
    **{name + suffix: keys + more for name, keys in _OURS.items() for suffix, more in (("", ""), (_WITHOUT, _BUFFER))},
    "random, late updates": "random:late-rounds=5",
    "oort, speeds": "oort:foresight=true",
    "fedcs, speeds": "fedcs:foresight=true",
}
_BEST = "oldest-age"  # of the age policies, by the pilot


def _sooner(policy: str) -> Hypothesis:
    text = f"Without a barrier {policy} needs less than 0.7 of the time to 90 % that it needs with one"
    return expect(text, (CASE,), policy + _WITHOUT, "log_reached_90", -1, policy, math.log(0.7))


def _cheaper(policy: str) -> Hypothesis:
    text = f"Without a barrier {policy} needs fewer device-hours to 90 % than with one"
    return expect(text, (CASE,), policy + _WITHOUT, "log_hours_90", -1, policy)


class Barrier(HourStudy):
    """Four policies with and without a barrier, and three rivals, in the setting of the fair arena."""

    name = "barrier"
    title = "Rounds without a barrier: a new model after four updates"
    minutes = 300
    entrants = _ENTRANTS
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
                Contrast(CASE, _BEST + _WITHOUT, "reached_90", -1, None, 1.3),
                Contrast(CASE, _BEST + _WITHOUT, "jain", 1, _BEST, -0.02),
                Contrast(CASE, _BEST + _WITHOUT, "final", 1, _BEST, -0.2),
            ),
        ),
    )
    planned, first = 10, 501
    committed = "32006934"

    told = {"over-selection": 1.0, "learning-rate": "auto:1.0", "buffer": "4 updates with B = 4, else 0"}

    def row(self, ledger, keys):
        """Return when and at what work a run reaches the levels, and how late its updates are."""
        from aoi_fl.server.ledger import read

        row = super().row(ledger, keys)
        late = [part["rounds_late"] or 0 for part in read(ledger, "participations") if part["outcome"] == "trained"]
        for column, scale in (("reached_90", 1 / 60), ("hours_90", 1 / 3600)):
            row[f"log_{column}"] = None if row[column] is None else round(math.log(row[column] * scale), 5)
        return {**row, "stale": round(sum(late) / len(late), 3)}

    def summary(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> str:
        return (
            "The setting is that of the fair arena: the phones of the trace that are available within the hour, about "
            f"{settings['clients-per-round']} of them at work, and a constant learning rate. *B = 4*: the server makes "
            "a new model after four updates, and an update that is s models old counts (1+s)^−½ of its change. "
            "Device-hours count the work up to the moment. The ratio of a policy without and with the barrier is exp "
            "of the difference of the logarithms. Oort and FedCS know the devices' speeds. The goals, set before: in "
            "minutes a ratio of at most 0.5, with an interval below 0.7, and of at most 1.0 in device-hours. All runs "
            "are of one version; since then a round waits less for a device that was silent and returns."
        )
