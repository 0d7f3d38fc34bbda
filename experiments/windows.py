"""How much a client's number of selections varies between windows of T rounds: √Var(Y)/T, measured and exact."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from matplotlib.figure import Figure

from aoi.load import WINDOWS, window_deviation
from experiments import setting
from experiments.base import JOURNAL, Claim, Conclusion, Options, Row, Unit
from experiments.drawing import STYLES, legend_below
from experiments.stats import agreement, interval
from report.theory import window_deviation as renewal_deviation


def expected_variance(policy: str, window: int, rounds: int) -> float:
    """Return the exact expectation of the measured Var(Y)/T², pooled over clients and ⌊R/T⌋ windows.

    Under proportional selection Y_i ~ Binomial(kT, q_i), multiplicities counted; the pool holds all clients. Otherwise
    clients are alike, and Var(Y) is that of a stationary renewal process. What is measured is taken about the mean of
    the pool; under the Markov policies this mean varies too, by Var(Y over all windows together)/(n W²), which is
    subtracted. Random and proportional selection have a fixed number of draws.
    """
    clients, drawn = setting.CLIENTS, setting.PER_ROUND * window
    if policy == "proportional":
        shares = setting.sizes() / setting.sizes().sum()
        second = float((drawn * shares * (1 - shares) + (drawn * shares) ** 2).mean())
        return (second - (drawn / clients) ** 2) / window**2
    deviation = _deviations(policy)[window - 1]
    if policy == "random":
        return deviation**2
    overall = _deviations(policy)[rounds // window * window - 1]
    return deviation**2 - overall**2 / clients


class Windows(setting.PolicyFigure):
    """Journal, Fig. 4."""

    name = "windows"
    title = "√Var(Y)/T against the window T"
    source = f"{JOURNAL}, Fig. 4"

    def play(self, unit: Unit, options: Options) -> list[Row]:
        """Return the deviation in windows of every length."""
        history = setting.play(unit["policy"], self.settings(options)["rounds"], unit["seed"])
        return [{"window": t, "deviation": value} for t, value in window_deviation(history).items()]

    def conclude(self, rows: Sequence[Row], settings: Mapping[str, Any]) -> Conclusion:
        """Compare every point with theory, and the policies with each other."""
        windows = [t for t in WINDOWS if t <= settings["rounds"]]
        points = [
            ([v**2 for v in _values(rows, policy, t)], expected_variance(policy, t, settings["rounds"]))
            for policy in setting.POLICIES
            for t in windows
        ]
        met = agreement(points)
        shown = [t for t in (1, 5, 20, 100) if t in windows]
        at = {p: [interval(_values(rows, p, t)) for t in shown] for p in setting.POLICIES}
        table = "; ".join(
            f"{p}: " + ", ".join(f"{v.show(4)} at T={t}" for t, v in zip(shown, at[p], strict=True)) for p in at
        )
        paragraph = (
            f"{table}. Measured and exact {met}, compared as Var(Y)/T²; the Markov policies by renewal theory, "
            "proportional selection by Binomial(kT, q_i) with multiplicities. At T=1 all policies with the same rate "
            "tie, and the optimal policy's curve is not monotone: it dips where T is near a multiple of n/k."
        )
        best = [t for t in windows if t > 1]
        lowest = all(
            expected_variance("markov-optimal", t, settings["rounds"])
            < min(expected_variance(p, t, settings["rounds"]) for p in setting.POLICIES if p != "markov-optimal")
            for t in best
        )
        highest = all(
            expected_variance("proportional", t, settings["rounds"])
            > max(expected_variance(p, t, settings["rounds"]) for p in setting.POLICIES if p != "proportional")
            for t in windows
        )
        ties = "all tie at T=1 but proportional"
        claims = (
            Claim(
                "The optimal Markov policy has the lowest √Var(Y)/T, proportional selection the highest",
                f"{JOURNAL}, Fig. 4",
                "curves",
                f"lowest at every T > 1, {ties}; at T={shown[-1]}: "
                + ", ".join(f"{p} {at[p][-1].show(4)}" for p in at)
                + f"; measured and exact {met}",
                "holds" if lowest and highest and met.holds else "partly",
            ),
            Claim(
                "√Var(Y)/T falls with T for all policies",
                f"{JOURNAL}, Fig. 4",
                "generally",
                f"proportional selection levels off at {_root(expected_variance('proportional', 500, 1000)):.3f}; "
                "the optimal policy's curve is not monotone in T",
                "partly",
            ),
        )
        return Conclusion(paragraph, claims)

    def plot(self, rows: Sequence[Row], settings: Mapping[str, Any], figure: Figure) -> None:
        """Draw measured points on exact lines."""
        axes = figure.subplots()
        rounds = settings["rounds"]
        windows = [t for t in WINDOWS if t <= rounds]
        fine = sorted({*range(1, 61), *windows, *(t for t in range(60, max(windows) + 1, 5))})
        for policy in setting.POLICIES:
            style = STYLES[policy]
            axes.plot(
                fine, [_root(expected_variance(policy, t, rounds)) for t in fine], color=style["color"], linewidth=1.4
            )
            found = [interval(_values(rows, policy, t)) for t in windows]
            axes.errorbar(
                windows, [f.mean for f in found], [f.half for f in found], linestyle="", label=policy, **style
            )
        axes.set(
            xscale="log", yscale="log", xlabel="window T, rounds", ylabel="√Var(Y)/T, points: measured; lines: exact"
        )
        legend_below(figure, axes)


@cache
def _deviations(policy: str) -> list[float]:
    """Return the exact √Var(Y)/T of one client for every window T from 1 to 1000."""
    return renewal_deviation(setting.markov(policy), range(1, 1001))


def _root(value: float) -> float:
    return math.sqrt(max(value, 0.0))


def _values(rows: Sequence[Row], policy: str, window: int) -> list[float]:
    return [row["deviation"] for row in rows if row["policy"] == policy and row["window"] == window]
