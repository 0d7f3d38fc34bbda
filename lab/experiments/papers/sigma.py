"""Whether a smaller Σ makes federated averaging converge faster: ten thousand seeds of a problem known exactly."""

import numpy as np

from aoi_fl.lab.experiments.harness.base import Experiment, grouped, pick
from aoi_fl.lab.experiments.harness.findings import Conclusion, Table
from aoi_fl.lab.experiments.harness.stats import difference, ratio
from aoi_fl.lab.experiments.harness.verdicts import side, tally
from aoi_fl.lab.experiments.oracles.quadratic import POLICIES, RATES, federated_averaging, weight_variance

_BATCH = 500  # seeds a unit, of which the mean is kept
_BASE = "random"
_ROUNDS = 200


class Sigma(Experiment):
    """Journal, Remark 1."""

    def settings(self, options):
        return {"rounds": _ROUNDS, "seeds a batch": 25 if options.quick else _BATCH}

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
        return Conclusion(
            f"40 quadratics on the line of equal sizes, k=6, K=2 steps; {seeds:,} seeds, in batches of "
            f"{settings['seeds a batch']} compared in pairs by their means. Equal sizes give proportional and the "
            "Markov policies a larger Σ than random selection; the learning rates are the theorem's, and that divided "
            "by K, as in its proof. Ages start from the stationary law, and the increasing policy's p_a is ours, since "
            "none is printed.",
            self.judged(
                sigma=(
                    f"with equal sizes, error after {_ROUNDS} rounds above random's (Σ = {sigma[_BASE]:.4f}) "
                    f"{tally(list(zip(said, judged, strict=True)), 1)}",
                    side(judged, 1),
                )
            ),
            (
                Table(
                    f"Error F − F* after {_ROUNDS} rounds",
                    ("policy", "Σ", "learning rate", "above random's, ratio of sums"),
                    lines,
                ),
            ),
        )
