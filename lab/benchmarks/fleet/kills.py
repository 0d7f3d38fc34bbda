"""Faults that are injected in the middle of a round; each returns its observations."""

import asyncio
from random import Random

import grpc
from cryptography.hazmat.primitives.asymmetric import ec

from aoi_fl.client.poll_schedule import HEARTBEAT
from aoi_fl.lab.benchmarks.fleet.virtual import Node, channels

ROUNDS = 3  # between two faults, so that a normal round follows each fault's round
STRANGERS = 1000


async def tenth(play):
    """Kill a tenth of the nodes, and start them again after the round."""
    chosen = Random(1).sample(play.nodes, max(1, len(play.nodes) // 10))
    await asyncio.gather(*(node.stop() for node in chosen))
    for node in chosen:
        node.start()  # refused until their sessions end
    return {"nodes": len(chosen)}


async def superlink(play):
    """Kill the SuperLink and start it again."""
    play.link.kill()
    await asyncio.to_thread(play.link.restart)
    return {}


async def herd(play):
    """Let all nodes disconnect and reconnect at once."""
    there = [node for node in play.nodes if node.active.is_set()]
    for node in there:
        node.reconnect()
    await asyncio.gather(*(node.active.wait() for node in there))
    return {"nodes": len(there)}


async def flood(play):
    """Call with unregistered keys, one call each, all at once."""
    (line,) = channels(play.link.fleet, play.link.authority, 1)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(STRANGERS)]
    answers = await asyncio.gather(*(_knock(Node(line, key, lambda kind, size: None)) for key in keys))
    await line.close()
    return {"refused": sum(answers)}


async def _knock(node):
    try:
        await node.activate(HEARTBEAT)
    except grpc.aio.AioRpcError:
        return True
    return False


KILLS = (tenth, superlink, herd, flood)
