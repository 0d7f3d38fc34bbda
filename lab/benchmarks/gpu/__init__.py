"""GPU benchmarks: two clients of a SuperLink that share a GPU; rounds of CIFAR-10 per hour.

``python -m aoi_fl.lab.benchmarks gpu`` measures both; ``make gpu`` runs all that takes a GPU.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

from aoi_fl.lab.benchmarks.base import ROOT, Row, Skipped, need, watched
from aoi_fl.lab.benchmarks.superlink import OURS, started
from aoi_fl.learning import partition
from aoi_fl.learning.task import Task
from aoi_fl.science.errors import AoiError
from aoi_fl.server.folder import LEDGER, MODEL
from aoi_fl.server.ledger import read_run

CLIENTS, STEPS, BATCH, RATE, SEED = 2, 2, 50, 0.1, 1
_APART = 1e-4  # difference of an update on a GPU and a CPU, because the GPU's convolutions use TF32
_RUN = 150.0  # seconds for a run
PROCESSES = (1, 16)


def run(data):
    """Measure both."""
    yield from clients(data)
    yield from rounds(data)


def clients(data):
    """Compare the updates of two clients on a GPU and a CPU, alone and through a SuperLink."""
    need(data, "mnist")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else "a CPU, since there is no GPU"
    tasks = {name: Task("mnist", str(data), "cnn", name, seed=SEED) for name in ("cpu", device)}
    images = partition.make(tasks["cpu"].data.train_y, CLIENTS, seed=SEED)
    first, most = tasks["cpu"].initial_arrays(), 0.0
    how = {"round_": 1, "learning_rate": RATE, "batch_size": BATCH, "seed": SEED, "steps": STEPS}
    for number in range(CLIENTS):
        made = {
            name: task.train(first, task.examples(images[number]), client=number, **how)[0]
            for name, task in tasks.items()
        }
        most = max(most, _apart(made["cpu"], made[device]))
    what = f"an update of the MNIST CNN, {STEPS} steps, on {where}: largest difference"
    yield Row(what, "the same on a CPU", _APART, most, "of a parameter")
    with tempfile.TemporaryDirectory() as runs:
        models = {}
        with _superlink(data) as submit, watched(_memory) as used:
            for name in dict.fromkeys((device, "cpu")):
                submit(f'device="{name}" run-name="{name}" runs-dir="{runs}"', Path(runs) / name)
                models[name] = load_file(Path(runs) / name / MODEL)
        yield Row(
            f"a model of {CLIENTS} clients of a SuperLink, MNIST CNN, on {where}: largest difference",
            "the same clients on a CPU",
            _APART,
            _apart(models["cpu"], models[device]),
            "of a parameter",
        )
        if used:
            yield Row("memory on the GPU of a client that trains the MNIST CNN", "–", None, float(max(used)), "MiB")


def _apart(one, other):
    return max(float(np.max(np.abs(one[name] - other[name]))) for name in one)


@contextmanager
def _superlink(data):
    """Yield a function that runs this project's app on a SuperLink with two of our SuperNodes."""
    with started([OURS] * CLIENTS, f'data-dir="{data}"') as running:
        fixed = (
            f'dataset="mnist" data-dir="{data}" model="cnn" policy="random" num-clients={CLIENTS} '
            f"clients-per-round={CLIENTS} num-server-rounds=1 local-steps={STEPS} batch-size={BATCH} "
            f"learning-rate={RATE} seed={SEED}"
        )

        def submit(settings, folder):
            run = running.submit(ROOT, f"{fixed} {settings}")
            if (status := running.result_of(run, _RUN, lambda: _status(folder))) != "completed":
                raise Skipped(f"the run ended as {status}. {running.log_tail()}")

        yield submit


def _status(folder):
    """Return how a run has ended, or "" before."""
    with suppress(AoiError):
        if (folder / LEDGER).exists():
            return str(read_run(folder / LEDGER).get("status", "")).replace("running", "")
    return ""


def _memory():
    """Return each process's GPU memory now, in MiB."""
    query = ["nvidia-smi", "--query-compute-apps=used_memory", "--format=csv,noheader,nounits"]
    time.sleep(0.1)
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        output = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
        return [int(line) for line in output.split()]
    return []


def rounds(data):
    """Measure rounds of CIFAR-10 per hour, in float32 and bfloat16, with parallel runs."""
    need(data, "cifar10")
    if not torch.cuda.is_available():
        raise Skipped("no GPU here: a round of CIFAR-10 takes a minute of a core")
    alone, where = 0.0, torch.cuda.get_device_name()
    for precision in ("float32", "bfloat16"):
        for processes, mps in (*((n, False) for n in PROCESSES), (PROCESSES[-1], True)):
            with shared() if mps else nullcontext():
                rate = together(data, precision, processes)
            alone = alone or rate
            how = f"{precision}{', through MPS' if mps else ''}"
            yield Row(
                f"rounds of CIFAR-10 an hour, {processes} runs at a time, {how}, on {where}",
                "one run in float32",
                None,
                rate / alone,
                note=f"{3600 * rate:.0f} an hour",
            )


@contextmanager
def shared():
    """Share the GPU through NVIDIA's MPS during the block, so that processes' kernels overlap."""
    try:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise Skipped(f"MPS does not start: {error}") from error
    try:
        yield
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=60, check=False)


def together(data, precision, processes, count=5):
    """Return the total rounds per second of parallel runs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "aoi_fl.lab.benchmarks.gpu.rounds", str(data), folder, precision, str(count)]
        started = [
            subprocess.Popen([*command, str(seed)], cwd=ROOT, stdout=subprocess.DEVNULL) for seed in range(processes)
        ]
        if any(process.wait(300) for process in started):
            raise Skipped(f"of {processes} runs at a time one failed")
        return sum(1 / json.loads((Path(folder) / f"{seed}.json").read_text()) for seed in range(processes))
