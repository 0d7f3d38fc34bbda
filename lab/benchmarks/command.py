"""The time of short commands: the help, and the refusal of a wrong key."""

import os
import statistics
import subprocess
import sys
import tempfile

from aoi_fl.lab.benchmarks.base import ROOT, Row, alternate

# Arguments of the command, the allowed seconds, and the expected status.
_ASKED = {
    "`aoi --help`": (["--help"], 0.3, 0),
    "`aoi run`: a wrong key refused": (["run", "-c", "polcy=random"], 0.5, 2),
}


def run(data):
    """Yield a row for each command."""
    with tempfile.TemporaryDirectory() as compiled:
        # As after an installation: the bytecode is cached from the first start on.
        environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled, "PYTHONPATH": str(ROOT)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for what, (arguments, limit, status) in _ASKED.items():
            command = [sys.executable, "-m", "aoi_fl.cli.start", *arguments]
            worked = []
            ours, bare = alternate(
                lambda command=command, status=status, worked=worked: worked.append(
                    _start(command, environment, status)
                ),
                lambda: _start([sys.executable, "-c", "pass"], environment, 0),
            )
            note = f"{statistics.median(worked[1:]):.2g} s of a processor"  # of which a busy machine gives less
            yield Row(what, f"Python alone: {bare.seconds:.2g} s", limit, ours.seconds, "s", note)


def _start(command, environment, status):
    """Run a program and return its CPU seconds.

    Raises
    ------
    RuntimeError : it ended with another status than expected.
    """
    before = os.times()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = os.times()
    if ended.returncode != status:
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr.strip()}")
    return after.children_user - before.children_user + after.children_system - before.children_system
