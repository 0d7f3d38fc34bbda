"""The strategy of every policy, made from its row in :mod:`aoi_fl.config.policies`.

Nothing is imported for a row that is only read.
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aoi_fl.config.policies import BUDGETED, KEYS, OWN, POLICIES, ROWS, PolicyRow, is_policy, row_of, users_of

if TYPE_CHECKING:
    from aoi_fl.strategies.strategy import AgeAwareStrategy

__all__ = ["BUDGETED", "KEYS", "OWN", "POLICIES", "REGISTRY", "Policy", "is_policy", "users_of"]


class Policy(PolicyRow):
    """A row that makes its strategy."""

    def make(self, keys: Mapping[str, Any], **settings: Any) -> "AgeAwareStrategy":
        """Return the strategy for these run keys."""
        module, _, path = self.maker.partition(":")
        found: Any = import_module(f"aoi_fl.strategies.selection.{module}")
        for attribute in path.split("."):
            found = getattr(found, attribute)
        arguments = [keys[key] for key in self.arguments] or [keys]
        made: AgeAwareStrategy = found(*arguments, **settings)
        return made


def _policy(row: PolicyRow) -> Policy:
    return Policy(**{field.name: getattr(row, field.name) for field in fields(row)})


class _Registry(dict[str, Policy]):
    """The rows by name; your own policy has a row as well, but is not listed."""

    def __missing__(self, name: str) -> Policy:
        return _policy(row_of(name))


REGISTRY: Mapping[str, Policy] = _Registry((name, _policy(row)) for name, row in ROWS.items())
