"""A deployment on this machine: Flower's SuperLink and some SuperNodes."""

import json
import sys
import time
from contextlib import contextmanager

from aoi_fl.flower.superlink import Addresses, free_ports
from aoi_fl.lab.benchmarks.base import Skipped
from aoi_fl.lab.benchmarks.processes import programs

OURS, FLOWERS = (sys.executable, "-m", "aoi_fl.client.supernode"), ("flower-supernode",)
CONNECTION = "bench"
_PATIENCE = 600.0  # seconds for one run
_FIRST_LOOK = 10.0  # seconds until the first poll of a run's state; the pause doubles each time
_START = 60.0  # seconds until a SuperLink listens


@contextmanager
def started(nodes, config=""):
    """Start a SuperLink and a SuperNode with each command; yield the programs.

    They submit to ``CONNECTION``.

    ``config`` is added to the configuration of every node, in Flower's syntax.
    """
    with programs() as running:
        addresses = Addresses.free()
        (running.folder / "config.toml").write_text(addresses.connection(CONNECTION))
        superlink = running.start(
            "flower-superlink", "--insecure", "--disable-runtime-dependency-installation", *addresses.of_superlink()
        )
        running.await_ports(superlink, [addresses.control], _START)
        for i, (command, port) in enumerate(zip(nodes, free_ports(len(nodes)), strict=True)):
            about = f"--node-config=partition-id={i} num-partitions={len(nodes)} {config}".rstrip()
            running.start(*command, "--insecure", *addresses.of_supernode(port), about)
        yield running


@contextmanager
def deployment(nodes, config=""):
    """Start a SuperLink and a SuperNode with each command, ``OURS`` or ``FLOWERS``; ``config`` as in :func:`started`.

    Yields a function that runs an app with settings in Flower's syntax. It returns the JSON that the ServerApp writes
    to the file of its run key ``out``, and raises Skipped without it.
    """
    with started(nodes, config) as running:
        out = running.folder / "found.json"

        def submit(app, settings):
            out.unlink(missing_ok=True)
            run = running.submit(app, CONNECTION, f'{settings} out="{out}"'.strip())
            why, pause = "", _FIRST_LOOK
            deadline, look = time.monotonic() + _PATIENCE, time.monotonic() + pause
            while not (found := out.read_text() if out.exists() else ""):
                if why:
                    raise Skipped(f"the deployment did not finish: {why}. {running.log_tail(600)}")
                time.sleep(0.5)
                if time.monotonic() > look:  # rarely, because the command takes a second or two
                    why = running.end_of(run, CONNECTION)
                    if time.monotonic() > deadline:
                        why = f"it took longer than {_PATIENCE:g} s"
                    look, pause = time.monotonic() + pause, 2 * pause
            return json.loads(found)

        yield submit
