"""The time of an update through the owner's gate."""

import os
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np

from aoi_fl.client.device.receipts import signer
from aoi_fl.client.gate.book import Book
from aoi_fl.client.gate.gate import Arrival, Gate
from aoi_fl.client.gate.limits import Content
from aoi_fl.docker.pki import make_client_key
from aoi_fl.lab.benchmarks.base import Row, alternate


def run(data):
    """Measure what an update through the owner's gate costs beyond one wait for the same disk."""
    with tempfile.TemporaryDirectory() as place:
        folder, rounds = Path(place), count(1)
        make_client_key(folder / "client.key", folder / "client.pub")
        gate = Gate({"max-updates": 10**6}, "link", Book(folder / "gate", signer(folder / "client.key")))
        reply = Content({"arrays": {"w": np.ones(1000)}}, {"metrics": {"num-examples": 1}})

        def update():
            arrival = Arrival("1", "train", str(next(rounds)), 64 * "a")
            gate.admit(arrival)
            gate.admit(whole := replace(arrival, content=Content({"arrays": {"w": np.zeros(1000)}})))
            gate.release(whole, reply, 8000)

        def wait():
            with open(folder / "waits", "ab") as file:
                file.write(bytes(600))
                file.flush()
                os.fsync(file.fileno())

        update()
        ours, theirs = alternate(update, wait, repeats=200)
    beyond = ours.seconds - theirs.seconds
    reference = f"one receipt's bytes and one fsync: {theirs.seconds * 1e3:.3g} ms"
    note = f"{beyond / theirs.seconds:.2g} of that write"
    what = "an update through the owner's gate, beyond its one wait for the disk"
    yield Row(what, reference, 5, beyond * 1e3, "ms", note)
