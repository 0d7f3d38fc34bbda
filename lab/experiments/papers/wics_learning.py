"""Accuracy under a budget: the four policies of Xu et al. on two data sets and three models, with paired seeds."""

from dataclasses import replace
from itertools import product
from operator import itemgetter

from aoi_fl.lab.experiments.harness.base import Experiment, having, seeds
from aoi_fl.lab.experiments.harness.federation import evaluated, marked, played, training_loss
from aoi_fl.lab.experiments.harness.stats import interval, paired_curves, run_means
from aoi_fl.lab.experiments.harness.verdicts import elsewhere, side, tally

POLICIES = ("wics", "abs", "maxpack", "random-budget")
_MODELS = {"lr": 0.005, "svm": 0.005, "cnn": 0.01}  # and their learning rates
DATASETS = ("mnist", "fashion-mnist")
TASKS = [*product(_MODELS, DATASETS)]  # of Figs. 3 to 8
_TRAINS = ("all", "selected")
SEEDS = {"cnn": 3}  # ten of the others
_WHY = {
    "cnn": "the CNN in which all ten clients train would take about 2.5 hours of one core; it plays with `--model cnn`"
}


def run_keys(unit, rounds, budget):
    """Return the run keys of Section 5.1; the CNN starts from the seed, since from ω = 0 its gradient is 0 for ever."""
    model = unit["model"]
    return {
        "policy": unit["policy"],
        "seed": unit["seed"],
        "dataset": unit["dataset"],
        "model": model if model == "cnn" else f"{model}:zeros",
        "num-clients": 10,
        "budget": budget,
        "trains": unit["trains"],
        "mislabel-rate": 0.05,
        "batch-size": 16,
        "local-steps": 10,
        "learning-rate": _MODELS[model],
        "learning-rate-decay": 1.0,
        "num-server-rounds": rounds,
        "evaluate-every": 1 if model != "cnn" else 10,
    }


class WicsLearning(Experiment):
    """Figs. 3 to 8."""

    def datasets(self, options):
        return tuple(dict.fromkeys(unit["dataset"] for unit in self.units(options)))

    def units(self, options):
        """Return a unit for each model, way to train (that of Section 5 first), seed, data set and policy.

        The CNN in which all train is hours long, and needs ``--model cnn``.
        """
        models = (options.model,) if options.model else ("lr",) if options.quick else tuple(_MODELS)
        sets = DATASETS[:1] if options.quick else DATASETS
        return [
            {"seed": s, "model": m, "dataset": d, "trains": t, "policy": p}
            for m in models
            for t in (_TRAINS[::-1] if m != "cnn" or options.model else _TRAINS[1:])
            for s in seeds(options, SEEDS.get(m, 10), 2)
            for d in sets
            for p in POLICIES
        ]

    def play(self, unit, options):
        """Run a federation."""
        ledger = played(self.name, run_keys(unit, self.settings(options)["rounds"], 40.0), options)
        loss = round(training_loss(ledger), 7)
        return [row | {"training loss": loss} for row in marked(evaluated(ledger))]

    def conclude(self, rows, settings):
        claims, lines, counts = {"training": _on_training_data(rows)}, [], {}
        for model, dataset in TASKS:
            ours = []
            ahead = []
            for trains in _TRAINS:
                these = _runs(rows, model, dataset, trains)
                ends, losses = (_ends(these, column) for column in ("accuracy", "loss"))
                if len(ends) < len(POLICIES):
                    why = _WHY.get(model, f"`--model {model}`") if trains == "all" else f"`--model {model}`"
                    ours.append(f"{_who(trains)}: not run ({why})")
                    continue
                counts.setdefault(f"{model} {{}} ({_who(trains)})", set()).add(len(ends["wics"]))
                gains, drops = _ahead(these, "accuracy", 100), _ahead(these, "loss", 1)
                lines += [
                    [
                        f"{model}, {dataset}, {_who(trains)}",
                        p,
                        interval(100 * end).show(2, " %"),
                        interval(losses[p]).show(4),
                        "" if p == "wics" else gains[p].show(2, " points"),
                        "" if p == "wics" else drops[p].show(4),
                    ]
                    for p, end in ends.items()
                ]
                shown = f"({_who(trains)})"
                ahead += [(f"{g.show(3)} points of mean accuracy above {p}'s {shown}", g) for p, g in gains.items()]
                ahead += [
                    (f"mean loss {drop.show(4)} above {p}'s {shown}", replace(drop, mean=-drop.mean))
                    for p, drop in drops.items()
                ]
            if ahead:
                ours.insert(0, f"better {tally(ahead, 1)}")
            claims[f"{model} {dataset}"] = "; ".join(ours), elsewhere(side([d for _, d in ahead], 1))
        seeds = ", ".join(where.format(_either(count)) for where, count in counts.items())
        return self.concluded(claims, lines, seeds=f"Seeds: {seeds}.", **settings)


def _on_training_data(rows):
    """Judge the last model's loss on the training data of all clients, for LR, under which it has one minimum."""
    found = []
    for dataset in DATASETS:
        for trains in _TRAINS:
            known = [row for row in _runs(rows, "lr", dataset, trains) if row.get("training loss")]
            ends = _ends(known, "training loss")
            for rival in POLICIES[1:] if len(ends) == len(POLICIES) else ():
                apart = interval(ends["wics"] - ends[rival])
                found.append((f"{apart.show(5)} above {rival}'s ({dataset}, {_who(trains)})", apart))
    if not found:
        return ()
    ours = f"lr, loss at the end: lower {tally(found, -1)}"
    seeds = _either({apart.count for _, apart in found})
    verdict = elsewhere(side([apart for _, apart in found], -1))
    return f"{ours}; {seeds} seeds a comparison", verdict, seeds


def _either(counts):
    """Write numbers of seeds: ``10``, or ``2 or 3``."""
    return " or ".join(map(str, sorted(counts)))


def _who(trains):
    return "all train" if trains == "all" else "only the selected train"


def _runs(rows, model, dataset, trains):
    return having(rows, model=model, dataset=dataset, trains=trains)


def _ends(rows, column):
    """Return (seeds,) last accuracies or losses by policy."""
    return paired_curves(rows, "policy", POLICIES, column, itemgetter(-1))


def _ahead(rows, column, scale):
    """Return by how much WICS's mean over all rounds is above each rival's, in pairs."""
    means = run_means(rows, POLICIES, column)
    return {p: interval(scale * (means["wics"] - of)) for p, of in means.items() if p != "wics"}
