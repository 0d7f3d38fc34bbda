"""A deployment on this machine: Flower's SuperLink and some SuperNodes."""

import json
import sys
from contextlib import contextmanager

from aoi_fl.flower.superlink import free_ports
from aoi_fl.lab.benchmarks.processes import programs

OURS, FLOWERS = (sys.executable, "-m", "aoi_fl.client.supernode"), ("flower-supernode",)
_PATIENCE = 600.0  # seconds for one run


@contextmanager
def started(nodes, config=""):
    """Start a SuperLink and a SuperNode with each command; yield the programs.

    ``config`` is added to the configuration of every node, in Flower's syntax.
    """
    with programs() as running:
        addresses = running.superlink()
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
            run = running.submit(app, f'{settings} out="{out}"'.strip())
            found = running.result_of(run, _PATIENCE, lambda: out.read_text() if out.exists() else "")
            return json.loads(found)

        yield submit
