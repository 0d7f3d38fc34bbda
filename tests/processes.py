"""Python in a process of its own."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORK = multiprocessing.get_context("fork")


def python(*arguments, status=0, cwd=ROOT, given=None, **environment):
    """Run Python with this checkout's rooms, and return what it did; ``given`` is its input, ``status`` its end."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done
