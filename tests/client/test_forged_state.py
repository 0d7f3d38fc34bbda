"""A client's files are read as they were written; of a forged one, checksum and all, each reader starts anew."""

import hashlib
import json
import time
from contextlib import closing

import pytest

from aoi_fl.client import poll_schedule, session
from aoi_fl.client.device.status import status
from aoi_fl.client.state import ClientState, StateFile
from aoi_fl.science.age import ClientAge
from aoi_fl.science.errors import ConfigError
from tests.refusals import refused

AGE = {"last": 3, "before": None, "forced": False, "reserved": None}
BODY = {"version": 1, "seed": 7, "age": AGE, "data": None, "turn": None, "token": None}
DEEP = b"[" * 200_000


def forged(**changes: object) -> bytes:
    """Return a state file with a good checksum."""
    body = BODY | changes
    checksum = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps(body | {"checksum": checksum}).encode()


STATES = {
    "empty": b"",
    "another version": forged(version=99),
    "a changed number": forged().replace(b'"last": 3', b'"last": 4'),
    "no checksum": json.dumps(BODY).encode(),
    "JSON without end": DEEP,
    "an age of 400 digits": forged(age=AGE | {"last": 10**400}),
    "an age that is a truth": forged(age=AGE | {"last": True}),
    "an age that is a list": forged(age=[3]),
    "an age with a field too many": forged(age=AGE | {"other": 1}),
    "a reservation of infinity": forged(age=AGE | {"reserved": float("inf")}),
    "a seed of text": forged(seed="seven"),
    "a number of 5000 digits": b'{"version": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("what", STATES)
def test_a_forged_state_is_kept_aside_and_started_anew(what, tmp_path, caplog):
    file = StateFile(tmp_path, "pi")
    file.path.write_bytes(forged())
    assert file.load(5).age.last == 3
    file.path.write_bytes(STATES[what])
    assert file.load(5) == ClientState(5)
    assert str(file.path) in caplog.text and (tmp_path / "pi.corrupt-1").read_bytes() == STATES[what]
    file.path.write_bytes(b"")
    file.load(5)
    assert (tmp_path / "pi.corrupt-1").read_bytes() == STATES[what] and (tmp_path / "pi.corrupt-2").exists()


SOUND = ClientState(seed=7, age=ClientAge(last=12, before=4, reserved=20), data=ClientAge(last=9, before=2))


@pytest.mark.parametrize("state", [ClientState(seed=5), SOUND, ClientState(3, age=ClientAge(last=-4))], ids=str)
def test_what_was_saved_is_loaded_whatever_seed_is_asked_for(state, tmp_path):
    StateFile(tmp_path / "new", "pi-3").save(state)
    assert StateFile(tmp_path / "new", "pi-3").load(99) == state
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pi-3.json"]


def test_a_place_that_cannot_hold_a_state_is_named(tmp_path):
    (tmp_path / "a.json").mkdir()
    with refused("state-dir"):
        StateFile(tmp_path, "a").load(1)
    (tmp_path / "file").touch()
    with refused("state-dir"):
        StateFile(tmp_path / "file" / "clients", "a").save(SOUND)


SESSIONS = [
    b"",
    b"a b c",
    b"inf inf 1",
    b"nan 0 0",
    b"-1 0 0",
    b"0 0 -7",
    b"0 0 18446744073709551616",
    b"0 0 0 0",
    b"1 1 " + b"9" * 5000,
]


@pytest.mark.parametrize("line", SESSIONS, ids=range(len(SESSIONS)))
def test_a_forged_session_is_none(line, tmp_path):
    path = tmp_path / session.FILE
    path.write_bytes(line)
    opened = session.Session(path)
    with closing(opened._file):
        assert (opened.until, opened.node) == (0.0, 0)


@pytest.mark.parametrize(
    "text",
    ["5", "[1]", "[" * 200_000, "[[], 1, 2]", "[1e999, 1, 2]", "[1, NaN, 2]", "[1, -2, 2]", "[1, 2, 3.5]"],
)
def test_a_forged_note_of_the_next_look_is_none(text, tmp_path):
    (tmp_path / "nap").write_text(text)
    assert poll_schedule.laid_down(tmp_path / "nap") is None


@pytest.mark.parametrize(
    "text", ["name = " + "[" * 100_000, "a." * 900 + "b = 1", "name = 1\nstate-dir = 2", "x" * 10**6, "\x00"]
)
def test_a_forged_node_file_is_named(text, tmp_path):
    (tmp_path / "node.toml").write_text(text)
    begun = time.monotonic()
    try:
        list(status(tmp_path))
    except ConfigError as error:
        assert "node" in str(error) or "key" in str(error)
    assert time.monotonic() - begun < 20
