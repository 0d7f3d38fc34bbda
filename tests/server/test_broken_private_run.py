"""A private run that breaks off at any write is the unbroken run, or names the clients whose updates are lost."""

import os
import random
import re
import secrets
import signal
import sqlite3
import sys
from contextlib import contextmanager

import pytest

from aoi_fl.protocol.records import LOST
from aoi_fl.science.errors import AoiError
from aoi_fl.server.ledger import Ledger
from tests.ledgers import parts_of
from tests.processes import FORK
from tests.server.interrupted import PRIVATE, assert_same, recorded, run_deployed, run_here, write_to

NAME = "r"
VALUES = PRIVATE | {"run-name": NAME, "policy": "markov-optimal"}
COORDINATIONS = {
    "reserve": {"coordination": "reserve"},
    "poll": {"coordination": "poll", "metrics": "clear"},
    "broadcast": {"policy": "systematic", "coordination": "broadcast"},
    "central": {"policy": "oldest-age", "server-momentum": 0.5},
}
KINDS = [(kind, owned) for kind in COORDINATIONS for owned in (False, True)]  # owned: clients keep their own states
_BEGUN = 20  # by so many writes the configuration is written down


def _run(folder, kind, owned, resume):
    values = VALUES | COORDINATIONS[kind] | {"runs-dir": str(folder), "resume": resume}
    if owned:
        run_deployed(values, folder)
    else:
        run_here(values)


def _break_off(output, folder, kind, owned, at, fails, resume):
    """Count each write below the folder and each commit of the ledger; break off at the one numbered ``at``.

    Only writes of the server fail: a device without room fails alone, and the run goes on. With the same secrets in all
    processes their noise is the same.
    """
    write_to(output)
    secrets.token_bytes, secrets.randbits = lambda size=32: bytes(size), lambda bits: 1
    counted, transaction, scope = 0, Ledger._transaction, folder / NAME if fails else folder

    def write(error):
        nonlocal counted
        counted += 1
        if counted == at and fails:
            raise error
        if counted == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event, arguments):
        writes = event in ("os.rename", "os.remove")
        if event == "open":
            writes = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes and str(arguments[0]).startswith(str(scope)):
            write(OSError(28, "No space left on device", str(arguments[0])))

    @contextmanager
    def commit(self):
        with transaction(self) as database:
            yield database
            write(sqlite3.OperationalError("database or disk is full"))

    Ledger._transaction = commit
    sys.addaudithook(watch)
    try:
        _run(folder, kind, owned, resume)
    except AoiError as error:
        print("aoi:", error)
        sys.exit(2)
    print("writes:", counted, flush=True)


def break_off(folder, kind, owned, *, at=0, fails=False, resume=False):
    """Run in a process that breaks off; return its status and output."""
    folder.mkdir(exist_ok=True)
    output = folder.with_suffix(".txt")
    process = FORK.Process(target=_break_off, args=(output, folder, kind, owned, at, fails, resume))
    process.start()
    process.join()
    return process.exitcode, " ".join(output.read_text().split())


class Unbroken:
    """Whole runs by kind, each with its number of writes."""

    def __init__(self, folder):
        self._folder, self._done = folder, {}
        _run(folder / "warm", "reserve", False, False)  # a process forked from this one need not import

    def __call__(self, kind, owned, fails):
        if (key := (kind, owned, fails)) not in self._done:
            folder = self._folder / "-".join(map(str, key))
            status, output = break_off(folder, kind, owned, fails=fails)
            assert status == 0, output
            self._done[key] = folder, int(output.rsplit("writes: ")[-1])
        return self._done[key]


def trained(folder):
    rows = parts_of(folder / NAME)
    return {(row["round"], row["name"]) for row in rows if row["outcome"] == "trained"}


def check(folder, whole, kind, owned, *, at, fails):
    """Break a run off and resume it; return what became of it, or raise AssertionError."""
    status, output = break_off(folder, kind, owned, at=at, fails=fails)
    assert "Traceback" not in output, output
    if status == 0:  # the run goes on without what it could not remove
        assert_same(folder / NAME, whole / NAME)
        return "not ended"
    assert status == (2 if fails else -signal.SIGKILL), output
    status, output = break_off(folder, kind, owned, resume=True)
    assert "Traceback" not in output, output
    if status == 2 and not recorded(folder / NAME):
        assert "aoi: " in output and at <= _BEGUN, output
        return "not begun"
    assert status == 0, output
    lost = trained(whole) - trained(folder)
    if not lost:
        assert_same(folder / NAME, whole / NAME)
        return "equal"
    said = re.findall(r"Round (\d+) runs again after a break\. \d+ clients had trained in it: (.*?)\.", output)
    assert owned and trained(folder) < trained(whole)
    assert lost == {(int(round_), name) for round_, names in said for name in names.split(", ")}
    rows = [row for row in parts_of(folder / NAME) if (row["round"], row["name"]) in lost]
    assert {row["reason"] for row in rows} == {LOST}
    return "said"


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return Unbroken(tmp_path_factory.mktemp("unbroken"))


@pytest.mark.parametrize(
    ("fails", "breaks"),
    [(False, 1), *(pytest.param(*many, marks=pytest.mark.slow) for many in ((False, 13), (True, 7)))],
)
@pytest.mark.parametrize(("kind", "owned"), KINDS)
def test_a_broken_private_run_is_the_unbroken_one(kind, owned, fails, breaks, unbroken, tmp_path):
    """The slow ones are 104 kills and 56 failed writes."""
    whole, writes = unbroken(kind, owned, fails)
    for at in random.Random(f"{kind} {owned} {fails}").sample(range(1, writes + 1), breaks):
        check(tmp_path / str(at), whole, kind, owned, at=at, fails=fails)
