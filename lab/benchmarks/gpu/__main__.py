"""``python -m aoi_fl.lab.benchmarks.gpu``: all GPU checks in order, and the experiment ``cifar10``.

Each step has its own time limit and result, so a failure does not affect the others. An interrupted step continues: the
runs of ``cifar10`` resume round by round.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, nullcontext, suppress
from pathlib import Path

from aoi_fl.lab.benchmarks.base import RESULTS, ROOT
from aoi_fl.lab.benchmarks.gpu import shared

STEPS = {"tests": 120, "together": 120, "gpu": 240, "cifar10": 540}  # seconds each


def main() -> int:
    """Run the steps and return the number of failures."""
    parser = argparse.ArgumentParser(prog="python -m aoi_fl.lab.benchmarks.gpu", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"any of {', '.join(STEPS)}; all if none")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="the folder of MNIST and CIFAR-10")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gpu", help="the folder of the results")
    parser.add_argument("--seconds", type=float, help="the limit of each step")
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1), help="runs at a time")
    parser.add_argument("--rounds", type=int, help="rounds of a run of cifar10, in place of its own")
    parser.add_argument("--seeds", type=int, help="seeds of cifar10, in place of its own")
    parser.add_argument("--mps", action="store_true", help="let processes share the GPU through NVIDIA's MPS")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"there is no step {', '.join(sorted(unknown))}: choose from {', '.join(STEPS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    data, python = str(options.data.absolute()), sys.executable
    given = [f"--{key}={value}" for key in ("rounds", "seeds") if (value := getattr(options, key)) is not None]
    commands = {
        "tests": [python, "-m", "pytest", "-n", "8", "tests/learning/test_batched.py", "-rs", "-m", "not alone"],
        "together": [python, "-m", "aoi_fl.lab.benchmarks", "together", "--data", data],
        "gpu": [python, "-m", "aoi_fl.lab.benchmarks", "gpu", "--data", data],
        "cifar10": [
            python,
            "-m",
            "aoi_fl.cli.start",
            "reproduce",
            "cifar10",
            "--data-dir",
            data,
            "--out",
            str(options.out),
            "--workers",
            str(options.workers),
            *given,
        ],
    }
    failed = 0
    with shared() if options.mps else nullcontext():
        for step in options.steps or STEPS:
            limit, begun = options.seconds or STEPS[step], time.monotonic()
            print(f"{step}: at most {limit:g} s", flush=True)
            with open(options.out / f"{step}.log", "ab") as log:
                status = _run(commands[step], limit, log)
            print(f"{step}: {status}, {time.monotonic() - begun:.0f} s", flush=True)
            failed += status not in ("ended", "cut off")
            with suppress(OSError):
                shutil.copy(RESULTS / f"{step}.json", options.out / f"{step}-benchmark.json")
    collect(options.out)
    return failed


def _run(command: list[str], seconds: float, log: object) -> str:
    """Run a command and return its outcome; at the time limit it is interrupted and can store."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)  # type: ignore[call-overload]
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return "cut off"
    return "ended" if status == 0 else f"failed with {status}"


def collect(out: Path) -> None:
    """Write the rounds of every run of cifar10, also unfinished, into one file."""
    found = {}
    for ledger in sorted((ROOT / "runs" / "reproduce" / "cifar10").glob("*/*/ledger.sqlite")):
        with suppress(sqlite3.Error), closing(sqlite3.connect(ledger)) as database:
            rows = database.execute("SELECT round, test_accuracy, test_loss, trained FROM rounds ORDER BY round")
            found[f"{ledger.parts[-3]}/{ledger.parts[-2]}"] = rows.fetchall()
    (out / "cifar10-runs.json").write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
