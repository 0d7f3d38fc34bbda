"""How many bytes a message is, as Flower sends it."""

from flwr.app import Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from aoi_fl.flower.messages import with_content

_IDS = ("_run_id", "_src_node_id", "_dst_node_id")  # drawn at random by Flower, and now and then a byte shorter
_ID = 2**62  # as long as nearly all of them


def bytes_of(message: Message) -> int:
    """Return the bytes of a message: its protobuf envelope, and each object it is made of."""
    before = {key: value for key, value in vars(message.metadata).items() if key in _IDS}
    vars(message.metadata).update({key: _ID for key, value in before.items() if value > 1})
    try:
        content = sum(len(part.deflate()) for part in get_all_nested_objects(message).values())
        return content + len(message_to_proto(with_content(message, RecordDict())).SerializeToString())
    finally:
        vars(message.metadata).update(before)
