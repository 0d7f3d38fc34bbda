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

from aoi_fl.cli import wait


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def at_terminal(monkeypatch) -> Terminal:
    """Return what stderr is sent where both streams are terminals."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    return stream


@pytest.mark.parametrize(("patience", "shown"), [(0.05, True), (60.0, False)])
def test_the_bar_appears_after_a_while(patience, shown, monkeypatch):
    stream = at_terminal(monkeypatch)
    monkeypatch.setattr(wait, "PATIENCE", patience)
    with wait.waiting("Playing 1000 rounds"):
        time.sleep(0.3)
    assert ("Playing 1000 rounds" in stream.getvalue()) == shown


@pytest.mark.parametrize("piped", ["stdout", "stderr"])
def test_no_bar_where_one_stream_is_no_terminal(piped, monkeypatch):
    at_terminal(monkeypatch)
    monkeypatch.setattr(wait, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, piped, io.StringIO())
    with wait.waiting("Playing"):
        time.sleep(0.05)
    assert sys.stderr.getvalue() == sys.stdout.getvalue() == ""


def test_an_error_ends_the_bar(monkeypatch):
    stream = at_terminal(monkeypatch)
    monkeypatch.setattr(wait, "PATIENCE", 0.0)
    with pytest.raises(ZeroDivisionError), wait.waiting("Playing"):
        time.sleep(0.1)
        raise ZeroDivisionError
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")  # the cursor is back


@pytest.mark.slow
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
