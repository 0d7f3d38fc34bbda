"""The types of arrays, one name each."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Mapping[str, AnyArray]  # by name
