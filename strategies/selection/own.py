"""Policies from code: your own, ``policy=python:MODULE:NAME``, and the rule that a policy's row names.

NAME is called with those of ``clients``, ``per_round`` and ``seed`` that it takes. It returns an object with
``select(round, population)``, as the selectors of :mod:`aoi_fl.science.selection`; one with ``participates``, see
:mod:`aoi_fl.protocol.own_rule`; or a :class:`aoi_fl.strategies.policy.Policy`.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from aoi_fl import protocol
from aoi_fl.config.policies import REGISTRY
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.own_code import brief, naming, source_digest, unusable
from aoi_fl.protocol.own_rule import OwnRule, is_rule, make_object
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import OWN_PREFIX, is_own
from aoi_fl.science.types import Floats
from aoi_fl.strategies.guarded import bytes_of, elsewhere, guarded
from aoi_fl.strategies.policy import Policy
from aoi_fl.strategies.selection.rule import RulePolicy
from aoi_fl.strategies.selection.selector import SelectorPolicy, seed_of
from aoi_fl.strategies.strategy import AgeAwareStrategy


def by_keys(keys: Mapping[str, Any], **settings: Any) -> AgeAwareStrategy:
    """Return the strategy for a run's keys.

    Raises
    ------
    ConfigError
        The module, the name in it, or the object that it makes cannot be used; or a coordination is given where no
        client decides.
    """
    name, per_round, folder = keys["policy"], keys["clients-per-round"], keys["model-dir"]
    code = name if is_own(name) else f"{OWN_PREFIX}aoi_fl.{REGISTRY[name].code}"
    made = make_own(code, folder, keys["num-clients"], per_round, seed_of(settings))
    if isinstance(made, OwnRule):
        made = OwnRulePolicy(made, source_digest("policy", code, folder), keys["coordination"], name)
        return AgeAwareStrategy(made, **settings)
    for key, usual in (("coordination", ("auto", protocol.POLL)), ("round-seconds", (0.0,))):
        if keys[key] not in usual:
            raise ConfigError(key, keys[key], f"left out: under policy {name} no client decides", "Leave it out.")
    policy = made if hasattr(made, "plan") else SelectorPolicy(made, per_round, describe={"kind": name})
    return AgeAwareStrategy(policy, **settings)


def make_own(name: str, folder: str, clients: int, per_round: int, seed: int) -> Any:
    """Return the policy, rule or selector that a name of one's own code makes.

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
    made = make_object(name, folder, {"clients": clients, "per_round": per_round, "seed": seed})
    with naming("policy", name, "reading it raised"):
        if isinstance(made, Policy):
            return guarded(made, name)
        if hasattr(made, "plan"):
            remedy = "let its class inherit from aoi_fl.strategies.Policy"
            raise unusable("policy", name, f"{brief(made)} has plan, and is no Policy", remedy)
        if is_rule(made):
            rule = OwnRule(made, name, clients, per_round)
            rule.check()
            before = _values(made)
            rule.check()  # of the same rounds, so that a cache stays as it is
            if changed := [key for key, value in _values(made).items() if before.get(key) != value]:
                logger.warning("%s changes in each call, so clients and a simulation may decide otherwise.", changed[0])
            return rule
        if isinstance(made, type) or not callable(getattr(made, "select", None)):
            what = f"it returned {brief(made)}, which has neither select nor plan nor participates"
            raise unusable("policy", name, what, "return a selector, a rule or a Policy")
        return guarded(made, name)


def _values(rule: Any) -> dict[str, bytes]:
    """Return the bytes of each value that a rule may count in."""
    return elsewhere(rule) | {name: bytes_of(value) for name, value in getattr(rule, "__dict__", {}).items()}


class OwnRulePolicy(RulePolicy):
    """Clients that decide by a rule of one's own, which each of them loads.

    Parameters
    ----------
    rule : the rule
    source : the digest of its file, which the clients' must have
    coordination : "poll", "broadcast" or "reserve"
    kind : name of the policy, for ledger and page
    """

    def __init__(self, rule: OwnRule, source: str, coordination: str, kind: str) -> None:
        n, k, self._kind = rule.clients, rule.per_round, kind
        self._terms = SimpleNamespace(rule=rule.name, rule_source=source, clients=n, per_round=k)
        super().__init__(rule, n, k, coordination)
        self._rates = rule.long_run_rates()
        self.traits = replace(self.traits, rates="unknown" if self._rates is None else "known")

    def terms(self, client: int | None) -> SimpleNamespace:
        """Return what a client needs to load the rule: fields of the question, the same for all clients."""
        return self._terms

    def targets(self, clients: int) -> Floats:
        """Return (n,) the rule's rates; of newcomers, and where it does not say, k/n."""
        found = super().targets(clients)
        if self._rates is not None:
            found[: len(self._rates)] = self._rates[:clients]
        return found

    def describe(self) -> dict[str, Any]:
        """Return the policy's name, n, k and the coordination."""
        return {"kind": self._kind, **super().describe()}
