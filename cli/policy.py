"""``aoi policy``: the properties of a policy, before a run."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import typer

from aoi_fl.cli.keys import parse, refuse, typed
from aoi_fl.cli.options import Json, rates_by
from aoi_fl.config.policies import DEFAULT, OWN, REGISTRY, is_policy, users_of
from aoi_fl.report.output import bar, print_facts, print_json, print_table
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.config.run import RunConfig
    from aoi_fl.science.markov import MarkovPolicy
    from aoi_fl.science.systematic import SystematicPolicy

POLICIES = (*users_of("max-age"), *users_of("phases"))
KEYS = (
    "policy",
    "num-clients",
    "clients-per-round",
    "max-age",
    "exponent",
    "rates",
    "sizes",
    "clients-file",
    "phases",
    "jitter",
    "num-server-rounds",
    "seed",
)
_MOST_ROWS = 40  # of a distribution in the terminal
_MOST_MIXED = 300  # largest age for which eigenvalues are computed, at O(m³)


def policy(context: typer.Context, as_json: Json = False) -> None:
    """Show a policy of client decisions, and its load.

    It shows the policy, the distribution of X (rounds between two participations), and its moments. A Markov policy is
    a table with a probability for each age. A systematic policy has a rate and a phase for each client.
    """
    config = _configured(context)
    name, n, k, rounds = config.policy, config.num_clients, config.clients_per_round, config.num_server_rounds
    if config.rates != "size":
        refuse(context, ["sizes"], f"rates={config.rates} does not use it", "Leave it out, or give --rates size.")
    row, keys, title = REGISTRY[name], config.flat(), f"{n} clients, {k} a round"
    by_stride = "phases" in row.keys
    stride = f"Systematic participation: {title}, {config.phases} phases"
    if config.rates != "equal":
        own, capped = rates_by(config)
        heading = stride if by_stride else f"Markov policy, optimal for each rate: {title}"
        _show_rated(row.build(keys, own), heading, capped, rounds, as_json)
    elif by_stride:
        _show_stride(row.build(keys), stride, k if config.phases == "spread" else None, rounds, as_json)
    else:
        _show_markov(row.build(keys), f"{name}: {title}, maximum age {config.max_age}", rounds, as_json)


def _configured(context: typer.Context) -> RunConfig:
    """Return the configuration of a policy under which clients decide."""
    name = typed(context).get("policy", DEFAULT)
    if name not in POLICIES and is_policy(name):
        remedy = f"Choose a policy under which clients decide, or use aoi simulate --policy {name}."
        raise ConfigError("policy", name, POLICIES, remedy)
    if name not in (*REGISTRY, OWN):
        raise ConfigError("policy", name, POLICIES, "Choose one of these.")
    return parse(context)


def _participation(chosen: MarkovPolicy | SystematicPolicy, rounds: int) -> dict[str, int]:
    """Return b and K, by their names in JSON."""
    from aoi_fl.science.privacy.bounds import bounds

    limits = bounds(chosen, rounds)
    return {"min_separation": limits.min_separation, "max_participations": limits.max_participations}


def _show_participation(limits: dict[str, int], rounds: int) -> None:
    names = ("rounds between two, at least (b)", f"in {rounds} rounds, at most (K)")
    print_facts("Participations of a client", zip(names, limits.values(), strict=True))


def _show_markov(chosen: MarkovPolicy, title: str, rounds: int, as_json: bool) -> None:
    max_age = chosen.max_age
    if chosen.excess:
        print(f"aoi: {chosen.excess}", file=sys.stderr)
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
    """Show a policy with equal rates; ``exactly`` is the clients per round, None if they vary."""
    from aoi_fl.science.interval_law import StrideLaw
    from aoi_fl.science.load import WINDOWS
    from aoi_fl.science.rates import exact

    rate, jitter = float(chosen.rates[0]), chosen.jitter
    law = StrideLaw(rate, jitter)
    least, variance = StrideLaw(rate).interval_variance, law.interval_variance
    pmf = law.probabilities()
    spread = {t: v**0.5 / t for t, v in zip(WINDOWS, law.window_variances(WINDOWS), strict=True)}
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
    shown = _in_ranges(pmf)
    print_table("Law of X", ["X", "P(X)", ""], [(x, p, bar(p, max(shown.values()))) for x, p in shown.items()])
    print_table("Over T rounds", ["T", "√Var(Y)/T, spread of load"], spread.items())
    _show_participation(_participation(chosen, rounds), rounds)


def _in_ranges(law: dict[int, float]) -> dict[str, float]:
    """Return a distribution with at most 40 rows; neighbouring values are merged into ranges."""
    values = sorted(law)
    together = math.ceil(len(values) / _MOST_ROWS)
    ranges = [values[i : i + together] for i in range(0, len(values), together)]
    return {f"{part[0]}" if len(part) == 1 else f"{part[0]}–{part[-1]}": sum(law[x] for x in part) for part in ranges}


def _show_rated(chosen: SystematicPolicy | MarkovPolicy, title: str, capped: int, rounds: int, as_json: bool) -> None:
    """Show clients with different rates: all in JSON, quartiles in the terminal."""
    import numpy as np

    from aoi_fl.science.rates import pooled_variance

    rates, variances = chosen.long_run_rates(), chosen.interval_variances()
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
    facts = [("clients with a capped rate", capped), ("Var[X] of all intervals together", pooled)]
    print_facts("Together", facts)
    _show_participation(_participation(chosen, rounds), rounds)
