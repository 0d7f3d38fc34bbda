"""One choice among 10^6 clients, against the NumPy call that it cannot do without; memory; 10^7 clients."""

import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aoi import age, draws
from aoi.budget import BudgetedSelector
from aoi.markov import MarkovPolicy
from aoi.selection import OldestAgeSelector, Population, ProportionalSelector, RandomSelector
from aoi.simulate import simulate
from benchmarks.base import Row, Times, alternate, ratio_row, stopwatch

MILLION = 10**6
CHOSEN = 1000
BUDGET = 2.5e5  # about 50,000 of a million clients with prices of the paper's range


def population(clients: int) -> Population:
    """Return clients with geometric ages, and sizes, payments and weights drawn as in Xu et al. 2024."""
    rng = np.random.default_rng(1)
    return Population(
        ages=rng.geometric(CHOSEN / MILLION, clients).astype(np.int64),
        sizes=rng.integers(1, 1000, clients),
        available=np.ones(clients, np.bool_),
        payments=rng.uniform(1, 20, clients),
        weights=rng.uniform(0.1, 1, clients),
    )


def run(data: Path) -> list[Row]:
    """Measure the choices of one round."""
    people, floats = population(MILLION), np.random.default_rng(2).random(MILLION)
    oldest, wics = OldestAgeSelector(CHOSEN, 1), BudgetedSelector(BUDGET)
    policy = MarkovPolicy.optimal(MILLION, 150_000, 10)
    ages = age.first_age(policy.hazards, floats)
    philox = np.random.Generator(np.random.Philox(7))

    def decide() -> object:
        return np.flatnonzero(draws.uniforms(1, 3, "participate", MILLION) < age.hazards(policy.probabilities, ages))

    return [
        ratio_row(
            f"one choice of {CHOSEN} among 10^6, oldest-age",
            "`numpy.argpartition` of as many floats",
            3,
            *alternate(lambda: oldest.select(3, people), lambda: np.argpartition(floats, CHOSEN)),
            details=_large(lambda n: OldestAgeSelector(CHOSEN, 1), people),
        ),
        ratio_row(
            "one round of decisions of 10^6 Markov clients",
            "drawing 10^6 Philox floats",
            3,
            *alternate(decide, lambda: philox.random(MILLION)),
            details={"bytes-a-client": _bytes(decide, MILLION)},
        ),
        ratio_row(
            "one choice among 10^6, WICS",
            "`numpy.argsort` of as many floats",
            2,
            *alternate(lambda: wics.select(3, people), lambda: np.argsort(floats)),
            details=_large(lambda n: BudgetedSelector(BUDGET * n / MILLION), people),
        ),
        *(_unbounded(name, selector, people) for name, selector in _OTHERS.items()),
        _simulator(),
    ]


_OTHERS: dict[str, Any] = {
    "random": RandomSelector(CHOSEN, 1),
    "proportional": ProportionalSelector(CHOSEN, 1),
    "ABS": BudgetedSelector(BUDGET, "abs"),
    "MaxPack": BudgetedSelector(BUDGET, "maxpack"),
}


def _unbounded(name: str, selector: Any, people: Population) -> Row:
    floats = np.random.default_rng(2).random(MILLION)
    ours, reference = alternate(lambda: selector.select(3, people), lambda: np.argsort(floats), repeats=5)
    return Row(
        f"one choice among 10^6, {name}",
        "`numpy.argsort` of as many floats",
        None,
        ours.seconds / reference.seconds,
        details={"ours": ours.summary(), "reference": reference.summary()},
    )


def _large(selector: Callable[[int], Any], people: Population) -> dict[str, Any]:
    """Return memory a client of one choice among 10^6, and the seconds of one among 10^7."""
    needed = _bytes(lambda: selector(MILLION).select(3, people), MILLION)
    many = population(10 * MILLION)
    begun = time.perf_counter()
    selector(10 * MILLION).select(3, many)
    return {"bytes-a-client": needed, "seconds-among-10^7": round(time.perf_counter() - begun, 3)}


def _bytes(function: Callable[[], object], clients: int) -> float:
    """Return the peak of memory that a call takes beside its arguments, in bytes a client."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(peak / clients, 1)


def _simulator() -> Row:
    """Play 100 rounds of 10^6 Markov clients without learning."""
    policy, people = MarkovPolicy.optimal(MILLION, 150_000, 10), population(MILLION)
    times, drawing = Times([], []), Times([], [])
    with stopwatch(times):
        simulate(policy, people, 100, seed=1)
    philox = np.random.Generator(np.random.Philox(7))
    for _ in range(5):
        with stopwatch(drawing):
            philox.random(MILLION)
    return Row(
        "`aoi simulate`: 100 rounds of 10^6 clients, without learning",
        "drawing 10^6 Philox floats 100 times",
        30,
        times.seconds,
        "s",
        note=f"{times.seconds / 100 / statistics.median(drawing.wall):.1f} times the drawing",
        details={"ours": times.summary(), "one-drawing": drawing.summary()},
    )
