"""WICS where ages matter: each client's data go bad at its own rate, and φ follows from it, is learnt, or is noise."""

from itertools import product

from aoi_fl.lab.experiments.harness.base import Experiment, grouped, having, seeds
from aoi_fl.lab.experiments.harness.federation import marked, play_run
from aoi_fl.lab.experiments.harness.stats import difference, interval, run_means
from aoi_fl.lab.experiments.harness.verdicts import equivalent, side
from aoi_fl.lab.experiments.papers.wics_learning import TASKS, run_keys

# Each policy with where its φ comes from, if it uses it.
_KNOWN, _LEARNT, _NOISE = "wics, φ known", "wics, φ estimated", "wics, φ noise"
_BOUND, _ABS = "wics, φ by eq. (10)", "abs, φ known"
_RIVALS = {
    _ABS: ("abs", "staleness"),
    "maxpack": ("maxpack", None),
    "random-budget": ("random-budget", None),
}
_POLICIES = {
    _KNOWN: ("wics", "staleness"),
    **_RIVALS,
    _LEARNT: ("wics", "estimated"),
    _NOISE: ("wics", "declared"),
    _BOUND: ("wics", "bound"),
}
_JUDGED = {_KNOWN, *_RIVALS}

_MARGINS = {"loss": 1.0, "accuracy": 0.1}  # % of ABS's loss, and points: within these WICS counts as equivalent to it
_UNITS = {"loss": "% of its loss", "accuracy": "points"}


class WicsSensitivity(Experiment):
    """Figs. 3 to 8 with a meaningful φ."""

    def units(self, options):
        models = (options.model,) if options.model else ("lr",) if options.quick else ("lr", "svm")
        return [
            {"seed": s, "model": m, "dataset": d, "policy": p}
            for d in self.datasets(options)
            for m in models
            for s in seeds(options, 10, 2)
            for p in _POLICIES
            if m != "cnn" or p in _JUDGED  # 6 minutes each
        ]

    def play(self, unit, options):
        """Run a federation in which all train, on data that go bad at each client's own rate."""
        settings = self.settings(options)
        policy, sensitivities = _POLICIES[unit["policy"]]
        of = {**unit, "policy": policy, "trains": "all"}
        keys = run_keys(of, settings["rounds"], float(settings["budget"])) | {"staleness-rates": "own"}
        keys |= {} if sensitivities is None else {"sensitivities": sensitivities}
        return marked(play_run(self.name, keys, options))

    def conclude(self, rows, settings):
        lines = []
        apart = {of: {} for of in product(_RIVALS, _MARGINS)}
        for model, dataset in _tasks(rows):
            losses = _means(rows, model, dataset, "loss")
            if not losses.keys() >= _JUDGED:
                continue
            gains = _means(rows, model, dataset, "accuracy")
            below = {p: difference(loss, losses[_KNOWN]) for p, loss in losses.items() if p != _KNOWN}
            above = {p: interval(100 * (gains[_KNOWN] - gains[p])) for p in below}
            bound = losses.get(_BOUND)
            by_bound = {} if bound is None else {p: difference(losses[p], bound) for p in _RIVALS}
            lines += [
                [
                    f"{model}, {dataset}",
                    policy,
                    interval(loss).show(4),
                    below[policy].show(4) if policy in below else "",
                    above[policy].show(2) if policy in above else "",
                    by_bound[policy].show(4) if policy in by_bound else "",
                ]
                for policy, loss in losses.items()
            ]
            if (model, dataset) not in TASKS:
                continue
            for rival in _RIVALS:
                share = 100 * (1 - losses[_KNOWN] / losses[rival])
                apart[rival, "loss"][f"{model}, {dataset}"] = interval(share)
                apart[rival, "accuracy"][f"{model}, {dataset}"] = above[rival]
        claims = {f"{rival} {measure}": _judged(rival, measure, of) for (rival, measure), of in apart.items() if of}
        return self.concluded(claims, lines, **settings)


def _judged(rival, measure, apart):
    """Judge by what WICS is better than a rival, task by task."""
    found = apart.values()
    verdict = equivalent(found, _MARGINS[measure]) if rival == _ABS else side(found, 1)
    better = f"{'below' if measure == 'loss' else 'above'} {rival}'s, {_UNITS[measure]}"
    return f"{better}: {', '.join(f'{of.show(2)} ({task})' for task, of in apart.items())}", verdict


def _tasks(rows):
    """Return the models and data sets that there are rows of, in the order of the paper's figures."""
    there = grouped(rows, "model", "dataset")
    return [task for task in TASKS if task in there] + sorted(there.keys() - {*TASKS})


def _means(rows, model, dataset, column):
    """Return each policy's means over the rounds, (seeds,), over the seeds that all policies have."""
    return run_means(having(rows, model=model, dataset=dataset), tuple(_POLICIES), column)
