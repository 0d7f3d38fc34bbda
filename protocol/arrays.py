"""Convert arrays to Flower's records, and find model and configuration in a message."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from aoi_fl import protocol
from aoi_fl.protocol import npy


def to_record(arrays: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    """Pack named arrays, in their order."""
    made = {n: Array(str(a.dtype), a.shape, "numpy.ndarray", npy.dumps(a)) for n, a in arrays.items()}
    return ArrayRecord(made)  # what Array(a) holds


def from_record(record: ArrayRecord) -> dict[str, NDArray[Any]]:
    """Unpack named arrays, in their order."""
    return {name: npy.view(array.data).copy() for name, array in record.items()}


def model_key(content: RecordDict, among: str = protocol.ARRAYS) -> str | None:
    """Return the key of a message's only array record; of several, ``among`` or None."""
    return _key(content, ArrayRecord, among)


def config_key(content: RecordDict) -> str:
    """Return the key of a message's only configuration record besides ours, or the default key."""
    return _key(content, ConfigRecord, protocol.CONFIG) or protocol.CONFIG


def _key(content: RecordDict, kind: type, among: str) -> str | None:
    # Flower's views by type make a reference cycle, which would keep the content in memory.
    keys = [key for key, record in content.items() if isinstance(record, kind) and key != protocol.AOI]
    return keys[0] if len(keys) == 1 else among if among in keys else None
