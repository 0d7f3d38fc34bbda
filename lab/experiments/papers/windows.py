"""How much a client's number of selections varies between windows of T rounds: √Var(Y)/T, measured and exact."""

import math
from functools import cache
from itertools import pairwise

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import grouped, pick
from aoi_fl.lab.experiments.harness.drawing import COLOURS, legend_below
from aoi_fl.lab.experiments.harness.stats import agreement, difference, interval
from aoi_fl.lab.experiments.harness.verdicts import beyond, joint, side
from aoi_fl.science.load import window_deviation


def expected_variance(policy, window, rounds):
    """Return the exact expectation of the measured Var(Y)/T², pooled over clients and ⌊R/T⌋ windows.

    Under proportional selection Y_i ~ Binomial(kT, q_i), multiplicities counted. Otherwise clients are alike, and
    Var(Y) is that of a stationary renewal process. The measurement is about the pool's mean, which varies under the
    Markov policies by Var(Y over all windows together)/(n W²); that is subtracted. The other policies have a fixed
    number a round.
    """
    clients, drawn = setting.CLIENTS, setting.PER_ROUND * window
    if policy == "proportional":
        shares = setting.sizes() / setting.sizes().sum()
        second = (drawn * shares * (1 - shares) + (drawn * shares) ** 2).mean()
        return (second - (drawn / clients) ** 2) / window**2
    deviation = _deviations(policy)[window - 1]
    if policy in ("random", setting.SYSTEMATIC):
        return deviation**2
    overall = _deviations(policy)[rounds // window * window - 1]
    return deviation**2 - overall**2 / clients


_SHOWN = (1, 5, 20, 100)  # windows of the page's table
_NOTHING = 1e-9  # below it a deviation is rounding


class Windows(setting.PolicyFigure):
    """Journal, Fig. 4."""

    def measured(self, history):
        """Return the deviation in windows of every length."""
        return [{"window": t, "deviation": value} for t, value in window_deviation(history).items()]

    def conclude(self, rows, settings):
        rounds, found = settings["rounds"], _by_window(rows)
        windows = sorted({window for _, window in found})
        exact = {key: expected_variance(*key, rounds) for key in found}
        met = agreement([([v**2 for v in values], exact[key]) for key, values in found.items()])
        at = {p: [interval(found[p, t]) for t in _SHOWN] for p in self.policies}
        last = f"at T={_SHOWN[-1]}: " + ", ".join(f"{p} {at[p][-1].show(4)}" for p in at)

        def compared(policy, others, wanted):
            rivals = [p for p in others if p != policy]
            return [joint([_compared(found, exact, (policy, t), (p, t), wanted) for p in rivals]) for t in windows]

        lowest = compared("markov-optimal", setting.POLICIES, -1)
        highest = compared("proportional", setting.POLICIES, 1)
        low = compared("markov-increasing", ("random", "proportional"), -1)
        falls = {p: [difference(found[p, a], found[p, b]) for a, b in pairwise(windows)] for p in setting.POLICIES}
        rising = {p: [t for t in range(1, max(windows)) if _rises(p, t, rounds)] for p in setting.POLICIES}
        monotone = ", ".join(
            f"{p} {beyond(steps, 1)} of {len(steps)} steps"
            + (
                f" (exact curve rises at {len(rising[p])} of {max(windows) - 1} T, first from T={rising[p][0]})"
                if rising[p]
                else ""
            )
            for p, steps in falls.items()
        )
        level = _root(exact["proportional", windows[-1]])
        fairer = {
            f"{a} − {b}": difference(found[a, _SHOWN[-1]], found[b, _SHOWN[-1]])
            for a, b in pairwise(("markov-optimal", "markov-increasing", "random"))
        }
        claims = {
            "lowest": (
                f"lowest {_where(windows, lowest)}; {last}; measured and exact {met}",
                met.verdict(joint(lowest)),
            ),
            "highest": (f"highest {_where(windows, highest)}; {last}", met.verdict(joint(highest))),
            "lower": (f"lower {_where(windows, low)}; {last}", met.verdict(joint(low))),
            "falls": (
                f"judged at {len(windows)} windows, weakly where the exact curve rises between them; falls beyond "
                f"chance from one to the next: {monotone}; proportional selection levels off, {level:.3f} at "
                f"T={windows[-1]}",
                met.verdict(joint([_falling(steps, bool(rising[p])) for p, steps in falls.items()])),
            ),
            "fairer": (
                f"√Var(Y)/T at T={_SHOWN[-1]}, by Var[X]: "
                + ", ".join(f"{pair} {of.show(4)}" for pair, of in fairer.items()),
                side(fairer.values(), -1),
            ),
        }
        return self.concluded(claims, [[p, *(value.show(4) for value in at[p])] for p in at], met=met)

    def plot(self, rows, settings, figure):
        axes, rounds, found = figure.subplots(), settings["rounds"], _by_window(rows)
        fine = range(1, max(window for _, window in found) + 1)
        for policy, colour, marker in zip(self.policies, COLOURS, "sovD^", strict=False):
            style = {"color": colour, "marker": marker}
            exact = [_root(expected_variance(policy, t, rounds)) for t in fine]
            line = "--" if policy == setting.SYSTEMATIC else "-"
            axes.plot(fine, [v or np.nan for v in exact], line, color=colour, linewidth=1.4)
            points = [(t, interval(values)) for (p, t), values in found.items() if p == policy]
            above = [(t, f.mean, f.half) for t, f in points if f.mean > _NOTHING]  # a logarithmic axis has no zero
            axes.errorbar(*zip(*above, strict=True), linestyle="", label=policy, **style)
            even = [t for t, f in points if f.mean <= _NOTHING]
            if even:
                lowest = axes.get_xaxis_transform()
                axes.plot(even, [0.0] * len(even), transform=lowest, linestyle="", clip_on=False, zorder=3, **style)
                at_left = {"transform": lowest, "ha": "right", "va": "bottom", "color": colour}
                axes.text(even[0] * 0.93, 0.01, f"{policy}, at 0 →", **at_left)
        axes.set(
            xscale="log", yscale="log", xlabel="window T, rounds", ylabel="√Var(Y)/T, points: measured; lines: exact"
        )
        legend_below(figure, axes)


def _by_window(rows):
    """Return the seeds' deviations by policy and window."""
    return {key: pick(of, "deviation") for key, of in grouped(rows, "policy", "window").items()}


def _compared(found, exact, ours, other, wanted):
    """Judge whether a policy is below (``wanted`` −1) or above (1) another, beyond chance in pairs and in theory.

    Where theory has them within a thousandth of one another, they tie, and the claim holds weakly.
    """
    own, beside = _root(exact[ours]), _root(exact[other])
    apart = abs(own - beside) > 1e-3 * beside
    return side([difference(found[ours], found[other])], wanted) if apart else "holds weakly"


def _falling(steps, rises):
    """Judge whether a policy's deviation falls at every step, and, in theory, between the steps too."""
    verdict = side(steps, 1)
    return "holds weakly" if verdict == "holds" and rises else verdict


def _rises(policy, window, rounds):
    """Return whether the exact curve rises from T to T+1."""
    before, after = (expected_variance(policy, t, rounds) for t in (window, window + 1))
    return after > before * (1 + 1e-9)


def _where(windows, verdicts):
    """Return the windows at which something holds."""
    fails = [str(t) for t, verdict in zip(windows, verdicts, strict=True) if verdict != "holds"]
    if not fails:
        return f"at all {len(windows)} window sizes"
    return f"at {len(windows) - len(fails)} of {len(windows)} window sizes, all but T={', '.join(fails)}"


@cache
def _deviations(policy):
    """Return the exact √Var(Y)/T of one client for every window T from 1 to 1000."""
    windows = range(1, 1001)
    return [math.sqrt(v) / t for t, v in zip(windows, setting.law(policy).window_variances(windows), strict=True)]


def _root(value):
    return math.sqrt(max(value, 0.0))
