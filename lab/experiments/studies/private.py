"""Private training: age-based participation with banded noise against random selection with white noise."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, grouped
from aoi_fl.lab.experiments.harness.drawing import COLOURS, legend_below
from aoi_fl.lab.experiments.harness.federation import evaluated, played
from aoi_fl.lab.experiments.harness.findings import Conclusion, Table
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.study import Study, rounded, values

_LEAST = -2.3  # points that are drawn; below, they are written
_QUICK = {"num-clients": 90, "clients-per-round": 9, "partition": "iid"}


class PrivateLearning(Study):
    """Client-level differential privacy, with several ways to spend ε."""

    keys: Mapping[str, Any]  # run keys that the policies share
    arms: Mapping[str, Mapping[str, Any]]  # run keys of each policy; a table has the values by case

    @property
    def policies(self):
        return tuple(self.arms)

    @property
    def pairs(self):
        return [(case, policy) for case in self.cases for policy in self.arms if self.arm(policy, case)]

    def arm(self, policy, case):
        """Return the run keys of a policy in a case, empty where it has no run."""
        own = {key: value.get(case) if isinstance(value, dict) else value for key, value in self.arms[policy].items()}
        return {} if None in own.values() else own

    def settings(self, options):
        dataset, rounds = self.datasets(options)[0], options.rounds or (6 if options.quick else 200)
        found = {"dataset": dataset, **setting.TRAINING, **self.keys, **(_QUICK if options.quick else {})}
        found |= {"num-server-rounds": rounds, "evaluate-every": max(rounds // 20, 1)}
        of_arms = {key for arm in self.arms.values() for key in arm}
        return {key: value for key, value in found.items() if key not in of_arms}

    def play(self, unit, options):
        """Train a federation, and return its accuracy and the ε in its ledger."""
        from aoi_fl.server.ledger import read

        own = self.arm(unit["policy"], unit["case"])
        if options.quick:
            own.pop("max-age", None)
        ledger = played(self.name, {**self.settings(options), **own, "seed": unit["seed"]}, options)
        rows = evaluated(ledger)
        half = [row["accuracy"] for row in rows if row["round"] > rows[-1]["round"] / 2]
        spent = read(ledger, "rounds")[-1]["epsilon"]
        return [{"final": rows[-1]["accuracy"]} | rounded(6, mean=np.mean(half)) | rounded(3, epsilon=spent)]


class PrivateByEpsilon(PrivateLearning):
    """The same at several ε, which its picture has as the horizontal axis."""

    def plot(self, rows, settings, figure):
        """Draw the final accuracy above random selection's by its amplified ε, against ε."""
        axes = figure.subplots()
        axes.axhline(0, color=COLOURS[0])
        cases = sorted((int(case.removeprefix("ε = ")), case) for case in self.cases)
        (base, *policies), final = self.policies, self.measures["final"]
        for policy, colour in zip(policies, COLOURS[1:], strict=False):
            found = {epsilon: interval(values(rows, case, policy, final, base)) for epsilon, case in cases}
            if max(of.mean for of in found.values()) < _LEAST:
                said = ", ".join(f"{of.mean:.0f}" for of in found.values())
                axes.text(2, _LEAST, f" ↓ {policy}: {said}", va="bottom", color=colour)
                continue
            ends = [*found.values()]
            bars = {"yerr": [of.bar for of in ends], "capsize": 3}
            axes.errorbar([*found], [of.mean for of in ends], color=colour, marker="o", label=policy, **bars)
        axes.text(16, 0, f"{base} ", va="top", ha="right", color=COLOURS[0])
        axes.set(
            xscale="log", xlabel="ε", ylabel="points of final accuracy above random,\n95 % interval", ylim=(_LEAST, 1)
        )
        axes.set_xticks([epsilon for epsilon, _ in cases], [f"{epsilon}" for epsilon, _ in cases])
        axes.minorticks_off()
        legend_below(figure, axes)


