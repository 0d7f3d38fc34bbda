"""A bar after two seconds, on a terminal, and nothing left of it afterwards."""

import contextlib
import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from aoi_fl.cli import wait


@pytest.mark.parametrize(
    ("terminal", "patience", "shown"), [(True, 0.05, True), (True, 60.0, False), (False, 0.05, False)]
)
def test_the_bar_is_for_who_waits_at_a_terminal(terminal, patience, shown, monkeypatch):
    monkeypatch.setattr(wait, "PATIENCE", patience)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=60)
    with wait.waiting("Playing 1000 rounds", console):
        time.sleep(0.3)
    assert ("Playing 1000 rounds" in stream.getvalue()) == shown
    if not terminal:
        assert stream.getvalue() == ""


def test_an_error_ends_the_bar(monkeypatch):
    monkeypatch.setattr(wait, "PATIENCE", 0.0)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True)
    with pytest.raises(ZeroDivisionError), wait.waiting("Playing", console):
        time.sleep(0.1)
        raise ZeroDivisionError
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")  # the cursor is back


def test_a_run_that_starts_slowly_says_so_on_a_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import aoi_fl.cli.wait as w, aoi_fl.cli.start as s; w.PATIENCE = 0.0; s.main()"
    keys = ["-cnum-clients=2", "-cclients-per-round=1", "-cnum-server-rounds=1", "-cmodel=lr", "-clocal-epochs=1"]
    terminal, end = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", code, "run", *keys], env=environment, stdout=end, stderr=end) as child:
        os.close(end)
        said = b""
        with contextlib.suppress(OSError):  # how a terminal of Linux says that nobody writes any more
            while part := os.read(terminal, 65536):
                said += part
    os.close(terminal)
    assert child.returncode == 0
    assert 0 <= said.index(b"Starting") < said.index(b"\x1b[?25h") < said.index(b"round 1/1")
