"""The picture of README and site: how often each of 100 clients trains in 60 rounds, by random selection and by age."""

from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from aoi_fl.lab.experiments.harness.setting import play

ROUNDS, SEED = 60, 1
POLICIES = {"random": "Random selection", "markov-optimal": "AoI-FL, each client decides"}
# The picture of each theme: the colours of its page, its axes and its lines.
THEMES = {"load": ("white", "black", "#707070", "#0072b2"), "load-dark": ("#1e2129", "#d0d0d0", "#a0a0a0", "#56b4e9")}


def draw(output: Path) -> None:
    """Draw the participations of each client, sorted, for light and dark pages, and write PNGs into a folder."""
    for name, (paper, ink, *colours) in THEMES.items():
        look = {"axes.facecolor": paper, "axes.edgecolor": ink, "axes.labelcolor": ink, "xtick.color": ink}
        with rc_context(look | {"ytick.color": ink, "figure.facecolor": paper}):
            _figure(dict(zip(POLICIES, colours, strict=True))).savefig(output / f"{name}.png")


def _figure(colours: dict[str, str]) -> Figure:
    figure = Figure(figsize=(8, 2.9), dpi=110, layout="constrained")
    axes = figure.subplots()
    for policy, colour in colours.items():
        counts = np.sort(np.bincount(play(policy, ROUNDS, SEED).members, minlength=100))
        axes.step(range(1, 101), counts, where="mid", color=colour, linewidth=2.2)
        label = f"{POLICIES[policy]}: {counts.min()} to {counts.max()} times"
        at, place = (62, -2.6) if policy == "random" else (3, 2.6)
        axes.text(at, counts[at] + place, label, color=colour, fontsize=11, va="center")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="100 clients, sorted", ylabel=f"times trained in {ROUNDS} rounds", xlim=(1, 100), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    draw(Path(__file__).resolve().parent)
