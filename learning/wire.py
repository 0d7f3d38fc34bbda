"""Model arrays as Flower carries them."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray


def to_record(arrays: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    """Pack named arrays, in their order."""
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def from_record(record: ArrayRecord) -> dict[str, NDArray[Any]]:
    """Unpack named arrays, in their order."""
    return {name: array.numpy() for name, array in record.items()}
