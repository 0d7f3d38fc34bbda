"""``aoi policy``: the properties of a policy, before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from aoi_fl.cli.keys import parse
from aoi_fl.cli.log import say
from aoi_fl.cli.options import Json
from aoi_fl.config.policies import REGISTRY, users_of
from aoi_fl.report.output import bar, print_facts, print_json, print_table
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_own

if TYPE_CHECKING:
    from aoi_fl.science.markov import MarkovPolicy
    from aoi_fl.science.systematic import SystematicPolicy

POLICIES = (*users_of("max-age"), *users_of("phases"))
KEYS = (
    "policy",
    "num-clients",
    "clients-per-round",
    "max-age",
    "exponent",
    "phases",
    "jitter",
)


def policy(context: typer.Context, as_json: Json = False) -> None:
    """Show a policy of client decisions, and its load.

    It shows the policy, the distribution of X (rounds between two participations), and its moments. A Markov policy is
    a table with a probability for each age. A systematic policy has a rate and a phase for each client.
    """
    config = parse(context)
    if config.policy not in POLICIES and not is_own(config.policy):
        remedy = f"Choose a policy under which clients decide, or use aoi simulate --policy {config.policy}."
        raise ConfigError("policy", config.policy, POLICIES, remedy)
    name, n, k = config.policy, config.num_clients, config.clients_per_round
    row, keys, title = REGISTRY[name], config.flat(), f"{n} clients, {k} a round"
    if "phases" in row.keys:
        stride = f"Systematic participation: {title}, {config.phases} phases"
        _show_stride(row.build(keys), stride, k if config.phases == "spread" else None, as_json)
    else:
        _show_markov(row.build(keys), f"{name}: {title}, maximum age {config.max_age}", as_json)


def _show_markov(chosen: MarkovPolicy, title: str, as_json: bool) -> None:
    max_age = chosen.max_age
    if chosen.excess:
        say(chosen.excess)
    pmf = chosen.interval_pmf().tolist()
    moments = {
        "interval_mean": chosen.interval_mean,
        "interval_variance": chosen.interval_variance,
    }
    if as_json:
        print_json(
            {
                "probabilities": list(chosen.probabilities),
                "stationary": chosen.stationary.tolist(),
                "interval_pmf": {x: p for x, p in enumerate(pmf, start=1) if p > 0},
                **moments,
            }
        )
        return
    law = [*(pmf + [0.0] * max_age)[:max_age], sum(pmf[max_age:])]  # the last entry: P(X > m)
    rows = [
        (f"{age}+" if age == max_age else age, p, share, x, bar(x, max(law)))
        for age, (p, share, x) in enumerate(zip(chosen.probabilities, chosen.stationary.tolist(), law, strict=True))
    ]
    print_table(title, ["age", "takes part with", "share of clients", "P(X = age + 1)", ""], rows)
    print_facts("Moments", zip(("E[X]", "Var[X]"), moments.values(), strict=True))


def _show_stride(chosen: SystematicPolicy, title: str, exactly: int | None, as_json: bool) -> None:
    """Show a policy with equal rates; ``exactly`` is the clients per round, None if they vary."""
    from aoi_fl.science.interval_law import StrideLaw
    from aoi_fl.science.load import WINDOWS
    from aoi_fl.science.rates import exact

    rate, jitter = float(chosen.rates[0]), chosen.jitter
    law = StrideLaw(rate, jitter)
    least, variance = StrideLaw(rate).interval_variance, law.interval_variance
    pmf = {x: p for x, p in enumerate(law.interval_pmf().tolist(), start=1) if p > 0}
    spread = {t: v**0.5 / t for t, v in zip(WINDOWS, law.window_variances(WINDOWS), strict=True)}
    if as_json:
        values: dict[str, Any] = {"rate": rate, "interval_mean": 1 / rate, "interval_variance": variance}
        values |= {"least_variance": least, "interval_pmf": pmf, "window_deviation": spread}
        print_json(values)
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
    print_table("Law of X", ["X", "P(X)", ""], [(x, p, bar(p, max(pmf.values()))) for x, p in pmf.items()])
    print_table("Over T rounds", ["T", "√Var(Y)/T, spread of load"], spread.items())
