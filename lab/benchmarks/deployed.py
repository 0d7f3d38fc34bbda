"""A deployment on this machine: the time of an exchange, and the memory of a ServerApp.

The Flower app in ``apps/exchange`` calls :func:`play` and :func:`hold` as its ServerApp.
"""

import time

import numpy as np
from flwr.app import Message, RecordDict

from aoi_fl.lab.benchmarks.base import APP, Row, Times, peak_memory, ratio_row, stopwatch
from aoi_fl.lab.benchmarks.echo import adding
from aoi_fl.lab.benchmarks.engines import model
from aoi_fl.lab.benchmarks.superlink import FLOWERS, OURS, deployment
from aoi_fl.strategies.aggregation.mean import RunningMean
from aoi_fl.strategies.round.exchange import Exchange
from aoi_fl.strategies.validation import read_update

NODES, REPEATS = 2, 4
FEW, MANY = 10, 200  # replies that one ServerApp aggregates
BIG = 6_250_000  # float32 parameters: 25 MB
_TIMEOUT = 200.0  # seconds for one exchange
_PATIENCE = 600.0  # seconds for the few replies
_AT_MOST = 240.0  # seconds for the many replies; later ones do not count


def play(grid, config):
    """Exchange equal messages in turns by our loop and by ``send_and_receive``; return the times.

    Our loop uses our SuperNodes; Flower's uses Flower's own, and ours too.
    """
    content = RecordDict({"arrays": model(100_000)})
    ours, flowers = _by_kind(grid, content)
    times = {"ours": Times(), "stock": Times(), "stock loop": Times()}
    for _ in range(config["rounds"]):
        with stopwatch(times["ours"]):
            exchange = Exchange(grid, dict(enumerate(_messages(content, ours))), _TIMEOUT, sequential=True)
            answered = sum(not reply.has_error() for reply in exchange)
        for which, nodes in (("stock", flowers), ("stock loop", ours)):
            with stopwatch(times[which]):
                replies = grid.send_and_receive(_messages(content, nodes), timeout=_TIMEOUT)
                answered += sum(not reply.has_error() for reply in replies)
        if answered != 3 * NODES:
            raise RuntimeError(f"{answered} of {3 * NODES} replies came")
    return times


def _messages(content, nodes):
    return [Message(content, node, "train", ttl=_TIMEOUT) for node in nodes]


def _by_kind(grid, content):
    """Return our SuperNodes and Flower's, by their replies."""
    replies = grid.send_and_receive(_messages(content, _connected(grid, 2 * NODES)), timeout=_TIMEOUT)
    number = {reply.metadata.src_node_id: reply.content["metrics"]["partition"] for reply in replies}
    return [n for n in number if number[n] < NODES], [n for n in number if number[n] >= NODES]


def hold(grid, config):
    """Aggregate few replies, then many, as a strategy does; return the peak memory after each.

    Each of two nodes gets many messages and answers each with new arrays, instead of many clients.
    """
    nodes, arrays = _connected(grid, NODES), model(BIG)
    found = []
    for wanted, patience in ((FEW, _PATIENCE), (MANY, _AT_MOST)):
        begun, mean, added = time.monotonic(), RunningMean(arrays), []
        messages = {
            i: Message(RecordDict({"arrays": arrays, **adding(i)}), nodes[i % NODES], "train") for i in range(wanted)
        }
        exchange = Exchange(grid, messages, patience, sequential=True)
        for reply in exchange:
            mean.add(read_update(reply, arrays, "num-examples").arrays, 1.0)
            added.append(exchange.client_of(reply) or 0)
        _check(mean.result(), arrays, added)
        found.append({"replies": len(added), "MiB": peak_memory(), "seconds": round(time.monotonic() - begun, 1)})
    return found


def _check(mean, sent, added):
    """Raise unless the mean matches the replies, each of which has added a different number."""
    if mean is None:
        raise RuntimeError("no reply came")
    moved = np.mean(mean["body"].numpy() - sent["body"].numpy(), dtype=np.float64)
    if abs(moved - sum(added) / len(added)) > 0.01:
        raise RuntimeError(f"the mean of {len(added)} updates moved by {moved:g}, not {sum(added) / len(added):g}")


def _connected(grid, wanted):
    while len(nodes := list(grid.get_node_ids())) < wanted:
        time.sleep(0.5)
    return nodes


def run(data):
    """Deploy, run the app for both measurements, and compare."""
    with deployment([OURS] * NODES + [FLOWERS] * NODES) as submit:
        found = {key: Times(**times) for key, times in submit(APP, f'what="deployed:play" rounds={REPEATS}').items()}
    for which, reference, limit in (
        ("stock", "Flower's `send_and_receive` and SuperNodes, same SuperLink", 0.7),
        ("stock loop", "Flower's `send_and_receive`, the same SuperNodes", None),
    ):
        note = f"{found['ours'].seconds:.1f} s against {found[which].seconds:.1f} s"
        times = found["ours"], found[which]
        yield ratio_row(f"deployed exchange, {NODES} SuperNodes", reference, limit, *times, note=note, elsewhere=True)
    with deployment([OURS] * NODES) as submit:
        few, many = submit(APP, f'what="deployed:hold" rounds={REPEATS}')
    fewer = "" if many["replies"] == MANY else f"; {MANY} take more than {_AT_MOST / 60:.0f} minutes here"
    yield Row(
        f"peak memory of a deployment's ServerApp, k = {FEW} → {many['replies']}, 25 MB model",
        f"k = {FEW}",
        2,
        (many["MiB"] - few["MiB"]) / (BIG * 4 / 2**20),
        "models more",
        note=f"{few['MiB']:.0f} and {many['MiB']:.0f} MiB, {many['seconds']:.0f} s for the exchange{fewer}",
    )
