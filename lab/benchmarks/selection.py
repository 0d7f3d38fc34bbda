"""One selection among 10^6 clients against its NumPy call; time and memory up to 10^7."""

import timeit
import tracemalloc
from functools import partial

import numpy as np

from aoi_fl.lab.benchmarks.base import Row, Times, alternate, ratio_row, stopwatch
from aoi_fl.science import age, draws
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import OldestAgeSelector, Population, ProportionalSelector, RandomSelector
from aoi_fl.science.simulate import simulate

MILLION = 10**6
LADDER = 10**3, 10**5, 10**7
CHOSEN = 1000
BUDGET = 2.5e5  # about 50,000 of a million clients with prices of the paper's range


def population(clients):
    """Return clients with geometric ages, and other attributes drawn as in Xu et al. 2024."""
    rng = np.random.default_rng(1)
    return Population(
        ages=rng.geometric(CHOSEN / MILLION, clients).astype(np.int64),
        sizes=rng.integers(1, 1000, clients),
        available=np.ones(clients, np.bool_),
        payments=rng.uniform(1, 20, clients),
        sensitivities=rng.uniform(0.1, 1, clients),
    )


def of_each_kind(people, chosen=CHOSEN):
    """Return every policy's decision for all clients by name; the budget grows with the clients."""
    clients = len(people.ages)
    budget = BUDGET * clients / MILLION
    policy = MarkovPolicy.optimal(clients, max(1, clients * 15 // 100), 10)
    ages = age.first_age(policy.hazards, draws.uniforms(1, 1, "first-age", clients))

    def decide():
        return np.flatnonzero(draws.uniforms(1, 3, "participate", clients) < age.hazards(policy.probabilities, ages))

    selectors = {
        "random": RandomSelector(chosen, 1),
        "proportional": ProportionalSelector(chosen, 1),
        "oldest-age": OldestAgeSelector(chosen, 1),
        "WICS": BudgetedSelector(budget),
        "ABS": BudgetedSelector(budget, "abs"),
        "MaxPack": BudgetedSelector(budget, "maxpack"),
        "random under a budget": BudgetedSelector(budget, "random", 1),
    }
    return {name: partial(selector.select, 3, people) for name, selector in selectors.items()} | {
        "decisions of Markov clients": decide,
        "their first ages": lambda: age.first_age(policy.hazards, draws.uniforms(1, 1, "first-age", clients)),
        "their reservations": lambda: age.interval_given_age(
            policy.probabilities, ages, draws.uniforms(1, 3, "reserve", clients)
        ),
    }


def run(data):
    """Measure the decisions of one round."""
    people, floats = population(MILLION), np.random.default_rng(2).random(MILLION)
    ours, philox = of_each_kind(people), np.random.Generator(np.random.Philox(7))
    yield ratio_row(
        f"one choice of {CHOSEN} among 10^6, oldest-age",
        "`numpy.argpartition` of as many floats",
        3,
        *alternate(ours["oldest-age"], lambda: np.argpartition(floats, CHOSEN)),
    )
    yield ratio_row(
        "one round of decisions of 10^6 Markov clients",
        "drawing 10^6 Philox floats",
        3,
        *alternate(ours["decisions of Markov clients"], lambda: philox.random(MILLION)),
    )
    for name in ("WICS", "random", "proportional", "ABS", "MaxPack", "random under a budget"):
        yield ratio_row(
            f"one choice among 10^6, {name}",
            "`numpy.argsort` of as many floats",
            2 if name == "WICS" else None,
            *alternate(ours[name], lambda: np.argsort(floats)),
        )
    policy, times, drawing = MarkovPolicy.optimal(MILLION, 150_000, 10), Times(), Times()
    with stopwatch(times):
        simulate(policy, people, 100, seed=1)
    for _ in range(5):
        with stopwatch(drawing):
            philox.random(MILLION)
    yield Row(
        "`aoi simulate`: 100 rounds of 10^6 clients, without learning",
        "drawing 10^6 Philox floats 100 times",
        30,
        times.seconds,
        "s",
        note=f"{times.seconds / 100 / drawing.seconds:.1f} times the drawing",
    )


def ladder():
    """Return a Markdown table of seconds and bytes per client at 10^3 to 10^7 clients."""
    found = {}
    for clients in LADDER:
        people = population(clients)
        for name, decide in of_each_kind(people, min(CHOSEN, clients // 10)).items():
            seconds = min(timeit.repeat(decide, number=1, repeat=20 if clients < MILLION else 1))
            found.setdefault(name, []).append(f"{_time(seconds)} | {bytes_a_client(decide, clients):.0f}")
    sizes = [f"10^{len(str(n)) - 1}" for n in LADDER]
    lines = [f"| decision | {' | '.join(f'n = {n} | bytes a client' for n in sizes)} |"]
    lines += ["|---" * (1 + 2 * len(LADDER)) + "|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in found.items()])


def _time(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def bytes_a_client(function, clients):
    """Return a call's peak memory, with its result and without arguments, in bytes per client."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / clients
    finally:
        tracemalloc.stop()
