"""The distance of index policies from the packing bound on P2, at the paper's own size: ten clients."""

from aoi_fl.config.policies import BUDGETED
from aoi_fl.lab.experiments.harness.base import Instances, by_seed
from aoi_fl.lab.experiments.harness.setting import section5
from aoi_fl.lab.experiments.harness.stats import interval, ratio
from aoi_fl.lab.experiments.harness.verdicts import below
from aoi_fl.lab.experiments.oracles.packing import packing_bound
from aoi_fl.lab.experiments.papers.wics_ages import BUDGETS
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.objective import lagrangian_floor, p2
from aoi_fl.science.simulate import simulate
from aoi_fl.science.staleness import mean_ages

_CLIENTS = 10
_NEAR = 0.05  # what counts as near-optimal: the paper gives no number
_STOP = "wics, stop at the first"
_VARIANTS = {"wics, <": {"strict": True}, _STOP: {"stop_at_first": True}}


class WicsPacking(Instances):
    """Section 4's "near-optimal" at N = 10, and Algorithm 1's literal variants."""

    factors = {"budget": BUDGETS}

    def instance(self, unit, seed, options):
        """Bound an instance's optimum from below, and simulate the policies and the literal variants on it."""
        rounds, budget, table = self.settings(options)["rounds"], float(unit["budget"]), section5(_CLIENTS, seed)
        terms = (table.payments, table.sensitivities, budget)
        row = {"packing bound": packing_bound(*terms), "lagrangian floor": lagrangian_floor(*terms)}
        players = {p: BudgetedSelector(budget, index, seed) for p, index in BUDGETED.items()}
        players |= {name: BudgetedSelector(budget, "whittle", seed, **how) for name, how in _VARIANTS.items()}
        for name, player in players.items():
            row[name] = p2(mean_ages(simulate(player, table, rounds, seed)), table.sensitivities)
        return row

    def conclude(self, rows, settings):
        names = [*BUDGETED, *_VARIANTS]
        gaps = {(p, b): _above(rows, p, b) for p in names for b in BUDGETS}
        near = below([gaps["wics", b] for b in BUDGETS], 100 * _NEAR)
        lines = [
            [p, *(gaps[p, b].show(1, " %") for b in BUDGETS), "" if p == "wics" else _against(rows, p)] for p in names
        ]
        floor = ratio([r["packing bound"] for r in rows], [r["lagrangian floor"] for r in rows])
        costs = [_above(rows, _STOP, b, "wics") for b in BUDGETS]
        stopping = ", ".join(f"{cost.show(1, ' %')} at B={b}" for cost, b in zip(costs, BUDGETS, strict=True))
        claims = {
            "near": (
                "above a lower bound on the optimum, so at most so far from it: "
                + ", ".join(f"{gaps['wics', b].show(1, ' %')} at B={b}" for b in BUDGETS)
                + f"; here, near is below {100 * _NEAR:.0f} %",
                "undecided" if near == "refuted" else near,  # beyond a bound that is not met decides nothing
            ),
            "alike": (
                f"P2 of stopping is above that of skipping by {stopping}; {_against(rows, _STOP)} in all",
                _alike(costs),
            ),
        }
        instances = len({r["seed"] for r in rows})
        return self.concluded(claims, lines, instances=instances, floor=floor.show(2), **settings)


def _above(rows, policy, budget, base="packing bound"):
    """Return by how many percent a policy's P2 is above the bound, or another's, at one budget."""
    return interval([100 * (r[policy] / r[base] - 1) for r in rows if r["budget"] == budget])


def _against(rows, policy):
    """Write a policy's P2 above WICS's, summed over the budgets, instance by instance."""
    runs = by_seed(rows).values()
    return ratio(*([sum(row[p] for row in run) for run in runs] for p in (policy, "wics"))).percent()


def _alike(costs):
    """Judge that two ways to select are one: a difference on either side beyond chance refutes it."""
    apart = any(cost.beyond(way, len(costs)) for cost in costs for way in (-1, 1))
    return "erratum" if apart else "undecided" if any(cost.mean or cost.half for cost in costs) else "holds"