# The lines of the picture: of equal ones, one stands for all.
_SHOWN = {
    ("random", "white", "no"): "any policy, white",
    ("systematic", "white", "no"): "policies by age, white",
    ("random", "white", "yes"): "random, white, amplified",
    ("systematic", "banded", "no"): "policies by age, banded",
    ("markov-optimal", "banded", "yes"): "markov, banded, amplified",
}
_TICKS = (2, 5, 10, 20)


class PrivacyError(Experiment):
    """The error of the noise at one ε, for every policy, against the number of clients a round."""

    def units(self, options):
        return [{"ratio": ratio} for ratio in ((2, 6) if options.quick else (2, 3, 4, 6, 8, 10, 15, 20, 30))]

    def play(self, unit, options):
        """Return each policy's error, with and without amplification."""
        from aoi_fl.lab.privacy.amplification import calibrated
        from aoi_fl.science.markov import MarkovPolicy
        from aoi_fl.science.privacy.account import Account, multiplier_of
        from aoi_fl.science.privacy.bounds import min_separation
        from aoi_fl.science.selection import OldestAgeSelector, RandomSelector
        from aoi_fl.science.systematic import SystematicPolicy

        known = self.settings(options)
        n, rounds, epsilon, delta = known["clients"], known["rounds"], known["epsilon"], known["delta"]
        k = n // unit["ratio"]
        players = {
            "markov-optimal": MarkovPolicy.optimal(n, k),
            "systematic": SystematicPolicy.equal(n, k, "random"),
            "oldest-age": OldestAgeSelector(k, 1),
            "random": RandomSelector(k, 1),
            "any other": None,
        }
        rows = []
        for name, player in players.items():
            apart = min_separation(player, n)
            for bands in sorted({1, min(apart, rounds)}):
                account = Account(apart, rounds, multiplier_of(epsilon, delta), bands)
                errors = {"no": account.error}
                if player is not None:
                    account, spent = calibrated(player, n, account, delta, epsilon=epsilon)
                    errors |= {} if spent is None else {"yes": account.error}
                rows += [
                    {"policy": name, "bands": bands, "amplified": amplified, "error": round(error, 4)}
                    for amplified, error in errors.items()
                ]
        return rows

    def conclude(self, rows, settings):
        ratios = sorted({row["ratio"] for row in rows})
        lines = [
            [
                policy,
                noise,
                amplified,
                *(next((f"{row['error']:.2f}" for row in found if row["ratio"] == ratio), "–") for ratio in ratios),
            ]
            for (policy, noise, amplified), found in _lines(rows).items()
        ]
        caption = "RMSE of the prefix sums in clips, by n/k"
        table = Table(caption, ["policy", "noise", "amplified", *map(str, ratios)], lines)
        return Conclusion(self.worded(**settings), tables=(table,))

    def plot(self, rows, settings, figure):
        axes, lines = figure.subplots(), _lines(rows)
        for (line, label), colour in zip(_SHOWN.items(), COLOURS, strict=False):
            points = sorted((row["ratio"], row["error"]) for row in lines.get(line, ()))
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", color=colour)
                side = "top" if label.startswith("random") else "bottom"  # the lines of two end close together
                axes.annotate(label, points[-1], (7, 0), textcoords="offset points", va=side, color=colour)
        axes.set(xscale="log", yscale="log", xlabel="n/k", ylabel="error of the prefix sums, clips")
        ratios = sorted({row["ratio"] for row in rows})
        axes.set_xticks(ratios, [f"{ratio}" for ratio in ratios])
        axes.set_yticks(_TICKS, [f"{tick}" for tick in _TICKS])
        axes.minorticks_off()
        axes.set_xlim(right=3.2 * ratios[-1])


def _lines(rows):
    named = [{**row, "noise": "white" if row["bands"] == 1 else "banded"} for row in rows]
    return grouped(named, "policy", "noise", "amplified")
