"""Messages, runs and contexts outside of a run of Flower's: what a SuperLink and a SuperNode would write into them."""

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.run import Run as Run  # what a grid of one's own says that it belongs to

from aoi_fl.flower.errors import CLIENT_APP_RAISED
from aoi_fl.flower.seams import IDENTITY

SERVER_NODE = 1  # Flower's number of the SuperLink's own node

_IDS = ("_run_id", "_src_node_id", "_dst_node_id")  # drawn at random by Flower, and now and then a byte shorter
_ID = 2**62  # as long as nearly all of them

RunValue = bool | int | float | str


def empty_run(run_id: int) -> Run:
    """Return a run of which nothing is known but its number, and let this process make messages of it."""
    identify(run_id)
    return Run.create_empty(run_id)


def identify(run_id: int = 1, node_id: int = SERVER_NODE) -> None:
    """Let this process make messages: from Flower 1.38 on it must know of which run, and from which node they are.

    Where Flower itself has said so, that stays.
    """
    if not IDENTITY.there:
        return
    from flwr.supercore.task_identity import TaskIdentity

    for name, value in (("run_id", run_id), ("node_id", node_id), ("task_id", 1)):
        try:
            getattr(TaskIdentity, name)
        except RuntimeError:  # nobody has
            setattr(TaskIdentity, name, value)


def context(
    run_id: int, node_id: int, run_config: dict[str, RunValue], node_config: dict[str, RunValue] | None = None
) -> Context:
    """Return what an app is told beside its message: the configurations themselves, no copies, and an empty state."""
    return Context(
        run_id=run_id, node_id=node_id, node_config=node_config or {}, state=RecordDict(), run_config=run_config
    )


def send(message: Message, message_id: str, *, run_id: int = 1, source: int = SERVER_NODE) -> Message:
    """Write into a message what it gets on its way to a node, and return it: number, run, and where it comes from."""
    message.metadata.__dict__.update(_run_id=run_id, _src_node_id=source, _message_id=message_id)
    return message


def sign(reply: Message, message_id: str) -> Message:
    """Write into a reply the number that it gets on its way, and return it."""
    reply.metadata.__dict__["_message_id"] = message_id
    return reply


def with_content(message: Message, content: RecordDict) -> Message:
    """Return the same message, by its metadata, with another content."""
    made: Message = Message(content, metadata=message.metadata)  # type: ignore[call-overload]
    return made


def in_error(reply: Message, code: int, reason: str) -> Message:
    """Return an error in the place of a reply, with its metadata."""
    made: Message = Message(Error(code, reason), metadata=reply.metadata)  # type: ignore[call-overload]
    return made


def failure(message: Message, reason: str) -> Message:
    """Return the reply of a client whose app raised."""
    return Message(Error(CLIENT_APP_RAISED, reason), reply_to=message)


def bytes_of(message: Message) -> int:
    """Return the bytes of a message as Flower sends it: its protobuf envelope, and each object it is made of."""
    from flwr.common.serde import message_to_proto
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    before = {key: value for key, value in vars(message.metadata).items() if key in _IDS}
    vars(message.metadata).update({key: _ID for key, value in before.items() if value > 1})
    try:
        content = sum(len(part.deflate()) for part in get_all_nested_objects(message).values())
        return content + len(message_to_proto(with_content(message, RecordDict())).SerializeToString())
    finally:
        vars(message.metadata).update(before)
