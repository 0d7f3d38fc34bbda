"""``aoi policy``: what a policy promises of each client, before anything is played."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from aoi_fl.cli.keys import Config, Number
from aoi_fl.cli.options import (
    Clients,
    Exponent,
    Jitter,
    Json,
    MaxAge,
    PerRound,
    Phases,
    Rates,
    Seed,
    Sizes,
    pick,
    rates_by,
    reject,
    reject_max_age,
)
from aoi_fl.cli.output import bar, print_facts, print_json, print_table
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import PhaseRule
from aoi_fl.strategies.registry import REGISTRY

if TYPE_CHECKING:
    from aoi_fl.science.markov import MarkovPolicy
    from aoi_fl.science.markov_rates import RatedMarkovPolicy
    from aoi_fl.science.systematic import SystematicPolicy

# Those of the run key by which clients decide, and one that is only for comparison.
POLICIES = ("markov-optimal", "markov-increasing", "markov-uniform", "systematic")
_MOST_ROWS = 40  # of a law in the terminal
_MOST_MIXED = 300  # ages up to which the chain's eigenvalues are looked for, at O(m³)


def policy(
    context: typer.Context,
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = "markov-optimal",
    clients: Clients = 100,
    per_round: PerRound = 15,
    max_age: MaxAge = 10,
    exponent: Exponent = 1.0,
    dropout: Annotated[
        float | None,
        typer.Option(
            click_type=Number(0.0, 1.0),
            help="Probability that a willing client is out of reach, for markov-optimal.",
        ),
    ] = None,
    rates: Rates = "equal",
    sizes: Sizes = "equal",
    clients_file: Annotated[Path | None, typer.Option(help="CSV file with a column rate, for --rates given.")] = None,
    phases: Phases = "spread",
    jitter: Jitter = 0.0,
    rounds: Annotated[
        int, typer.Option(click_type=Number(1, 1_000_000), help="Rounds T in which participations are bounded.")
    ] = 100,
    seed: Seed = 1,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show a policy that clients decide by, and its load.

    Who takes part when, the law of X (rounds between two times), and its moments.
    A Markov policy is a table of probabilities, one for each age; a systematic one a rate and a phase for each client.
    """
    if policy in REGISTRY and policy not in POLICIES:
        raise ConfigError(
            "policy",
            policy,
            tuple(POLICIES),
            f"Choose a policy under which clients decide, or use aoi simulate --policy {policy}.",
        )
    pick("policy", policy, dict.fromkeys(POLICIES, dict))
    about = f"policy {policy!r}"
    if policy != "markov-increasing":
        reject(context, ["exponent"], about, "leave it out, or give --policy markov-increasing")
    if policy != "markov-optimal":
        reject(context, ["dropout"], about, "leave it out, or give --policy markov-optimal")
    if policy in ("markov-increasing", "markov-uniform"):
        reject(context, ["rates"], about, "leave it out, or give --policy markov-optimal")
    if rates != "size":
        reject(context, ["sizes"], f"rates {rates!r}", "leave it out, or give --rates size")
    if rates in ("equal", "size"):
        reject(context, ["clients_file"], f"rates {rates!r}", "leave it out, or give --rates given")
    title = f"{clients} clients, {per_round} a round"
    if policy == "systematic":
        reject(context, ["max_age"], about, "leave it out, or give a Markov policy")
        from aoi_fl.science.systematic import SystematicPolicy

        own, capped = rates_by(rates, sizes, clients_file, clients, per_round, seed)
        chosen = SystematicPolicy.rated(own, cast(PhaseRule, phases), jitter, seed)
        heading = f"Systematic participation: {title}, {phases} phases, jitter {jitter:g}"
        if rates == "equal":
            exactly = per_round if phases == "spread" and not jitter else None
            _show_stride(chosen, heading, exactly, rounds, as_json)
        else:
            _show_rated(chosen, heading, capped, rounds, as_json)
        return
    reject(context, ["phases", "jitter"], about, "leave it out, or give --policy systematic")
    if rates != "equal":
        reject_max_age(context, rates)
        from aoi_fl.science.markov_rates import RatedMarkovPolicy, largest_rate

        own, capped = rates_by(rates, sizes, clients_file, clients, per_round, seed, largest_rate(dropout or 0.0))
        rated = RatedMarkovPolicy(own, dropout=dropout or 0.0)
        _show_rated(rated, f"Markov policy, optimal for each rate: {title}", capped, rounds, as_json)
        return
    from aoi_fl.science.markov import MarkovPolicy

    makers = {
        "markov-optimal": lambda: MarkovPolicy.optimal(clients, per_round, max_age, dropout or 0.0),
        "markov-increasing": lambda: MarkovPolicy.increasing(clients, per_round, max_age, exponent),
        "markov-uniform": lambda: MarkovPolicy.uniform(clients, per_round, max_age),
    }
    _show_markov(pick("policy", policy, makers), f"{policy}: {title}, maximum age {max_age}", rounds, as_json)


def _participation(chosen: MarkovPolicy | RatedMarkovPolicy | SystematicPolicy, rounds: int) -> dict[str, int]:
    """Return b and K, by their names in JSON."""
    from aoi_fl.science.privacy.bounds import bounds

    found = bounds(chosen, rounds)
    return {"min_separation": found.min_separation, "max_participations": found.max_participations}


