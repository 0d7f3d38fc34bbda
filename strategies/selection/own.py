"""A policy of one's own, ``policy=python:MODULE:NAME``: a selector, or a whole policy, from the user's own module.

NAME is called with those of ``clients``, ``per_round`` and ``seed`` that it takes. It returns an object with
``select(round, population)``, as the selectors of :mod:`aoi_fl.science.selection`, or a
:class:`aoi_fl.strategies.policy.Policy`.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from aoi_fl.science.selection import Selector
from aoi_fl.strategies.policy import Policy
from aoi_fl.strategies.round import AgeAwareStrategy
from aoi_fl.strategies.selection.selector import SelectorPolicy, seed_of
from aoi_fl.wire.own_code import FAULTS, brief, load, looking_in, said, unusable

_METHODS = ("plan", "observe", "request_for", "describe", "state_dict", "load_state_dict")


def by_keys(keys: Mapping[str, Any], **settings: Any) -> AgeAwareStrategy:
    """Return the strategy for a run's keys.

    Raises
    ------
    ConfigError
        The module, the name in it, or the object that it makes cannot be used.
    """
    name, per_round = keys["policy"], keys["clients-per-round"]
    found = make_own(name, keys["model-dir"], keys["num-clients"], per_round, seed_of(settings))
    if isinstance(found, Policy):
        return AgeAwareStrategy(found, **settings)
    return AgeAwareStrategy(SelectorPolicy(found, per_round, describe={"kind": name}), **settings)


def make_own(name: str, folder: str, clients: int, per_round: int, seed: int) -> Policy | Selector:
    """Return the policy or selector that a name of one's own code makes.

    Parameters
    ----------
    name : ``python:MODULE:NAME``
    folder : where the module is looked for first
    clients, per_round, seed : n, k, and the key of its draws

    Raises
    ------
    ConfigError
        The module, the name in it, or the object that it makes cannot be used.
    """
    given = {"clients": clients, "per_round": per_round, "seed": seed}
    takes = f"it is called with those of {', '.join(given)} that it takes, and returns a selector or a Policy"
    with looking_in(folder):
        maker = load("policy", name, folder)
        try:
            parameters = inspect.signature(maker).parameters.values()
            anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
            wanted = {one.name for one in parameters}
            made = maker(**{key: value for key, value in given.items() if anything or key in wanted})
        except FAULTS as error:
            raise unusable("policy", name, f"calling it raised {said(error)}", takes) from error
    if isinstance(made, Policy):
        return made
    if hasattr(made, "plan"):
        missing = [method for method in _METHODS if not callable(getattr(made, method, None))]
        remedy = "let its class inherit from aoi_fl.strategies.Policy"
        raise unusable("policy", name, f"{brief(made)} has no {', '.join(missing) or 'Policy for a base'}", remedy)
    if isinstance(made, type) or not callable(getattr(made, "select", None)):
        raise unusable("policy", name, f"it returned {brief(made)}, which has neither select nor plan", takes)
    selector: Selector = made
    return selector
