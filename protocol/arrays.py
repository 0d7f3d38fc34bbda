"""What Flower carries: a model's arrays as a record, and where in a message model and configuration are."""

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
    """Return the key of a message's model: that of its only array record, or ``among`` several; None if in doubt."""
    return _key(content, ArrayRecord, among)


def config_key(content: RecordDict) -> str:
    """Return the key of a message's configuration: that of the only configuration record that is not ours."""
    return _key(content, ConfigRecord, protocol.CONFIG) or protocol.CONFIG


def _key(content: RecordDict, kind: type, among: str) -> str | None:
    # Flower's own views by type would tie the content into a reference cycle and keep it in memory.
    keys = [key for key, record in content.items() if isinstance(record, kind) and key != protocol.AOI]
    return keys[0] if len(keys) == 1 else among if among in keys else None
