"""The selection skew ρ along training, estimated as Javani & Wang 2025 do for their Table II."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from aoi.skew import objective_gap, selection_skew
from experiments import setting
from experiments.base import JOURNAL, Claim, Conclusion, Experiment, Options, Row, Unit, Verdict, seeds
from experiments.drawing import STYLES
from experiments.skew_problem import Problem, select
from experiments.stats import interval

_SPLITS = {"iid": None, "dirichlet-0.3": 0.3}
_THEIRS = {"random": 0.98, "proportional": 0.83, "markov-optimal": 0.98, "markov-increasing": 0.99}  # MNIST
_CLAIMED = "The Markov policies have a larger selection skew ρ than random selection"
_SOURCE = f"{JOURNAL}, Table II and Section IV"


class Skew(Experiment):
    """Journal, Table II."""

    name = "skew"
    title = "Selection skew ρ along training"
    source = _SOURCE
    minutes = 60.0
    claims = (Claim(_CLAIMED, _SOURCE, "MNIST: 0.98 and 0.99 against 0.98", "", "not run"),)

    def datasets(self, options: Options) -> tuple[str, ...]:
        """Return MNIST; a quick look always takes the digits, since so many local optima take minutes on MNIST."""
        return ("digits" if options.quick else "mnist",)

    def settings(self, options: Options) -> Mapping[str, Any]:
        """Return the task, and how long local and central models are trained to stand for the optima."""
        return {
            "dataset": self.datasets(options)[0],
            "model": options.model or "2nn",
            "clients": setting.CLIENTS,
            "per_round": setting.PER_ROUND,
            "max_age": setting.MAX_AGE,
            "rounds": options.rounds or (6 if options.quick else 60),
            "local_steps": 100 if options.quick else 1000,
            "central_epochs": 3 if options.quick else 20,
        }

    def units(self, options: Options) -> list[Unit]:
        """Return a unit for each seed, split and policy."""
        return [
            {"seed": s, "split": split, "policy": p}
            for s in seeds(options, 3, 2)
            for split in _SPLITS
            for p in setting.POLICIES
        ]

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Train with one policy, and return each round's skew at its model and at the last one, and Γ."""
        chosen = self.settings(options)
        alpha = _SPLITS[unit["split"]]
        problem = Problem(chosen["dataset"], str(options.data_dir), chosen["model"], alpha, unit["seed"])
        local, central = problem.optima(chosen["local_steps"], chosen["central_epochs"])
        history = select(unit["policy"], problem.sizes, chosen["rounds"], unit["seed"])
        losses, weights = problem.train(history)
        shares = problem.sizes / problem.sizes.sum()
        found = selection_skew(weights, losses[:-1], losses[-1], local, shares)
        played = np.flatnonzero(weights.any(axis=1)) + 1
        gap = objective_gap(central, local, shares)
        return [
            {"round": int(t), "along": float(a), "final": float(f), "gap": gap}
            for t, a, f in zip(played, found.along, found.at_optimum, strict=True)
        ]

    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        """Compare the policies' mean and smallest skew, seed by seed, with random selection's."""
        said, claimed = [], []
        sides = []
        for split in _SPLITS:
            parts = []
            for policy in setting.POLICIES:
                mean = interval(_by_seed(rows, split, policy, "along", np.mean))
                least = interval(_by_seed(rows, split, policy, "along", np.min))
                most = interval(_by_seed(rows, split, policy, "final", np.max))
                parts.append(
                    f"{policy} {mean.show(3)}, least {least.show(2)}, largest at the final model {most.show(2)}"
                )
            for policy in ("markov-optimal", "markov-increasing"):
                pairs = zip(
                    _by_seed(rows, split, policy, "along", np.mean),
                    _by_seed(rows, split, "random", "along", np.mean),
                    strict=True,
                )
                difference = interval([a - b for a, b in pairs])
                claimed.append(f"{split}, {policy}: {difference.show(3)}")
                sides.append((difference.mean > 0, difference.low > 0))
            gap = interval(_by_seed(rows, split, "random", "gap", np.mean))
            said.append(f"{split}: Γ {gap.show(3)}; mean ρ of {'; '.join(parts)}")
        paragraph = (
            f"{settings['dataset']}, {settings['model']}, {settings['rounds']} rounds. {'. '.join(said)}. F_k* is the "
            f"loss after {settings['local_steps']} steps on a client's own data; Γ is taken at a model trained "
            f"centrally for {settings['central_epochs']} epochs, ρ̄ at the run's last model; q_k is a client's share of "
            "the examples. The paper's Table II is titled an average, its text says minimum and maximum over the "
            "rounds: both are here. With expected weights E[ω] = q, ρ is 1 at any fixed model, whatever the policy; it "
            "leaves 1 along training because clients chosen lately have a smaller loss, and an age policy passes over "
            "them, and where weights are not in proportion to sizes (1/|S| under Dirichlet). A single round's ρ "
            "scatters about that, so its minimum falls with the number of rounds."
        )
        verdict: Verdict = (
            "holds" if all(sure for _, sure in sides) else "partly" if any(above for above, _ in sides) else "not"
        )
        if settings["dataset"] != "mnist":
            verdict = "not run"
            claimed.insert(0, f"played on {settings['dataset']}")
        claim = Claim(
            _CLAIMED,
            _SOURCE,
            "MNIST: 0.98 and 0.99 against 0.98",
            f"difference of mean ρ from random, paired: {'; '.join(claimed)}",
            verdict,
        )
        return Conclusion(paragraph, (claim,))

    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        """Draw the mean skew of each policy over seeds, with intervals, beside the paper's figure for MNIST."""
        for axes, split in zip(figure.subplots(1, len(_SPLITS), sharey=True), _SPLITS, strict=True):
            for x, policy in enumerate(setting.POLICIES):
                found = [interval(_by_seed(rows, split, policy, "along", how)) for how in (np.mean, np.min)]
                style = STYLES[policy]
                axes.errorbar([x], [found[0].mean], [_finite(found[0].half)], linestyle="", label="mean", **style)
                axes.errorbar(
                    [x], [found[1].mean], [_finite(found[1].half)], linestyle="", markerfacecolor="none", **style
                )
                axes.plot([x - 0.25, x + 0.25], [_THEIRS[policy]] * 2, color="#888888", linestyle=":")
            axes.axhline(1, color="#888888", linewidth=0.8)
            axes.set_xticks(range(len(setting.POLICIES)), [p.replace("-", "\n") for p in setting.POLICIES])
            axes.set(title=split)
        figure.axes[0].set_ylabel("ρ; filled: mean, open: least,\ndotted: the paper's, MNIST")


def _by_seed(rows: Sequence[Row], split: str, policy: str, column: str, how: Any) -> list[float]:
    """Return a statistic of each seed's rounds."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if (row["split"], row["policy"]) == (split, policy):
            found.setdefault(row["seed"], []).append(row[column])
    return [float(how(found[seed])) for seed in sorted(found)]


def _finite(half: float) -> float:
    return half if np.isfinite(half) else 0.0
