"""Whether a smaller Σ makes federated averaging converge faster: ten thousand seeds of a problem known exactly."""

import numpy as np

from aoi_fl.lab.experiments.harness.base import Experiment, grouped, pick
from aoi_fl.lab.experiments.harness.stats import difference, ratio
from aoi_fl.lab.experiments.harness.verdicts import side, tally
from aoi_fl.lab.experiments.oracles.quadratic import POLICIES, RATES, federated_averaging, weight_variance

_BASE = "random"
_ROUNDS = 200


class Sigma(Experiment):
    """Journal, Remark 1."""

    def play(self, unit, options):
        """Run all policies with a batch of seeds, and return the mean error at the end."""
        size = self.settings(options)["seeds a batch"]
        first = (unit["seed"] - 1) * size + 1
        found = federated_averaging(range(first, first + size), (_ROUNDS,))
        return [
            {"policy": policy, "rate": rate, "excess": np.mean(pick(of, "excess"))}
            for (policy, rate), of in grouped(found, "policy", "rate").items()
        ]

    def conclude(self, rows, settings):
        sigma = {policy: weight_variance(policy) for policy in POLICIES}
        lines, judged = [], []
        for rate in RATES:
            base = pick(rows, "excess", policy=_BASE, rate=rate)
            for policy in POLICIES:
                errors, own = pick(rows, "excess", policy=policy, rate=rate), policy == _BASE
                more = "" if own else ratio(errors, base).percent()
                lines.append([policy, f"{sigma[policy]:.4f}", f"{rate}'s", more])
                judged += [] if own else [difference(errors, base)]
        seeds = len({row["seed"] for row in rows}) * settings["seeds a batch"]
        said = [f"{p} (Σ = {s}) {more} at the {r} rate" for p, s, r, more in lines if more]
        above = tally([*zip(said, judged, strict=True)], 1)
        ours = f"with equal sizes, error after {_ROUNDS} rounds above random's (Σ = {sigma[_BASE]:.4f}) {above}"
        return self.concluded({"sigma": (ours, side(judged, 1))}, lines, count=seeds, **settings)
