"""Former home of :mod:`aoi_fl.strategies.selection.selector`; its names are kept."""

import warnings
from typing import Any

from aoi_fl.strategies.selection import selector


def __getattr__(name: str) -> Any:
    found = getattr(selector, name)
    warnings.warn(f"import {name} from aoi_fl.strategies.selection.selector.", DeprecationWarning, stacklevel=2)
    return found
