"""Natural federations: pupils by school, ratings by student, flights by aircraft, lines by speaker."""

from functools import lru_cache

import numpy as np

from aoi_fl.lab.experiments.harness.drawing import COLOURS, legend_below, lines
from aoi_fl.lab.experiments.harness.natural_data import (
    DataSource,
    NaturalFederation,
    existing,
    read_csv,
    read_speakers,
    split_rows,
)
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.study import Study, rounded, values
from aoi_fl.lab.experiments.studies.rare_classes import players
from aoi_fl.lab.simulated_time.traces import read_trace
from aoi_fl.science import draws
from aoi_fl.science.load import participation

_PER_ROUND, _CLIENTS, _LEAST = 15, 300, 10
_TRACE = "availability_300.npz"
_ROUND = 600.0  # seconds of the trace
_EVALUATIONS = 5  # in the last quarter of the rounds
_CONTEXT = 4  # characters that the next one is predicted from
_ALWAYS, _PHONES = "always available", "phone trace"


SOURCES = {
    "schools": DataSource(
        "chem97.csv.gz",
        "school",
        "score",
        {"gender": None, "age": 2.0, "gcsescore": 0.25},
    ),
    "students": DataSource(
        "insteval.csv.gz",
        "student",
        "rating",
        dict.fromkeys(("studage", "lectage", "service", "dept", "lecturer")),
    ),
    "aircraft": DataSource(
        "flights.csv.gz",
        "tailnum",
        "late",
        {
            **dict.fromkeys(("carrier", "origin", "dest", "month", "weekday")),
            "hour": 1.0,
            "distance": 250.0,
        },
    ),
}
_SPEAKERS = "speakers"
_SETS = (*SOURCES, _SPEAKERS)
_WHERE = {_ALWAYS: "where clients are always available", _PHONES: "on the phone trace"}


class Natural(Study):
    """Five policies in four unpartitioned federations, always available and with the phone trace."""

    def play(self, unit, options):
        """Train along the policy's selections, and return the test loss of the last quarter of the rounds."""
        chosen, seed = self.settings(options), unit["seed"]
        name, _, where = unit["case"].partition(", ")
        table, train, test = _rows(name, options.data_dir, seed)
        n, rounds = len(train), chosen["num-server-rounds"]
        federation = NaturalFederation(
            table, train, seed, chosen["local-epochs"], chosen["batch-size"], chosen["learning-rate"]
        )
        there = np.ones((rounds + 1, n), np.bool_)
        if where == _PHONES:
            trace = read_trace(existing(options.data_dir / _TRACE)).first(n).availability
            start = _ROUND * int(draws.uniform(seed, 0, "natural-start", 0) * trace.period / _ROUND)
            there = np.array([trace.here(start + _ROUND * t) for t in range(rounds + 1)])
        offered = players(n, _PER_ROUND, seed).items()
        policy, weighting = next(player for name, player in offered if name.startswith(unit["policy"]))
        (loss, accuracy), history = federation.late(
            policy,
            rounds,
            weighting,
            lambda arrays: federation.evaluate(arrays, *test),
            _EVALUATIONS,
            lambda round_: there[round_],
        )
        available = int(there[1:].any(axis=0).sum())
        load = rounded(4, jain=participation(history).jain * n / available)
        return [rounded(6, loss=loss, accuracy=accuracy) | load | rounded(3, updates=len(history.members) / rounds)]

    def plot(self, rows, settings, figure):
        """Draw loss and Jain's index above random selection's, where clients are always available and on the trace."""
        figure.set_figheight(6.6)
        panels = figure.subplots(2, 2, sharey=True)
        for line, (where, about) in zip(panels, _WHERE.items(), strict=True):
            for axes, measure in zip(line, (m for m in self.measures.values() if m.drawn), strict=True):
                lines(axes, _SETS)
                for i, policy in enumerate(self.policies[1:]):
                    found = [interval(values(rows, f"{name}, {where}", policy, measure, "random")) for name in _SETS]
                    places = [place + (i - 1.5) / 6 for place in range(len(_SETS))]
                    bars = {"xerr": [of.bar for of in found], "capsize": 2, "linestyle": "", "marker": "os^D"[i]}
                    axes.errorbar([of.mean for of in found], places, color=COLOURS[i + 1], label=policy, **bars)
                axes.set_title(about)
                axes.set_xlabel(f"{measure.label}, above random")
        legend_below(figure, panels[0, 0])


@lru_cache(maxsize=2)
def _table(name, folder):
    return read_csv(folder / "natural", SOURCES[name])


@lru_cache(maxsize=2)
def _rows(name, folder, seed):
    """Return all rows, each client's training rows, and the test examples."""
    if name == _SPEAKERS:
        table, test = read_speakers(folder / "natural" / "speakers.npz", _CONTEXT)
        train = [np.flatnonzero(table.clients == i) for i in range(len(table.names))]
        return table, train, (test.x, test.y)
    table = _table(name, folder)
    train, rows = split_rows(table, _LEAST, _CLIENTS, seed)
    return table, train, (table.x[rows], table.y[rows])
