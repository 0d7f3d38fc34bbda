"""A device's move to another device: its key, the owner's rules and the client's state stay."""

import fcntl
import tarfile
import tomllib

import pytest

from aoi_fl.client.device import move
from tests.refusals import refused


@pytest.fixture
def enrolled(enrol, tmp_path):
    made = enrol()
    text = (made.folder / "node.toml").read_text().replace("/var/lib/aoi/pi-3", str(tmp_path / "state"))
    (made.folder / "node.toml").write_text(text + "pause = true\n")
    return made.folder


def test_a_moved_client_has_its_key_rules_data_and_state(enrolled, tmp_path):
    state, archive = tmp_path / "state", enrolled / "pi-3.tgz"
    (state / "run").mkdir(parents=True)
    (state / "run" / "pi-3.json").write_text("{}")
    (state / "session").write_text("0 0 7\n")
    (enrolled / "data" / "train.npz").write_bytes(b"data")
    key, public = ((enrolled / name).read_bytes() for name in ("client.key", "pi-3.pub"))
    move.pack(enrolled, archive)
    assert archive.stat().st_mode & 0o777 == 0o600
    assert not (enrolled / "client.key").exists()  # the former device cannot run the client
    with refused("--dir"):
        move.pack(enrolled, tmp_path / "again.tgz")
    state.rename(tmp_path / "former")
    there = tmp_path / "there"
    units = move.unpack(archive, there)
    assert ((there / "client.key").read_bytes(), (there / "pi-3.pub").read_bytes()) == (key, public)
    node = tomllib.loads((there / "node.toml").read_text())
    assert node["pause"] is True and node["data-file"] == str(there / "data" / "train.npz")
    assert (there / "data" / "train.npz").read_bytes() == b"data"
    assert [unit.name for unit in units] == ["aoi-pi-3.service"] and str(enrolled) not in units[0].read_text()
    assert sorted(path.name for path in state.rglob("*")) == ["pi-3.json", "run"]


def test_a_running_client_and_a_used_place_are_refused(enrolled, tmp_path):
    state, archive = tmp_path / "state", tmp_path / "pi-3.tgz"
    state.mkdir()
    with (state / "session").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with refused("--dir"):
            move.pack(enrolled, archive)
    assert not archive.exists() and (enrolled / "client.key").exists()
    move.pack(enrolled, archive)
    with refused("--dir"):
        move.unpack(archive, enrolled)
    with refused("state-dir"):
        move.unpack(archive, tmp_path / "there")
    assert not (tmp_path / "there").exists()  # a key without its state would take part from age 0
    (state / "session").unlink()
    move.unpack(archive, tmp_path / "there")


def test_a_torn_or_foreign_file_is_refused(enrolled, tmp_path):
    archive = tmp_path / "pi-3.tgz"
    move.pack(enrolled, archive)
    archive.write_bytes(archive.read_bytes()[:-200])
    with refused("archive"):
        move.unpack(archive, tmp_path / "torn")
    escaping = tarfile.TarInfo("client/../../escaped")
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(escaping)
    with refused("archive"):
        move.unpack(archive, tmp_path / "foreign")
    assert not (tmp_path / "escaped").exists()
