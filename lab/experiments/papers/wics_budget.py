"""The gain from a larger budget: WICS's loss at the end, and its rivals', against B."""

from itertools import pairwise

from aoi_fl.lab.experiments.harness.base import Experiment, grouped, having, seeds
from aoi_fl.lab.experiments.harness.federation import play_run
from aoi_fl.lab.experiments.harness.findings import Conclusion, Table
from aoi_fl.lab.experiments.harness.stats import difference, interval, paired_curves
from aoi_fl.lab.experiments.harness.verdicts import beyond, elsewhere, side
from aoi_fl.lab.experiments.papers.wics_learning import POLICIES, SEEDS, run_keys

_BUDGETS = (25, 40, 55, 70)
_SHOWN = 40  # the budget of Figs. 3 to 8
_LAST = 5  # evaluations at the end over which the loss is averaged


class WicsBudget(Experiment):
    """Fig. 9."""

    def units(self, options):
        model = options.model or "lr"
        return [
            {"seed": s, "model": model, "dataset": d, "budget": b, "policy": p}
            for s in seeds(options, SEEDS.get(model, 10), 1)
            for d in self.datasets(options)
            for b in _BUDGETS
            for p in POLICIES
        ]

    def play(self, unit, options):
        """Run a federation in which all train, and return its loss at the end."""
        rounds = self.settings(options)["rounds"]
        keys = run_keys({**unit, "trains": "all"}, rounds, float(unit["budget"]))
        found = play_run(self.name, keys | {"evaluate-every": max(1, rounds // 20)}, options)
        last = found[-_LAST:]
        return [
            {
                "loss": sum(row["loss"] for row in last) / len(last),
                "accuracy": sum(row["accuracy"] for row in last) / len(last),
            }
        ]

    def conclude(self, rows, settings):
        tasks, changes = grouped(rows, "model", "dataset"), {}
        for model, dataset in tasks:
            these = having(rows, model=model, dataset=dataset, policy="wics")
            own = paired_curves(these, "budget", _BUDGETS, "loss", sum)
            for low, high in pairwise(own):
                changes.setdefault(model, {})[f"{dataset}, B={low} to {high}"] = difference(own[high], own[low])
        tables = tuple(_table(rows, model, dataset) for model, dataset in tasks)
        claims = {"similar": _similar(rows)}
        for model, found in changes.items():
            lower = beyond(found.values(), -1)
            ours = f"{lower} of {len(found)} steps of the budget lower the loss beyond chance; " + "; ".join(
                f"{n}: {c.show(4)}" for n, c in found.items()
            )
            claims[model] = ours, elsewhere(side(found.values(), -1))
        return Conclusion(self.worded(**settings), self.judged(**claims), tables)


def _table(rows, model, dataset):
    """Return each policy's loss at the end, and by how much WICS's is above it."""
    losses = [_losses(rows, model, dataset, budget) for budget in _BUDGETS]
    own = [[p, *(interval(of[p]).show(4) for of in losses)] for p in losses[0]]
    rivals = [p for p in losses[0] if p != "wics"]
    above = [[f"WICS above {p}", *(difference(of["wics"], of[p]).show(4) for of in losses)] for p in rivals]
    head = ("policy", *(f"B = {b}" for b in _BUDGETS))
    return Table(f"{model} on {dataset}, test loss at the end", head, own + above)


def _losses(rows, model, dataset, budget):
    """Return each policy's losses at one budget, (seeds,), over the seeds that all of them have."""
    these = having(rows, model=model, dataset=dataset, budget=budget)
    return paired_curves(these, "policy", POLICIES, "loss", sum)


def _similar(rows):
    """Judge that WICS's lead at B = 40 is there at other budgets too, under LR."""
    others = [b for b in _BUDGETS if b != _SHOWN]
    tasks = grouped(having(rows, model="lr"), "dataset")
    played = [_losses(rows, "lr", dataset, b) for dataset in tasks for b in others]
    found = [difference(of["wics"], of[p]) for of in played for p in POLICIES[1:] if p in of]
    lower, higher = (beyond(found, wanted) for wanted in (-1, 1))
    ours = (
        f"at B = {', '.join(map(str, others))}, WICS's loss at the end is lower beyond chance in {lower} of "
        f"{len(found)} comparisons with its rivals, higher in {higher}"
    )
    return (ours, elsewhere(side(found, -1))) if found else ()
