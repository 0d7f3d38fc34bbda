"""Options of ``aoi simulate`` that mean nothing to the policy that it plays: refused, and not ignored."""

from typing import get_args

import typer

from aoi_fl.cli.keys import given
from aoi_fl.cli.options import reject, reject_max_age
from aoi_fl.config.policies import BUDGETED, OWN, POLICIES, is_policy, users_of
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import AbsenceRule, Weighting
from aoi_fl.strategies.registry import REGISTRY

RATED = ("markov-optimal", "systematic")  # whose clients can have rates of their own


def reject_misplaced(context: typer.Context, policy: str, absence: str) -> None:
    """Refuse an option that was given and that the policy would ignore.

    Raises
    ------
    ConfigError
        There is one, or no such policy, rule of absence or weights, or the policy has no rates for weights by them.
    """
    if not is_policy(policy):
        raise ConfigError("policy", policy, (*POLICIES, OWN), "Choose one of these policies.")
    about = f"policy {policy!r} here"
    if policy not in BUDGETED:
        names: tuple[str, ...] = ("budget", "total_budget", "strict_budget", "stop_at_first")
        reject(context, names, about, f"leave it out, or give one of the policies {', '.join(BUDGETED)}")
        if context.params["rates"] != "given" and context.params["clients_file"]:
            either = f"one of the policies {', '.join(BUDGETED)}"
            either = f"--rates given, or {either}" if policy in RATED else either
            reject(context, ["clients_file"], about, f"leave it out, or give {either}")
    else:
        names, remedy = ("per_round", "max_age", "sizes", "start"), "leave it out: the budget, payments and ages decide"
        reject(context, names, about, remedy)
        if given(context, "clients_file"):
            reject(context, ["clients"], about, "leave it out, or leave out --clients-file")
    for name in ("candidates", "ageing"):
        if policy not in users_of(name):
            reject(context, [name], about, f"leave it out, or give one of the policies {', '.join(users_of(name))}")
    if policy != "markov-increasing":
        reject(context, ["exponent"], about, "leave it out, or give --policy markov-increasing")
    if policy not in RATED:
        reject(context, ["rates", "absence"], about, f"leave it out, or give one of the policies {', '.join(RATED)}")
    if absence not in (rules := get_args(AbsenceRule)):
        raise ConfigError("absence", absence, rules, "Choose one of these values.")
    if absence == "learned":
        remedy = "leave it out: each client's table or rate is made for how often it is there"
        reject(context, ["max_age", "phases", "jitter"], "learned absence", remedy)
    _check_weights(context, policy, context.params["weights"])
    if policy != "systematic":
        reject(context, ["phases", "jitter"], about, "leave it out, or give --policy systematic")
        reject_max_age(context, context.params["rates"])
        if policy not in (aged := users_of("max-age")):
            reject(context, ["max_age", "start"], about, f"leave it out, or give one of the policies {', '.join(aged)}")
    else:
        reject(context, ["max_age", "start"], about, "leave it out: rates and phases decide")


def _check_weights(context: typer.Context, policy: str, weights: str) -> None:
    """Refuse weights that there are not, and unbiased ones where they are the policy's own or cannot be."""
    kinds = ("auto", *get_args(Weighting))
    if weights not in kinds:
        raise ConfigError("weights", weights, kinds, "Choose one of these values.")
    if weights != "unbiased":
        return
    about = f"policy {policy!r} here"
    if policy == "proportional":
        reject(context, ["weights"], about, "leave it out: draws with replacement are unbiased by the times drawn")
    if REGISTRY[policy].weight == "unbiased":
        reject(context, ["weights"], about, "leave it out: its own are unbiased, by the rates that it has learned")
    if not REGISTRY[policy].foreseen:
        others = ", ".join(kind for kind in kinds if kind != weights)
        foreseen = ", ".join(row.name for row in REGISTRY.values() if row.foreseen)
        raise ConfigError(
            "weights",
            weights,
            f"{others}, because the rates under policy {policy!r} are unknown",
            f"Choose one of these, or one of the policies {foreseen}.",
        )
