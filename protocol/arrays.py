"""Convert arrays to Flower's records, and find model and configuration in a message."""

from typing import cast

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.protocol import npy
from aoi_fl.science.types import Arrays


def to_record(arrays: Arrays) -> ArrayRecord:
    """Pack named arrays, in their order."""
    made = {n: Array(str(a.dtype), a.shape, "numpy.ndarray", npy.dumps(a)) for n, a in arrays.items()}
    return ArrayRecord(made)  # what Array(a) holds


def from_record(record: ArrayRecord) -> Arrays:
    """Unpack named arrays, in their order."""
    return {name: npy.view(array.data).copy() for name, array in record.items()}


def model_key(content: RecordDict, among: str = protocol.ARRAYS) -> str | None:
    """Return the key of a message's only array record; of several, ``among`` or None."""
    return _key(content, ArrayRecord, among)


def model_of(content: RecordDict) -> tuple[str | None, dict[str, Array]]:
    """Return the key and the arrays of a message's model, independent of later changes to the message.

    The key is None if the message has several array records of other names.
    """
    key = model_key(content)
    return key, {} if key is None else dict(cast(ArrayRecord, content[key]))


def config_key(content: RecordDict) -> str:
    """Return the key of a message's only configuration record besides ours, or the default key."""
    return _key(content, ConfigRecord, protocol.CONFIG) or protocol.CONFIG


def add_to_config(content: RecordDict, name: str, value: int) -> None:
    """Add a value to a message's configuration, in a new record."""
    key = config_key(content)
    content[key] = ConfigRecord({**cast(ConfigRecord, content.get(key, ConfigRecord())), name: value})


def _key(content: RecordDict, kind: type, among: str) -> str | None:
    # Flower's views by type make a reference cycle, which would keep the content in memory.
    keys = [key for key, record in content.items() if isinstance(record, kind) and key != protocol.AOI]
    return keys[0] if len(keys) == 1 else among if among in keys else None
