"""Presets: values of keys at ``auto``.

``papers`` is the literal setting of the papers: the server polls all clients, and weights are the policy's own.
``recommended`` lets clients reserve rounds and weights updates by data size. k is 15 % of n under both.
"""

import math
from typing import Any

from aoi_fl.config.policies import DEFAULT, POLICIES, REGISTRY, Keys, is_policy
from aoi_fl.science.names import USUAL_MAX_AGE, usual_max_age

PRESET = "recommended"
"""The preset of ``aoi run``, ``flwr run`` and a cluster. A configuration without a preset is an older one: papers."""


def expanded(values: Keys) -> dict[str, Any]:
    """Return run keys with the preset's values.

    >>> expanded({"preset": "recommended", "policy": "systematic", "num-clients": "10"})["clients-per-round"]
    2
    """
    keys = {name.replace("_", "-"): value for name, value in values.items()}
    policy, equal = keys.get("policy", DEFAULT), keys.get("rates", "equal") == "equal"
    uses = REGISTRY[policy].keys if is_policy(str(policy)) else ()
    if str(keys.get("clients-per-round", 0)) == "0" and str(n := keys.get("num-clients", 100)).isdecimal():
        keys["clients-per-round"] = max(1, math.floor(0.15 * int(n) + 0.5))
    if str(keys.get("max-age", "auto")) == "auto":
        sizes = [str(keys.get(key, 100)) for key in ("num-clients", "clients-per-round")]
        shared = equal and keys.get("compensate") != "availability"
        used = shared and "max-age" in uses and all(map(str.isdecimal, sizes))
        keys["max-age"] = usual_max_age(*map(int, sizes)) if used else USUAL_MAX_AGE
    if "coordination" not in uses:
        return keys
    recommended = keys.get("preset") == "recommended" and policy in POLICIES  # your own policy sets its weights
    if keys.get("coordination", "auto") == "auto":
        keys["coordination"] = "reserve" if recommended else "poll"
    free = equal and keys.get("privacy", "none") == "none"
    if recommended and free and keys.get("weights", "auto") == "auto":
        keys["weights"] = "size"
    return keys
