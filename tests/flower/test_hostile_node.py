"""A hostile SuperNode that speaks the Fleet API by itself, beside three honest ones, on this machine without Docker.

Each message that it is sent to train it answers in another way. The SuperLink is ours, as a cluster has it, or Flower's
own; the latter is spared the replies of thousands of objects, which it does not survive.
"""

import asyncio
import time
from contextlib import suppress

import grpc
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto import fleet_pb2, message_pb2
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, get_object_tree

from aoi_fl.client.state import written_together
from aoi_fl.flower.fleet import signature
from aoi_fl.flower.messages import in_error, sign
from aoi_fl.lab.benchmarks.fleet import play
from aoi_fl.lab.benchmarks.fleet.link import superlink
from aoi_fl.lab.benchmarks.fleet.node import VirtualNode
from aoi_fl.lab.benchmarks.fleet.scenario import Scenario
from tests.flower.objects import deflated

HONEST, DEADLINE, ROUNDS = 3, 12.0, 64
_CALL, _RUN = 15.0, 900.0  # seconds, at most

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def tree_of(root: str, *children: message_pb2.ObjectTree) -> message_pb2.ObjectTree:
    return message_pb2.ObjectTree(object_id=root, children=children)


def names(count: int, salt: str) -> list[str]:
    """Return numbers of objects that there are not."""
    return [get_object_id(f"{salt} {i}".encode()) for i in range(count)]


class Hostile(VirtualNode):
    """A node that answers each of its trainings in another way; ``tried`` holds the forms that it has sent."""

    def __init__(self, forms, *how):
        super().__init__(*how)
        self.waiting, self.tried = list(forms.items()), []

    async def send(self, reply, seconds=0.0):
        if reply.metadata.message_type != "train" or not self.waiting:
            return await super().send(reply, seconds)
        name, form = self.waiting.pop(0)
        await form(self, reply)
        self.tried.append(name)

    async def once(self, name, request):
        """Call once, and take what comes."""
        ask = getattr(self._stub, name)
        with suppress(grpc.aio.AioRpcError):
            return await ask(request, metadata=signature(self._key, self._public), timeout=_CALL)
        return None

    async def push(self, proto, tree, objects, **more):
        """Announce a reply and upload what it is made of."""
        request = {"messages_list": [proto], "message_object_trees": [tree], "clientapp_runtime_list": [0.1], **more}
        answer = await self.once("PushMessages", fleet_pb2.PushMessagesRequest(node=self._node, **request))
        for part in answer.objects_to_push if answer else ():
            if part in objects:
                await self.once(
                    "PushObject",
                    message_pb2.PushObjectRequest(
                        node=self._node,
                        run_id=proto.metadata.run_id,
                        session_id=answer.session_id,
                        object_id=part,
                        object_content=objects[part],
                    ),
                )

    async def push_reply(self, reply, change=lambda proto: None, **more):
        """Send a whole reply, with its envelope changed."""
        sign(reply, reply.object_id)
        objects = {part: found.deflate() for part, found in get_all_nested_objects(reply).items()}
        proto = message_to_proto(reply)
        proto.ClearField("content")
        if not reply.has_error():
            proto.content.SetInParent()
        change(proto)
        await self.push(proto, get_object_tree(reply), objects, **more)

    async def push_root(self, reply, content, children=(), objects=None):
        """Send a reply whose outermost object is of these bytes."""
        sign(reply, get_object_id(content))
        proto = message_to_proto(reply)
        proto.ClearField("content")
        proto.content.SetInParent()
        tree = tree_of(proto.metadata.message_id, *children)
        await self.push(proto, tree, {proto.metadata.message_id: content, **(objects or {})})


def form_of_root(content):
    return lambda node, reply: node.push_root(reply, content)


def form_of_envelope(**changes):
    def change(proto):
        for name, value in changes.items():
            setattr(proto.metadata, name, value)

    return lambda node, reply: node.push_reply(reply, change)


