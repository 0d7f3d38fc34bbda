"""Many SuperNodes in one process, each with its own key, over ``grpc.aio``.

Flower opens a channel and a heartbeat thread for each node. About a thousand of them keep a machine of two cores busy.
Here nodes share channels, and each call is signed as Flower's interceptor does.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import uniform

import grpc
from flwr.app import Message, RecordDict
from flwr.common.config import get_fused_config_from_fab
from flwr.common.serde import message_from_proto, message_to_proto, run_from_proto
from flwr.proto import fab_pb2, fleet_pb2, fleet_pb2_grpc, heartbeat_pb2, message_pb2, node_pb2, run_pb2
from flwr.supercore.grpc import GRPC_MAX_MESSAGE_LENGTH
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from aoi_fl.flower.errors import is_busy
from aoi_fl.flower.fleet import signature
from aoi_fl.flower.messages import sign, with_content
from aoi_fl.flower.versions import HTTP, SPOKEN

_FIRST_RETRY, _LONGEST_RETRY = 1.0, 20.0  # seconds between attempts while the SuperLink is unavailable
# A busy SuperLink fails a call after its database was locked for five seconds.
_LOCKED, _TRIES = grpc.StatusCode.INTERNAL, 5
_LOOK_FOR_OBJECT = 0.5  # seconds between two polls for a missing part of a message


def public_pem(key):
    """Return a key's public half in the form that a SuperLink registers."""
    return public_key_to_bytes(key.public_key())


def channels(address, authority, count):
    """Return TLS channels for nodes to share, each with its own connection.

    Parameters
    ----------
    address : host and port of the Fleet API
    authority : certificate (PEM) of the authority that signed the SuperLink's
    count : number of channels
    """
    if SPOKEN == HTTP:
        from aoi_fl.lab.benchmarks.fleet.http_channel import HttpChannel

        return [HttpChannel(address, authority) for _ in range(count)]
    credentials = grpc.ssl_channel_credentials(authority)
    own = ("grpc.use_local_subchannel_pool", 1)  # else channels to one address share one connection
    retry = ("grpc.max_reconnect_backoff_ms", 2000)
    sizes = [(f"grpc.max_{way}_message_length", GRPC_MAX_MESSAGE_LENGTH) for way in ("send", "receive")]
    return [grpc.aio.secure_channel(address, credentials, options=[own, retry, *sizes]) for _ in range(count)]


@dataclass(frozen=True)
class Letter:
    """A message without its content.

    Attributes
    ----------
    message : the message as the SuperLink announced it
    parts : the ids of its objects, including the message's own
    """

    message: Message
    parts: Sequence[str]


class Node:
    """A node that calls the Fleet API with its key.

    Parameters
    ----------
    channel : connection to the SuperLink's Fleet API
    key : the node's private key; the SuperLink has the public key
    counted : called with each answered call's name and the bytes of request and answer

    Notes
    -----
    A call is retried while the SuperLink is unavailable, and a few times after internal errors. It raises
    ``grpc.RpcError`` if the SuperLink refuses it.
    """

    def __init__(self, channel, key, counted):
        self._stub = fleet_pb2_grpc.FleetStub(channel)
        self._key, self._public, self._counted = key, public_pem(key), counted
        self._node = node_pb2.Node(node_id=0)

    async def activate(self, heartbeat):
        """Connect; the next heartbeat follows in ``heartbeat`` seconds."""
        request = fleet_pb2.ActivateNodeRequest(public_key=self._public, heartbeat_interval=heartbeat)
        answer = await self._call("ActivateNode", request)
        self._node = node_pb2.Node(node_id=answer.node_id)

    async def deactivate(self):
        """Disconnect."""
        await self._call("DeactivateNode", fleet_pb2.DeactivateNodeRequest(node_id=self._node.node_id))

    async def heartbeat(self, seconds):
        """Send a heartbeat and announce the next one in ``seconds``."""
        request = heartbeat_pb2.SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=seconds)
        await self._call("SendNodeHeartbeat", request)

    async def look(self):
        """Return the next message, if there is one."""
        answer = await self._call("PullMessages", fleet_pb2.PullMessagesRequest(node=self._node))
        if not answer.messages_list:
            return None
        parts = [tree.object_id for tree in iterate_object_tree(answer.message_object_trees[0])]
        return Letter(message_from_proto(answer.messages_list[0]), parts)

    async def run_config(self, run_id, read=True):
        """Fetch a run and its app, as before a run's first message; return the configuration.

        Without ``read`` the result is empty: nodes of one process can share the configuration.
        """
        answer = await self._call("GetRun", run_pb2.GetRunRequest(node=self._node, run_id=run_id))
        run = run_from_proto(answer.run)
        request = fab_pb2.GetFabRequest(node=self._node, hash_str=run.fab_hash, run_id=run_id)
        fab = (await self._call("GetFab", request)).fab
        return get_fused_config_from_fab(fab.content, run) if read else {}

    async def receive(self, letter):
        """Fetch a message's content and confirm its receipt."""
        run_id, message_id = letter.message.metadata.run_id, letter.message.metadata.message_id
        contents = await asyncio.gather(*(self._pull(run_id, part) for part in letter.parts))
        request = message_pb2.ConfirmMessageReceivedRequest(
            node=self._node, run_id=run_id, message_object_id=message_id
        )
        await self._call("ConfirmMessageReceived", request)
        message = inflate_object_from_contents(message_id, dict(zip(letter.parts, contents, strict=True)))
        return sign(message, message_id)

    async def send(self, reply, seconds=0.0):
        """Announce a reply that took ``seconds`` to make, and upload it."""
        with no_object_id_recompute():
            sign(reply, reply.object_id)
            objects, tree = get_all_nested_objects(reply), get_object_tree(reply)
        announced = message_to_proto(reply if reply.has_error() else with_content(reply, RecordDict()))
        run_id = reply.metadata.run_id
        request = fleet_pb2.PushMessagesRequest(
            node=self._node, messages_list=[announced], message_object_trees=[tree], clientapp_runtime_list=[seconds]
        )
        answer = await self._call("PushMessages", request)
        await asyncio.gather(
            *(
                self._call(
                    "PushObject",
                    message_pb2.PushObjectRequest(
                        node=self._node,
                        run_id=run_id,
                        session_id=answer.session_id,
                        object_id=part,
                        object_content=objects[part].deflate(),
                    ),
                )
                for part in answer.objects_to_push
            )
        )

    async def _pull(self, run_id, part):
        request = message_pb2.PullObjectRequest(node=self._node, run_id=run_id, object_id=part)
        while True:
            answer = await self._call("PullObject", request)
            if not answer.object_found:
                raise LookupError(f"the SuperLink no longer has the part {part} of a message")
            if answer.object_available:
                return answer.object_content
            await asyncio.sleep(_LOOK_FOR_OBJECT)

    async def _call(self, name, request):
        ask = getattr(self._stub, name)
        pause, broken = _FIRST_RETRY, 0
        while True:
            try:
                answer = await ask(request, metadata=signature(self._key, self._public))
            except grpc.aio.AioRpcError as error:
                broken += error.code() is _LOCKED
                if not is_busy(error) and error.code() not in (grpc.StatusCode.UNAVAILABLE, _LOCKED):
                    raise
                if broken >= _TRIES:
                    raise
            else:
                self._counted(name, request.ByteSize() + answer.ByteSize())
                return answer
            await asyncio.sleep(pause * uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_RETRY)
