"""The parts of a round, each with one job; :class:`aoi_fl.strategies.strategy.AgeAwareStrategy` is composed of them."""

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "AgeAwareStrategy":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aoi_fl.strategies.strategy import AgeAwareStrategy

    warnings.warn(f"import {name} from aoi_fl.strategies.", DeprecationWarning, stacklevel=2)
    return AgeAwareStrategy