def form_of_tree(count, upload=False, depth=1):
    async def form(node, reply):
        if upload:
            reply.content["more"] = ArrayRecord({f"x{i}": Array(np.full(1, i)) for i in range(count // 2)})
            await node.push_reply(reply)
            return
        found = names(count, f"{count} {time.time()}")
        inner = [tree_of(number) for number in found]
        for number in names(depth - 1, f"deep {time.time()}"):
            inner = [tree_of(number, *inner)]
        content = deflated("Message", [inner[0].object_id], b"")
        await node.push_root(reply, content, inner)

    return form


async def unlisted(node, reply):
    await node.push_root(reply, deflated("Message", ["0" * 64], b""))


async def garbage_child(node, reply, kind="RecordDict", body=b"\xff{"):
    child = deflated(kind, [], body)
    number = get_object_id(child)
    content = deflated("Message", [number], b"")
    await node.push_root(reply, content, [tree_of(number)], {number: child})


async def answers_another(node, reply):
    other = get_object_id(b"another question")
    inner = Message(reply.content, reply_to=sign(Message(RecordDict(), 1, "train"), other))
    child = {part: found.deflate() for part, found in get_all_nested_objects(inner).items()}
    content = inner.deflate()
    await node.push_root(reply, content, list(get_object_tree(inner).children), child)


async def twice(node, reply):
    sign(reply, reply.object_id)
    proto, tree = message_to_proto(reply), get_object_tree(reply)
    await node.push(proto, tree, {}, messages_list=[proto, proto], message_object_trees=[tree, tree])


async def nothing(node, reply):
    await node.once("PushMessages", fleet_pb2.PushMessagesRequest(node=node._node))


async def another_root(node, reply):
    sign(reply, reply.object_id)
    await node.push(message_to_proto(reply), tree_of(names(1, "elsewhere")[0]), {})


async def same_children(node, reply):
    child = names(1, "twin")[0]
    await node.push_root(reply, deflated("Message", [child, child], b""), [tree_of(child), tree_of(child)])


async def never_uploaded(node, reply):
    sign(reply, reply.object_id)
    await node.push(message_to_proto(reply), get_object_tree(reply), {})


NAN = float("nan")
FORMS = {
    "a garbage message": form_of_root(deflated("Message", [], b"\xff" * 4)),
    "a config record as message": form_of_root(ConfigRecord({"a": 1}).deflate()),
    "an empty message": form_of_root(deflated("Message", [], b"")),
    "a child that the tree does not list": unlisted,
    "a garbage record dict": garbage_child,
    "a config record as content": lambda n, r: garbage_child(n, r, "ConfigRecord", b""),
    "a garbage array record": lambda n, r: garbage_child(n, r, "ArrayRecord", b"[]"),
    "metadata of another message": answers_another,
    "a ttl that is no number": form_of_envelope(ttl=NAN),
    "a birth that is no number": form_of_envelope(created_at=NAN),
    "an infinite ttl": form_of_envelope(ttl=float("inf")),
    "a work time that is no number": lambda n, r: n.push_reply(r, clientapp_runtime_list=[NAN]),
    "an infinite work time": lambda n, r: n.push_reply(r, clientapp_runtime_list=[float("inf")]),
    "a work time below zero": lambda n, r: n.push_reply(r, clientapp_runtime_list=[-1e308]),
    "a tree of 250 objects, uploaded": form_of_tree(250, upload=True),
    "a tree of 250 objects": form_of_tree(250),
    "a deep tree": form_of_tree(1, depth=60),
    "an endless error": lambda n, r: n.push_reply(in_error(r, 7, "\x1b[2J" * 10**5)),
    "two replies at once": twice,
    "no reply": nothing,
    "another root": another_root,
    "the same child twice": same_children,
    "in another node's name": form_of_envelope(src_node_id=2**63),
    "of another run": form_of_envelope(run_id=17),
    "never uploaded": never_uploaded,
}
HUGE = {"a tree of 3,000 objects": form_of_tree(3000), "a tree of 20,000 objects": form_of_tree(20_000)}


@pytest.mark.parametrize("server", ["ours", "stock"])
def test_no_form_of_reply_ends_the_run_or_costs_an_honest_update(server, monkeypatch):
    forms = FORMS | HUGE if server == "ours" else FORMS

    def node(number, *how):
        return VirtualNode(number, *how) if number < HONEST else Hostile(forms, number, *how)

    monkeypatch.setattr(play, "VirtualNode", node)
    packing = "none"  # as its lies are plain arrays
    fleet = Scenario(
        HONEST + 1, HONEST + 1, "broadcast", rounds=ROUNDS, seconds=_RUN, timeout=DEADLINE, packing=packing
    )
    with superlink(server) as link, written_together():
        run = play.Play(fleet, link)
        asyncio.run(run.run())
    rounds, tried = [mark for mark in run._marks if "round" in mark], run.nodes[-1].tried
    assert len(rounds) == ROUNDS and len(set(tried)) >= 20, tried
    assert {"a garbage message", "a ttl that is no number", "a tree of 250 objects"} <= set(tried)
    honest = {f"client-{i}": "trained" for i in range(HONEST)}
    lost = [mark["round"] for mark in rounds if {k: mark["outcomes"].get(k) for k in honest} != honest]
    slow = {mark["round"]: mark["seconds"] for mark in rounds if mark["seconds"] > DEADLINE + 2}
    assert not lost and not slow, (lost, slow, tried)
