"""The picture of README: how often each of 100 clients trains in 60 rounds, by random selection and by age."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aoi_fl.lab.experiments.harness.setting import play

ROUNDS, SEED = 60, 1
NAMES = {"random": ("Random selection", "#8a8a8a"), "markov-optimal": ("AoI-FL, each client decides", "#0072b2")}


def draw(output: Path) -> None:
    """Draw the participations of each client, sorted, and write ``load.png`` into a folder."""
    figure = Figure(figsize=(8, 2.9), dpi=110, layout="constrained")
    axes = figure.subplots()
    for policy, (name, colour) in NAMES.items():
        counts = np.sort(np.bincount(play(policy, ROUNDS, SEED).members, minlength=100))
        axes.step(range(1, 101), counts, where="mid", color=colour, linewidth=2.2)
        label = f"{name}: {counts.min()} to {counts.max()} times"
        at, place = (62, -2.6) if policy == "random" else (3, 2.6)
        axes.text(at, counts[at] + place, label, color=colour, fontsize=11, va="center")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="100 clients, sorted", ylabel=f"times trained in {ROUNDS} rounds", xlim=(1, 100), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output / "load.png")


if __name__ == "__main__":
    draw(Path(__file__).resolve().parent)
