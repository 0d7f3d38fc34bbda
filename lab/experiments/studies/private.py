"""Private training: age-based participation with banded noise against random selection with white noise."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, grouped
from aoi_fl.lab.experiments.harness.drawing import draw_charts
from aoi_fl.lab.experiments.harness.federation import evaluated, played
from aoi_fl.lab.experiments.harness.findings import Conclusion, Table
from aoi_fl.lab.experiments.harness.study import Study, rounded, values

_LEAST = -2.3  # points that are drawn
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
        """Draw the final accuracy above random selection's by its amplified ε; far below, it is in the table alone."""
        base, *policies = self.policies
        drawn = [
            {"policy": policy, "ε": int(case.removeprefix("ε = ")), "seed": seed, "above": gain}
            for case, policy in product(self.cases, policies)
            if np.mean(gains := values(rows, case, policy, self.measures["final"], base)) > _LEAST
            for seed, gain in enumerate(gains)
        ]
        draw_charts(figure, self.charts, drawn)


# The lines of the picture: of equal ones, one stands for all.
_SHOWN = {
    ("random", "white", "no"): "any policy, white",
    ("systematic", "white", "no"): "policies by age, white",
    ("random", "white", "yes"): "random, white, amplified",
    ("systematic", "banded", "no"): "policies by age, banded",
    ("markov-optimal", "banded", "yes"): "markov, banded, amplified",
}


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
        lines = _lines([row | {"n/k": row["ratio"]} for row in rows])
        drawn = [row | {"line": name} for line, name in _SHOWN.items() for row in lines.get(line, ())]
        draw_charts(figure, self.charts, drawn)


def _lines(rows):
    named = [{**row, "noise": "white" if row["bands"] == 1 else "banded"} for row in rows]
    return grouped(named, "policy", "noise", "amplified")
