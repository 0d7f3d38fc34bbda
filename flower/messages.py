"""Make messages, runs and contexts without a SuperLink or a SuperNode."""

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.run import Run as Run  # the run of a grid that is not Flower's

from aoi_fl.flower.errors import CLIENT_APP_RAISED
from aoi_fl.flower.seams import IDENTITY

SERVER_NODE = 1  # Flower's id of the SuperLink's node

_IDS = ("_run_id", "_src_node_id", "_dst_node_id")  # drawn at random by Flower, and now and then a byte shorter
_ID = 2**62  # as long as nearly all of them

RunValue = bool | int | float | str


def empty_run(run_id: int) -> Run:
    """Return a run with only an id, and let this process make its messages."""
    identify(run_id)
    return Run.create_empty(run_id)


def identify(run_id: int = 1) -> None:
    """Let this process make messages: since Flower 1.38 it needs their run and node.

    Values that Flower has set stay.
    """
    if not IDENTITY.there:
        return
    from flwr.supercore.task_identity import TaskIdentity

    for name, value in (("run_id", run_id), ("node_id", SERVER_NODE), ("task_id", 1)):
        try:
            getattr(TaskIdentity, name)
        except RuntimeError:  # not set yet
            setattr(TaskIdentity, name, value)


def context(
    run_id: int, node_id: int, run_config: dict[str, RunValue], node_config: dict[str, RunValue] | None = None
) -> Context:
    """Return an app's context with these configurations, not copied, and an empty state."""
    return Context(
        run_id=run_id, node_id=node_id, node_config=node_config or {}, state=RecordDict(), run_config=run_config
    )


def send(message: Message, message_id: str, *, run_id: int = 1) -> Message:
    """Set a message's id, run and source as the SuperLink does, and return the message."""
    message.metadata.__dict__.update(_run_id=run_id, _src_node_id=SERVER_NODE, _message_id=message_id)
    return message


def sign(reply: Message, message_id: str) -> Message:
    """Set a reply's id as the SuperNode does, and return the reply."""
    reply.metadata.__dict__["_message_id"] = message_id
    return reply


def with_content(message: Message, content: RecordDict) -> Message:
    """Return a message with the same metadata and another content."""
    copy: Message = Message(content, metadata=message.metadata)  # type: ignore[call-overload]
    return copy


def in_error(reply: Message, code: int, reason: str) -> Message:
    """Return an error reply with a reply's metadata."""
    error: Message = Message(Error(code, reason), metadata=reply.metadata)  # type: ignore[call-overload]
    return error


def failure(message: Message, reason: str) -> Message:
    """Return the error reply of a client after its app raised."""
    return Message(Error(CLIENT_APP_RAISED, reason), reply_to=message)


def bytes_of(message: Message) -> int:
    """Return the bytes of a message as Flower sends it: its protobuf envelope and its objects."""
    from flwr.common.serde import message_to_proto
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    before = {key: value for key, value in vars(message.metadata).items() if key in _IDS}
    vars(message.metadata).update({key: _ID for key, value in before.items() if value > 1})
    try:
        content = sum(len(part.deflate()) for part in get_all_nested_objects(message).values())
        return content + len(message_to_proto(with_content(message, RecordDict())).SerializeToString())
    finally:
        vars(message.metadata).update(before)
