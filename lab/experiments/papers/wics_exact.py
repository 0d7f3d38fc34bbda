"""The distance of index policies from the optimum of P2, in a solvable case: three clients."""

import numpy as np

from aoi_fl.config.policies import BUDGETED
from aoi_fl.lab.experiments.harness.base import Instances
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.verdicts import below
from aoi_fl.lab.experiments.oracles.optimum import draw_instance, exact_optimum, long_run_p2
from aoi_fl.lab.experiments.oracles.packing import packing_bound
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.objective import lagrangian_floor

_POLICIES = ("wics", "abs", "maxpack")
_NEAR = 0.05  # what counts as near-optimal: the paper gives no number


class WicsExact(Instances):
    """Section 4's "near-optimal", measured."""

    def instance(self, unit, seed, options):
        """Solve an instance, and follow each index policy until its ages repeat."""
        people, budget = draw_instance(seed)
        terms = (people.payments, people.sensitivities, budget)
        floors = {"lagrangian floor": lagrangian_floor(*terms), "packing bound": packing_bound(*terms)}
        values = {policy: long_run_p2(people, BudgetedSelector(budget, BUDGETED[policy])) for policy in _POLICIES}
        return {"optimum": exact_optimum(people, budget), **floors, **values}

    def conclude(self, rows, settings):
        gaps = {policy: np.array([row[policy] / row["optimum"] - 1 for row in rows]) for policy in _POLICIES}
        means = {policy: interval(100 * gap) for policy, gap in gaps.items()}
        floors = ", ".join(
            f"the {floor} {interval([100 * r[floor] / r['optimum'] for r in rows]).show(1, ' %')} of it"
            for floor in ("lagrangian floor", "packing bound")
        )
        lines = [
            [
                policy,
                means[policy].show(2, " %"),
                f"{100 * np.median(gap):.2f} %",
                f"{100 * gap.max():.0f} %",
                f"{100 * (gap < 1e-9).mean():.0f} % of the instances",
            ]
            for policy, gap in gaps.items()
        ]
        ours = ", ".join(f"{policy} {mean.show(2, ' %')}" for policy, mean in means.items())
        ours += f" above the exact optimum; here, near is below {100 * _NEAR:.0f} %"
        near = ours, below([means["wics"]], 100 * _NEAR)
        return self.concluded({"near": near}, lines, instances=len(rows), floors=floors)
