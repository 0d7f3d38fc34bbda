"""Accuracy against rounds: the learning figures of both papers, with paired seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.base import GLOBECOM, JOURNAL, Claim, Conclusion, Experiment, Options, Row, Unit, Verdict, seeds
from experiments.drawing import STYLES, error_bars, legend_below
from experiments.federation import play_run
from experiments.stats import Interval, interval

POLICIES = ("random", "proportional", "oldest-age", "markov-optimal", "markov-increasing")
_BASE = "random"  # what the others are compared with, seed by seed

# The papers' target first; the others for models and lengths of a run that do not get that far.
_TARGETS = {
    "mnist": (0.97, 0.95, 0.93, 0.90),
    "fashion-mnist": (0.87, 0.85, 0.83, 0.80),
    "cifar10": (0.75, 0.50, 0.45, 0.40),
    "cifar100": (0.30, 0.20, 0.15, 0.10),
    "digits": (0.95, 0.90, 0.85),
}


class Learning(Experiment):
    """Accuracy of the paper's policies on one data set.

    Parameters
    ----------
    name, title, source, dataset, rounds, minutes : of the experiment
    splits : α of Dirichlet partitions, None for IID
    claims : (one of ``splits``, the policy that is said to be faster than random, paper, its figures)
    model, policies, seeds : what is played unless the user says otherwise
    """

    def __init__(
        self,
        name: str,
        title: str,
        source: str,
        dataset: str,
        rounds: int,
        minutes: float,
        splits: Sequence[float | None] = (None,),
        claims: Sequence[tuple[float | None, str, str, str]] = (),
        model: str = "2nn",
        policies: Sequence[str] = POLICIES,
        seeds: int = 5,
    ) -> None:
        self.name, self.title, self.source, self.minutes = name, title, source, minutes
        self._dataset, self._rounds = dataset, rounds
        self._model, self._policies, self._seeds = model, policies, seeds
        self.quick = model != "cnn"
        self._splits = [_split(alpha) for alpha in splits]
        self._claimed = [(_split(alpha), policy, paper, theirs) for alpha, policy, paper, theirs in claims]
        self.claims = tuple(self._claim(row, "", "not run") for row in self._claimed)

    def datasets(self, options: Options) -> tuple[str, ...]:
        """Return the data set; a quick look at MNIST takes the digits where MNIST is not at hand."""
        if options.quick and self._dataset == "mnist" and not (options.data_dir / "MNIST").is_dir():
            return ("digits",)
        return (self._dataset,)

    def settings(self, options: Options) -> Mapping[str, Any]:
        """Return the run keys that all runs share."""
        (dataset,) = self.datasets(options)
        shared = {
            "dataset": dataset,
            "model": options.model or self._model,
            "num-clients": 100,
            "clients-per-round": 15,
            "max-age": 10,
            "num-server-rounds": options.rounds or (4 if options.quick else self._rounds),
        }
        if dataset == "digits":  # its own batch and rate: fifteen images a client
            return shared
        return {**shared, "local-epochs": 5, "batch-size": 50, "learning-rate": 0.1, "learning-rate-decay": 0.998}

    def units(self, options: Options) -> list[Unit]:
        """Return a unit for each seed, partition and policy."""
        return [
            {"seed": s, "partition": split, "policy": p}
            for s in seeds(options, self._seeds, min(self._seeds, 2))
            for split in self._splits
            for p in self._policies
        ]

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Play a federation; the seed alone decides first model, partition and the order of batches."""
        kind, _, alpha = unit["partition"].partition(" ")
        values = {**self.settings(options), "policy": unit["policy"], "seed": unit["seed"], "partition": kind}
        return play_run(self.name, values | ({"alpha": float(alpha)} if alpha else {}), options)

    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        """Compare rounds to the target, area under the curve and final accuracy with random selection, in pairs."""
        parts, claims = [], []
        for split in self._splits:
            curves = _curves(rows, split)
            if _BASE not in curves:
                continue
            target = _target(curves, str(settings["dataset"]))
            said = []
            for policy, curve in curves.items():
                reached = _reached(curve, target)
                number = f"{np.median(reached):.0f}" if np.isfinite(reached).all() else "not always"
                pairs = "" if policy == _BASE else f" ({_against(curves, policy, target)})"
                said.append(
                    f"{policy}: {number} rounds to {target:.0%}{pairs}, mean accuracy "
                    f"{interval((100 * curve.mean(axis=1)).tolist()).show(2)} %, at the end "
                    f"{interval((100 * curve[:, -1]).tolist()).show(2)} %"
                )
            parts.append(f"{split}: {'; '.join(said)}")
        for row in self._claimed:
            curves = _curves(rows, row[0])
            if _BASE in curves and row[1] in curves:
                claims.append(self._measured(row, curves, settings))
        paragraph = (
            f"{settings['dataset']}, {settings['model']}, {settings['num-server-rounds']} rounds, n=100, k=15, m=10, "
            f"5 local epochs. {'. '.join(parts)}. Rounds to the target are those until the test accuracy is first "
            "reached, the median over seeds; in parentheses the mean difference from random selection with the same "
            "first model, partition and order of batches, with its 95 % t-interval over seeds (each interval on its "
            "own). The mean accuracy over all rounds is the area under the curve."
        )
        return Conclusion(paragraph, tuple(claims))

    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        """Draw each policy's mean accuracy with the target, and under it what it is above random selection, in pairs.

        A round's difference is mostly noise: below are means over a tenth of the rounds, policies side by side. The
        first rounds, where little is learnt yet, set neither scale.
        """
        figure.set_size_inches(9, 7.5)
        ends = [0.0]
        above, below = figure.subplots(2, len(self._splits), sharex=True, sharey="row", squeeze=False)
        for top, bottom, split in zip(above, below, self._splits, strict=True):
            curves = {policy: 100 * curve for policy, curve in _curves(rows, split).items()}
            rivals = [policy for policy in curves if policy != _BASE]
            for policy, curve in curves.items():
                x = np.arange(1, curve.shape[1] + 1)
                style = {**STYLES[policy], "markevery": max(1, len(x) // 8)}
                top.plot(x, curve.mean(axis=0), label=policy, **style)
                if policy == _BASE:
                    bottom.axhline(0, **{k: v for k, v in style.items() if k == "color"})
                    continue
                stretches = np.array_split(np.arange(len(x)), min(10, len(x)))
                gains = [(curve - curves[_BASE])[:, stretch].mean(axis=1).tolist() for stretch in stretches]
                aside = (rivals.index(policy) - (len(rivals) - 1) / 2) * len(x) / 10 / (len(rivals) + 1)
                where = [float(x[stretch].mean()) + aside for stretch in stretches]
                error_bars(bottom, where, gains, linestyle="", **STYLES[policy])
                later = [interval(gain) for gain in gains[1:]]
                ends += [end for gain in later for end in (gain.low, gain.mean, gain.high) if np.isfinite(end)]
            if curves:
                target = 100 * _target({p: c / 100 for p, c in curves.items()}, str(settings["dataset"]))
                top.axhline(target, color="#888888", linestyle=":", label=f"target, {target:.0f} %")
            top.set_title(f"{settings['dataset']}, {split}, {settings['model']}")
            bottom.set_xlabel("round")
        late = [100 * c.mean(axis=0)[4:] for split in self._splits for c in _curves(rows, split).values()]
        if late and late[0].size:
            low, high = min(c.min() for c in late), max(c.max() for c in late)
            above[0].set_ylim(low - 0.03 * (high - low), high + 0.05 * (high - low))
        if margin := 0.08 * (max(ends) - min(ends)):
            below[0].set_ylim(min(ends) - margin, max(ends) + margin)
        above[0].set_ylabel("test accuracy in %, mean over seeds")
        below[0].set_ylabel("points above random, 95 % interval,\nmeans of a tenth of the rounds")
        legend_below(figure, above[0], 3)

    def _measured(
        self, row: tuple[str, str, str, str], curves: Mapping[str, NDArray[np.float64]], settings: Mapping[str, Any]
    ) -> Claim:
        if settings["dataset"] != self._dataset:
            return self._claim(row, f"played on {settings['dataset']}", "not run")
        target = _target(curves, self._dataset)
        difference = _difference(curves, row[1], target)
        if difference is None:
            area = interval((100 * (curves[row[1]] - curves[_BASE]).mean(axis=1)).tolist())
            ours = f"{settings['model']}, target not always reached: area under the curve {area.show(2)} points higher"
            return self._claim(row, ours, _verdict(area, wanted=1))
        base = float(np.mean(_reached(curves[_BASE], target)))
        ours = (
            f"{settings['model']}, {target:.0%}: {difference.show(1)} rounds against random's {base:.1f} "
            f"({difference.count} seeds)"
        )
        return self._claim(row, ours, _verdict(difference, wanted=-1))

    def _claim(self, row: tuple[str, str, str, str], ours: str, verdict: Verdict) -> Claim:
        split, policy, paper, theirs = row
        claim = f"{policy} reaches the target before random ({self._dataset}, {split}, {self._model})"
        return Claim(claim, paper, theirs, ours, verdict, {"partition": {split}, "policy": {policy, _BASE}})


def _split(alpha: float | None) -> str:
    return "iid" if alpha is None else f"dirichlet {alpha:g}"


def _curves(rows: Sequence[Row], split: str) -> dict[str, NDArray[np.float64]]:
    """Return (seeds, rounds) accuracies by policy, of the seeds that every policy present has finished."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row["partition"] == split:
            found.setdefault(row["policy"], {}).setdefault(row["seed"], []).append(row["accuracy"])
    if not found:
        return {}
    common = sorted(set.intersection(*(set(by_seed) for by_seed in found.values())))
    curves = {p: np.array([found[p][s] for s in common]) for p in POLICIES if p in found}
    return curves if common else {}


def _reached(curve: NDArray[np.float64], target: float) -> NDArray[np.float64]:
    """Return (seeds,) the first round at the target, infinite where it is not reached."""
    there = curve >= target
    return np.where(there.any(axis=1), there.argmax(axis=1) + 1.0, np.inf)


def _target(curves: Mapping[str, NDArray[np.float64]], dataset: str) -> float:
    """Return the highest target that every policy reached with every seed, else the lowest of all."""
    targets = _TARGETS[dataset]
    return next((t for t in targets if all(np.isfinite(_reached(c, t)).all() for c in curves.values())), targets[-1])


def _difference(curves: Mapping[str, NDArray[np.float64]], policy: str, target: float) -> Interval | None:
    ours, base = _reached(curves[policy], target), _reached(curves[_BASE], target)
    both = np.isfinite(ours) & np.isfinite(base)
    return interval((ours - base)[both].tolist()) if both.all() else None


def _against(curves: Mapping[str, NDArray[np.float64]], policy: str, target: float) -> str:
    rounds = _difference(curves, policy, target)
    area = interval((100 * (curves[policy] - curves[_BASE]).mean(axis=1)).tolist())
    first = "" if rounds is None else f"{rounds.show(1)} rounds, "
    return f"{first}{area.show(2)} points of mean accuracy"


def _verdict(difference: Interval, wanted: int) -> Verdict:
    """Return ``holds`` if the whole interval lies on the wanted side of 0, ``partly`` if only its mean does."""
    if min(wanted * difference.low, wanted * difference.high) > 0:
        return "holds"
    return "partly" if wanted * difference.mean > 0 else "not"


_MNIST_IID = (
    (None, "markov-optimal", f"{GLOBECOM}, Fig. 4", "97 % in 37 against 41 rounds (CNN)"),
    (None, "markov-optimal", f"{JOURNAL}, Fig. 5a", "97 % in 39 against 45 rounds (CNN)"),
)
_CIFAR10 = (
    (None, "markov-optimal", f"{GLOBECOM}, Fig. 2", "80 % in 240 against 265 rounds (CNN)"),
    (None, "markov-optimal", f"{JOURNAL}, Fig. 6a", "75 % in 95 against 108 rounds (CNN)"),
    (None, "markov-increasing", f"{JOURNAL}, Fig. 6a", "75 % in 105 against 108 rounds (CNN)"),
    (0.3, "markov-optimal", f"{JOURNAL}, Fig. 6b", "75 % in 239 against 261 rounds (CNN)"),
    (0.3, "markov-increasing", f"{JOURNAL}, Fig. 6b", "75 % in 247 against 261 rounds (CNN)"),
)

LEARNING = (
    Learning(
        "mnist-iid",
        "MNIST, IID",
        f"{GLOBECOM}, Fig. 4 (top); {JOURNAL}, Fig. 5a",
        "mnist",
        rounds=100,
        minutes=35,
        claims=_MNIST_IID,
    ),
    Learning(
        "mnist-dirichlet",
        "MNIST, Dirichlet partitions",
        f"{GLOBECOM}, Fig. 4 (bottom); {JOURNAL}, Fig. 5b",
        "mnist",
        rounds=100,
        minutes=70,
        splits=(0.6, 0.3),
        claims=(
            (0.6, "markov-optimal", f"{GLOBECOM}, Fig. 4", "97 % in 56 against 64 rounds (CNN)"),
            (0.3, "markov-optimal", f"{JOURNAL}, Fig. 5b", "97 % in 91 against 99 rounds (CNN)"),
        ),
    ),
    Learning(
        "fashion",
        "Fashion-MNIST, IID",
        "Not in the papers; the setting of MNIST",
        "fashion-mnist",
        rounds=100,
        minutes=35,
    ),
    Learning(
        "cifar10",
        "CIFAR-10, IID and Dirichlet",
        f"{GLOBECOM}, Fig. 2; {JOURNAL}, Fig. 6",
        "cifar10",
        rounds=100,
        minutes=100,
        splits=(None, 0.3),
        claims=_CIFAR10,
        seeds=3,
    ),
    Learning(
        "cifar100",
        "CIFAR-100, IID and Dirichlet",
        f"{GLOBECOM}, Fig. 3; {JOURNAL}, Fig. 7",
        "cifar100",
        rounds=160,
        minutes=150,
        splits=(None, 0.3),
        claims=(
            (None, "markov-optimal", f"{GLOBECOM}, Fig. 3", "40 % in 500 against over 600 rounds (CNN): 16.7 % fewer"),
            (None, "markov-optimal", f"{JOURNAL}, Fig. 7a", "30 % in 139 against 154 rounds (CNN)"),
            (
                None,
                "markov-increasing",
                f"{JOURNAL}, Fig. 7a",
                "30 % in 158 against 154 rounds (CNN): slower there too",
            ),
            (0.3, "markov-optimal", f"{JOURNAL}, Fig. 7b", "30 % in 87 against 93 rounds (CNN): 6.5 % fewer"),
        ),
        seeds=3,
    ),
    Learning(
        "mnist-iid-cnn",
        "MNIST, IID, with the papers' CNN",
        f"{GLOBECOM}, Fig. 4 (top); {JOURNAL}, Fig. 5a",
        "mnist",
        rounds=50,
        minutes=60,
        claims=_MNIST_IID,
        model="cnn",
        policies=("random", "markov-optimal"),
        seeds=1,
    ),
    Learning(
        "cifar10-cnn",
        "CIFAR-10, IID, with the papers' CNN",
        f"{GLOBECOM}, Fig. 2; {JOURNAL}, Fig. 6a",
        "cifar10",
        rounds=120,
        minutes=600,
        claims=tuple(row for row in _CIFAR10 if row[0] is None),
        model="cnn",
        policies=("random", "markov-optimal", "markov-increasing"),
        seeds=3,
    ),
)
