"""A client's state outlives kill -9, half-written files and nonsense."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from aoi_fl.client.state import ClientState, StateFile
from aoi_fl.science.age import ClientAge
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
STATE = ClientState(seed=7, age=ClientAge(last=12, before=4, reserved=20), data=ClientAge(last=9, before=2))


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "run" / "clients", "pi-3")


def test_nothing_stored_is_a_fresh_state_and_writes_nothing(file):
    assert file.load(5) == ClientState(seed=5)
    assert not file.path.parent.exists()


@pytest.mark.parametrize("state", [ClientState(seed=5), STATE, ClientState(3, age=ClientAge(last=-4))], ids=str)
def test_what_was_saved_is_loaded_whatever_seed_is_asked_for(file, state):
    file.save(state)
    assert StateFile(file.path.parent, "pi-3").load(99) == state
    assert [p.name for p in file.path.parent.iterdir()] == ["pi-3.json"]


def spoilt(good: bytes) -> dict[str, bytes]:
    body = json.loads(good)
    return {
        "empty": b"",
        "cut short": good[: len(good) // 2],
        "zeros after a power cut": bytes(len(good)),
        "no text": b"\xff\xfe\x00" * 9,
        "no object": b"[1, 2]",
        "another version": json.dumps(body | {"version": 99}).encode(),
        "a changed number": good.replace(b'"last": 12', b'"last": 11'),
        "no checksum": json.dumps({k: v for k, v in body.items() if k != "checksum"}).encode(),
        "one bit": bytes([*good[:40], good[40] ^ 1, *good[41:]]),
    }


@pytest.mark.parametrize(
    "what",
    [
        "empty",
        "cut short",
        "zeros after a power cut",
        "no text",
        "no object",
        "another version",
        "a changed number",
        "no checksum",
        "one bit",
    ],
)
def test_a_corrupt_file_is_kept_aside_said_and_started_anew(file, what, caplog):
    file.save(STATE)
    bad = spoilt(file.path.read_bytes())[what]
    file.path.write_bytes(bad)
    with caplog.at_level(logging.WARNING, "flwr"):
        assert file.load(5) == ClientState(seed=5)
    assert str(file.path) in caplog.text and "corrupt" in caplog.text and "starts again" in caplog.text
    (aside,) = file.path.parent.iterdir()
    assert aside.name in caplog.text and aside.read_bytes() == bad
    file.save(STATE)
    file.path.write_bytes(bad)
    file.load(5)
    assert len(list(file.path.parent.iterdir())) == 2  # the second one does not overwrite the first


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a b", "a\n", "é", "x" * 101])
def test_a_name_that_cannot_name_a_file_is_refused(tmp_path, name):
    with refused("client name"):
        StateFile(tmp_path, name)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    file = StateFile(tmp_path / "file" / "clients", "a")
    with refused("state-dir"):
        file.save(STATE)


def test_a_state_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.json").mkdir()
    with refused("state-dir"):
        StateFile(tmp_path, "a").load(1)


SAVER = """
import os, signal, sys, time
from pathlib import Path
from aoi_fl.science.age import ClientAge
from aoi_fl.client.state import ClientState, StateFile

os.fsync = lambda file: None  # as fast as possible: more chances to die in the middle
file = StateFile(Path(sys.argv[1]), "a")
file.save(ClientState(seed=1, age=ClientAge(last=1, before=0)))
for trial in range(25):
    number = file.load(99).age.last
    child = os.fork()
    while not child:
        number += 1
        file.save(ClientState(seed=1, age=ClientAge(last=number, before=number - 1)))
    time.sleep(0.003 + 0.0017 * trial)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    clock = file.load(99).age
    print(clock.last, clock.before, flush=True)
"""


def test_kill_9_leaves_the_old_or_the_new_state(tmp_path):
    done = subprocess.run([sys.executable, "-c", SAVER, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "corrupt" not in done.stderr, done.stderr
    reached = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(reached) == 25 and reached == sorted(reached) and reached[-1][0] > 10
    assert all(before == last - 1 for last, before in reached)
    assert not [p for p in tmp_path.iterdir() if "corrupt" in p.name]
