"""The entrants of the arena: a policy, with run keys of its own after it if any, ``NAME:KEY=VALUE:…``."""

import re

from aoi_fl.config.policies import OWN, POLICIES
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_well_formed

BOTH = ":server-momentum=0.5:serve-average=0.8"  # a tested setting that helps every policy
# The entrants of the committed tables: the papers' policy as it stands, and this project's variants.
# Random selection with late updates shows what REFL gains by them alone. Random selection of few clients shows what the
# policies save by training few clients. F3AST with weights by size avoids its short steps where many never respond.
ENTRANTS = (
    "random",
    "random:late-rounds=5",
    "random:clients-per-round=4",
    "random:clients-per-round=4:over-selection=1",
    "oldest-age",
    "markov-optimal",
    "markov-optimal:weights=size:compensate=availability",
    "systematic:weights=size:compensate=availability",
    "pow-d",
    "rpow-d",
    "oort",
    "fedcs",
    "refl:late-rounds=5",
    "f3ast",
    "f3ast:weights=size",
    "random:clients-per-round=3:over-selection=1",
    "random:clients-per-round=2:over-selection=1",
    f"random:clients-per-round=4:over-selection=1{BOTH}",
    f"systematic:weights=size:compensate=availability{BOTH}",
)


def own_keys(entrant, shared):
    """Return an entrant's policy and its own run keys; it may not set ``shared`` ones.

    Raises ConfigError for an unknown policy, and for a key of another form, a shared one, or one given twice.
    """
    policy, *own = re.split(r":(?=[a-z-]+=)", entrant)
    if policy not in POLICIES and not is_well_formed(policy):
        raise ConfigError("policies", policy, (*POLICIES, OWN), "Choose some of these policies.")
    keys = {"policy": policy}
    for text in own:
        key, equals, value = text.partition("=")
        if not equals or key in {*shared, "policy"}:
            why = "it holds for all" if equals else "write for instance systematic:weights=size"
            allowed = f"a policy with keys of its own, and {text!r} is wrong: {why}"
            raise ConfigError("policies", entrant, allowed, "Correct it, or leave it out.")
        if key in keys:
            raise ConfigError(
                "policies", entrant, f"a policy with each key once, and {key} is there twice", "Leave one of them out."
            )
        keys[key] = value
    return keys
