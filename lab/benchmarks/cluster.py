"""The Compose cluster on this machine: bytes by mode, a client's memory, a link of 2 Mbit/s.

Bytes are counted at the clients' network interfaces, both ways, with TLS, heartbeats and polling. The benchmark needs a
Docker engine and, for the slow link, root and `tc` on its machine.
"""

import os
import re
import shutil
import socket
import subprocess
from contextlib import contextmanager

from aoi_fl.lab.benchmarks.base import Row, Skipped, watched
from tests.e2e.cluster import Cluster, engine_problem

CLIENTS, ROUNDS, SLOW_ROUNDS = 4, 6, 2
_MODEL = 4 * 1_663_370  # bytes of the CNN's parameters
_MNIST = {"AOI_DATASET": "mnist", "AOI_MODEL": "cnn", "AOI_LOCAL_STEPS": "2", "AOI_EVALUATE_EVERY": "100"}
_MEMORY = {"AOI_CLIENT_MEMORY": "2g"}  # for 60,000 images in float32 and the CNN; the digits need the default
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def run(data):
    """Build the cluster, measure it and remove it."""
    if problem := engine_problem():
        raise Skipped(f"no Docker engine: {problem}")
    if not (data / "MNIST").is_dir():
        raise Skipped(f"no MNIST in {data}: the papers' CNN needs its images")
    cluster = Cluster("aoi-bench", AOI_DATA=str(data.resolve()), AOI_PAGE_PORT=os.environ.get("AOI_PAGE_PORT", "8058"))
    cluster.down()
    try:
        cluster.compose("build", timeout=900)
        yield _memory(cluster)
        _play(
            cluster, "first", 1, **_MNIST, **_MEMORY
        )  # clients with more memory are new containers, so their counters start again
        for wire in ("poll", "broadcast", "reserve"):
            yield _bytes(cluster, wire)
        yield _slow(cluster)
    finally:
        cluster.down()


def _play(cluster, name, rounds, **settings):
    """Complete a run and return its rounds."""
    keys = {"AOI_RUN_NAME": name, "AOI_NUM_SERVER_ROUNDS": str(rounds), "AOI_NUM_CLIENTS": str(CLIENTS)}
    keys |= {"AOI_PRESET": "papers"} | settings
    cluster.compose("up", "-d", "--no-build", timeout=180, **keys)
    if cluster.await_end():
        raise Skipped(f"the run {name} failed: {cluster.logs('submit')[-400:]}")
    return cluster.ledger(name)["rounds"]


def _memory(cluster):
    """Return a client's peak memory in a run of the digits, and its memory after the run."""
    with watched(lambda: _use(cluster)) as seen:
        _play(cluster, "memory", 6, AOI_POLICY="random", AOI_CLIENTS_PER_ROUND=str(CLIENTS))
    rest = max(_use(cluster))
    return Row(
        "memory of a client container in training (SuperNode and ClientApp, digits, CPU torch)",
        "the same at rest",
        768.0,
        max(seen) / 2**20,
        "MiB",
        f"{rest / 2**20:.0f} MiB at rest; the container's limit is 768 MiB",
    )


def _use(cluster):
    """Return the bytes that each client uses now, without the system's file cache."""
    text = cluster.docker(
        "stats", "--no-stream", "--format", "{{.MemUsage}}", *cluster.containers("client"), check=False
    )
    return [float(n) * _UNITS[unit] for n, unit in re.findall(r"^([\d.]+)([KMG]?i?B) /", text, re.MULTILINE)]


def _bytes(cluster, wire):
    """Return the bytes of a round of the CNN, in which two of four clients train on average."""
    before = _traffic(cluster)
    settings = (
        _MNIST | _MEMORY | {"AOI_POLICY": "markov-optimal", "AOI_COORDINATION": wire, "AOI_CLIENTS_PER_ROUND": "2"}
    )
    rounds = _play(cluster, wire, ROUNDS, **settings)
    sent = (_traffic(cluster) - before) / ROUNDS
    trained = sum(row["trained"] for row in rounds) / ROUNDS
    seconds = sum(row["seconds"] for row in rounds) / ROUNDS
    return Row(
        f"bytes on the wire a round, CNN, {CLIENTS} clients, coordination={wire}",
        "the model to and from the clients that trained",
        None,
        sent / (2 * _MODEL * trained),
        note=f"{sent / 1e6:.1f} MB, {trained:.2g} clients trained, {seconds:.1f} s a round",
    )


def _traffic(cluster):
    """Return the bytes in and out of the clients' interfaces so far; 0 without clients."""
    read = "cat /sys/class/net/eth0/statistics/rx_bytes /sys/class/net/eth0/statistics/tx_bytes"
    return float(
        sum(int(n) for c in cluster.containers("client") for n in cluster.docker("exec", c, *read.split()).split())
    )


def _slow(cluster):
    """Return the seconds of a round of the CNN with every client behind 2 Mbit/s, each way."""
    if os.geteuid() or not shutil.which("tc") or not shutil.which("nsenter"):
        raise Skipped("the slow link needs root, tc and nsenter on the engine's machine")
    settings = _MNIST | _MEMORY | {"AOI_POLICY": "random", "AOI_CLIENTS_PER_ROUND": "2", "AOI_TRAIN_TIMEOUT": "300"}
    with _throttled(cluster):
        rounds = _play(cluster, "slow", SLOW_ROUNDS, **settings)
    trained = [row["trained"] for row in rounds]
    if trained != [2] * SLOW_ROUNDS:
        raise Skipped(f"behind 2 Mbit/s {trained} of 2 clients trained")
    return Row(
        "a round of the CNN behind a link of 2 Mbit/s a client (tbf, each way)",
        "the model's bytes over the link, both ways",
        None,
        rounds[-1]["seconds"] / (2 * 8 * _MODEL / 2e6),
        note=f"{rounds[-1]['seconds']:.0f} s, both clients in time",
    )


@contextmanager
def _throttled(cluster):
    """Put a token bucket on both ends of each client's link."""
    limit = ["root", "tbf", "rate", "2mbit", "burst", "32kbit", "latency", "400ms"]
    ends = []  # commands with a gap for the action
    for container in cluster.containers("client"):
        pid = cluster.docker("inspect", "-f", "{{.State.Pid}}", container).strip()
        inside = ["nsenter", "-t", pid, "-n"]
        peer = cluster.docker("exec", container, "cat", "/sys/class/net/eth0/iflink").strip()
        there = socket.if_indextoname(int(peer))
        ends += [[*inside, "tc", "qdisc", "{}", "dev", "eth0"], ["tc", "qdisc", "{}", "dev", there]]
    for end in ends:
        subprocess.run([w.format("add") for w in end] + limit, check=True)
    try:
        yield
    finally:
        for end in ends:
            subprocess.run([w.format("del") for w in end] + ["root"], check=False)