def _show_participation(found: dict[str, int], rounds: int) -> None:
    names = ("rounds between two, at least (b)", f"in {rounds} rounds, at most (K)")
    print_facts("Participations of a client", zip(names, found.values(), strict=True))


def _show_markov(chosen: MarkovPolicy, title: str, rounds: int, as_json: bool) -> None:
    max_age = chosen.max_age
    pmf = chosen.interval_pmf().tolist()
    moments = {
        "interval_mean": chosen.interval_mean,
        "interval_variance": chosen.interval_variance,
        "second_eigenvalue": chosen.second_eigenvalue if max_age <= _MOST_MIXED else None,
        "mixing_rounds": chosen.mixing_rounds() if max_age <= _MOST_MIXED else None,
        "weight_variance": chosen.weight_variance,
    }
    if as_json:
        print_json(
            {
                "probabilities": list(chosen.probabilities),
                "stationary": chosen.stationary.tolist(),
                "interval_pmf": {x: p for x, p in enumerate(pmf, start=1) if p > 0},
                **moments,
                **_participation(chosen, rounds),
            }
        )
        return
    law = [*(pmf + [0.0] * max_age)[:max_age], sum(pmf[max_age:])]  # the last entry: P(X > m)
    rows = [
        (f"{age}+" if age == max_age else age, p, share, x, bar(x, max(law)))
        for age, (p, share, x) in enumerate(zip(chosen.probabilities, chosen.stationary.tolist(), law, strict=True))
    ]
    print_table(title, ["age", "takes part with", "share of clients", "P(X = age + 1)", ""], rows)
    names = ["E[X]", "Var[X]", "|second eigenvalue|", "rounds to mix from age 0", "Σ Var[ω], Theorem 5 as printed"]
    print_facts("Moments", zip(names, moments.values(), strict=True))
    _show_participation(_participation(chosen, rounds), rounds)


def _show_stride(chosen: SystematicPolicy, title: str, exactly: int | None, rounds: int, as_json: bool) -> None:
    """Show what clients of one rate all do; ``exactly`` so many take part in every round, None if that varies."""
    from aoi_fl.science.load import WINDOWS
    from aoi_fl.science.rates import exact
    from aoi_fl.science.stride_laws import interval_law, interval_variance, window_variance

    rate, jitter = float(chosen.rates[0]), chosen.jitter
    least, variance = interval_variance(rate), interval_variance(rate, jitter)
    pmf = interval_law(rate, jitter)
    spread = {length: window_variance(rate, length, jitter) ** 0.5 / length for length in WINDOWS}
    if as_json:
        values: dict[str, Any] = {"rate": rate, "interval_mean": 1 / rate, "interval_variance": variance}
        values |= {"least_variance": least, "interval_pmf": pmf, "window_deviation": spread}
        print_json(values | _participation(chosen, rounds))
        return
    print_facts(
        title,
        [
            ("rate, share of the rounds", str(exact(rate))),
            ("clients a round", f"exactly {exactly}" if exactly else f"{rate * chosen.clients:g} in the mean"),
            ("E[X]", 1 / rate),
            ("Var[X]", variance),
            ("Var[X], the least there is", least),
        ],
    )
    law = _in_ranges(pmf)
    print_table("Law of X", ["X", "P(X)", ""], [(x, p, bar(p, max(law.values()))) for x, p in law.items()])
    print_table("Over T rounds", ["T", "√Var(Y)/T, spread of load"], spread.items())
    _show_participation(_participation(chosen, rounds), rounds)


def _in_ranges(law: dict[int, float]) -> dict[str, float]:
    """Return a law for people, neighbouring values put together where there are many, as many in each range."""
    values = sorted(law)
    together = math.ceil(len(values) / _MOST_ROWS)
    ranges = [values[i : i + together] for i in range(0, len(values), together)]
    return {
        f"{found[0]}" if len(found) == 1 else f"{found[0]}–{found[-1]}": sum(law[x] for x in found) for found in ranges
    }


def _show_rated(
    chosen: SystematicPolicy | RatedMarkovPolicy, title: str, capped: int, rounds: int, as_json: bool
) -> None:
    """Show clients with different rates: all of them, or for people the quartiles."""
    import numpy as np

    from aoi_fl.science.rates import pooled_variance

    rates, variances = chosen.rates, chosen.interval_variances()
    pooled = pooled_variance(rates, variances)
    if as_json:
        own = {"rates": rates.tolist(), "interval_variances": variances.tolist()}
        print_json(own | {"capped": capped, "pooled_variance": pooled} | _participation(chosen, rounds))
        return
    order = np.argsort(rates, kind="stable")
    marks = {"least": 0.0, "a quarter have at most": 0.25, "half": 0.5, "three quarters": 0.75, "largest": 1.0}
    shown = [(name, order[round(share * (len(order) - 1))]) for name, share in marks.items()]
    rows = [(float(rates[i]), float(1 / rates[i]), float(variances[i]), name) for name, i in shown]
    print_table(title, ["rate", "E[X]", "Var[X]", "of the clients"], rows)
    facts = [("clients whose rate is capped", capped), ("Var[X] of all intervals together", pooled)]
    print_facts("Together", facts)
    _show_participation(_participation(chosen, rounds), rounds)
