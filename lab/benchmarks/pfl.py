"""A round of the local engine against pfl's simulator, with the same model and steps.

pfl-research (Granqvist et al., 2024) is another fast simulator for one machine. It has its own Python environment; the
variable ``AOI_PFL`` names its interpreter. Both run in separate processes, in turns, with one thread, without
evaluation. They draw different clients and shuffle images differently.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

from aoi_fl.lab.benchmarks.base import ROOT, Row, Skipped, need, peak_memory
from aoi_fl.lab.benchmarks.training import federation, mnist
from aoi_fl.learning import partition
from aoi_fl.learning.task import Task

ROUNDS, TURNS = 12, 3
_INSTALL = 'uv venv PFL && uv pip install --python PFL/bin/python "pfl[pytorch]==0.6.0" torch=={torch} numpy=={numpy}'


def run(data):
    """Run both in turns, on MNIST with the 2NN."""
    theirs = os.environ.get("AOI_PFL")
    if not theirs:
        how = _INSTALL.format(torch=version("torch"), numpy=version("numpy"))
        raise Skipped(f"AOI_PFL names no interpreter that has pfl: {how}, then AOI_PFL=PFL/bin/python")
    need(data, "mnist")
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "given.npz"
        _write(given, data)
        sides = {
            "ours": [sys.executable, "-m", "aoi_fl.lab.benchmarks.pfl", str(data.absolute())],
            "pfl": [theirs, "-P", str(ROOT / "lab/benchmarks/pfl_rounds.py"), str(given)],
        }
        found = {side: [] for side in sides}
        for _ in range(TURNS):
            for side, command in sides.items():
                found[side].append(_played(command))
    took = {side: [s for turn in turns for s in turn["seconds"][1:]] for side, turns in found.items()}
    peaks = {side: max(turn["peak"] for turn in turns) for side, turns in found.items()}
    ends = {side: statistics.mean(turn["accuracy"] for turn in turns) for side, turns in found.items()}
    if abs(ends["ours"] - ends["pfl"]) > 0.03:
        raise RuntimeError(f"the two did not learn alike: accuracies {ends} after {ROUNDS} rounds")
    ours, pfl = (statistics.median(took[side]) for side in ("ours", "pfl"))
    yield Row(
        "MNIST-2NN training, 15 clients of 600 images, local engine, a round",
        "a round of pfl 0.6's simulator: same model, clients, batches and steps",
        0.5,
        ours / pfl,
        note=f"{1000 * ours:.0f} against {1000 * pfl:.0f} ms; accuracies {ends['ours']:.3f} and {ends['pfl']:.3f} "
        f"after {ROUNDS} rounds",
    )
    yield Row(
        "peak memory of the same",
        "pfl's, data and PyTorch included",
        None,
        peaks["ours"] / peaks["pfl"],
        note=f"{peaks['ours']:.0f} against {peaks['pfl']:.0f} MiB",
    )


def play(data):
    """Run our side and return its measurements."""
    with federation(mnist(data, ROUNDS)) as (played, task, _):
        observer, arrays = played()
        peak = peak_memory()
        return {"seconds": observer.times.wall, "peak": peak, "accuracy": task.evaluate_test(arrays)[1]}


def _write(path, data):
    """Write the input of pfl's side: images, partition and training settings."""
    chosen = mnist(data, ROUNDS)
    task = Task(chosen.dataset, chosen.data_dir, chosen.model, chosen.device, chosen.seed)
    parts = partition.make(task.data.train_y, chosen.num_clients, seed=chosen.seed)
    how = {
        "threads": 1,
        "seed": chosen.seed,
        "rounds": ROUNDS,
        "per-round": chosen.clients_per_round,
        "epochs": chosen.local_epochs,
        "batch": chosen.batch_size,
        "rate": chosen.rate(1),
    }
    test = {"test_x": task.data.test_x, "test_y": task.data.test_y}
    np.savez(path, x=task.data.train_x, y=task.data.train_y, parts=np.stack(parts), how=json.dumps(how), **test)


def _played(command):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    if found.returncode:
        raise RuntimeError(f"{command[:3]} ended with {found.returncode}: {found.stderr[-2000:]}")
    return json.loads(found.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]))))
