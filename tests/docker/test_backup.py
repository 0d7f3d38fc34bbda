"""A backup of a cluster's volumes: everything returns, and nothing else is written."""

import fcntl
import io
import os
import sqlite3
import tarfile
from contextlib import closing

import pytest

from aoi_fl.docker import backup, pki
from aoi_fl.server.folder import only_player
from tests.ledgers import about_of, noted
from tests.refusals import refused


@pytest.fixture
def volumes(tmp_path):
    root = tmp_path / "cluster"
    for volume in backup.VOLUMES:
        (root / volume).mkdir(parents=True)
    pki.make_all(root / "pki")
    run = root / "runs/first"
    run.mkdir()
    noted(run, status="completed")
    (root / "runs/.current").symlink_to("first")
    slot = root / "clients/0/state"
    slot.mkdir(parents=True)
    (slot / "client-0.json").write_text("{}")
    (slot / "partition.npy").symlink_to("/runs/.current/partition.npy")
    (slot.parent / "lock").touch()
    (root / "operator/client-1.revoked").write_text("key")
    return root


def empty(root):
    for volume in backup.VOLUMES:
        (root / volume).mkdir(parents=True)
    return root


def saved(root):
    out = io.BytesIO()
    backup.save(out, root)
    return out.getvalue()


def contents(root):
    """Return mode and content of each file; a database's content is its rows."""
    found = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(root))] = (path.stat().st_mode & 0o777, path.read_bytes())
    return {name: (mode, b"" if name.endswith(".sqlite") else data) for name, (mode, data) in found.items()}


def test_a_restored_cluster_is_the_saved_one(volumes, tmp_path):
    other = empty(tmp_path / "other")
    backup.restore(io.BytesIO(saved(volumes)), other)
    assert contents(other) == contents(volumes)
    assert about_of(other / "runs/.current")["status"] == "completed"
    assert pki.make_all(other / "pki") == []  # authority, certificate and secret are the saved ones


def test_a_database_is_copied_with_what_its_log_holds(volumes, tmp_path):
    with closing(sqlite3.connect(volumes / "state/superlink.db")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (7)")
        db.commit()
        assert (volumes / "state/superlink.db-wal").stat().st_size
        whole = saved(volumes)
    other = empty(tmp_path / "other")
    backup.restore(io.BytesIO(whole), other)
    assert os.listdir(other / "state") == ["superlink.db"]
    with closing(sqlite3.connect(other / "state/superlink.db")) as db:
        assert db.execute("SELECT x FROM t").fetchall() == [(7,)]


def test_nothing_is_saved_while_a_client_or_a_run_is_in_progress(volumes):
    with open(volumes / "clients/0/lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with refused("cluster", "client 0 runs"):
            saved(volumes)
    with only_player(volumes / "runs/first"), refused("cluster"):
        saved(volumes)


@pytest.mark.parametrize("volume", backup.VOLUMES)
def test_nothing_is_overwritten(volumes, tmp_path, volume):
    other = empty(tmp_path / "other")
    (other / volume / "file").write_text("there before")
    with refused("volumes", volume):
        backup.restore(io.BytesIO(saved(volumes)), other)
    assert [path.name for path in other.rglob("*") if path.is_file()] == ["file"]


@pytest.mark.parametrize("harm", ["torn", "foreign", "escaping"])
def test_a_file_that_is_no_whole_backup_writes_nothing(volumes, tmp_path, harm):
    whole, other = saved(volumes), empty(tmp_path / "other")
    if harm == "torn":
        whole = whole[: len(whole) // 2]
    else:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            if harm == "escaping":
                backup._note(tar, backup.FIRST, [])
                tar.addfile(tarfile.TarInfo("runs/../../escaped"))
                backup._note(tar, backup.LAST, 1)
            else:
                tar.addfile(tarfile.TarInfo("etc/passwd"))
        whole = out.getvalue()
    with refused("backup"):
        backup.restore(io.BytesIO(whole), other)
    assert not [path for path in tmp_path.rglob("escaped")] and not [p for p in other.rglob("*") if p.is_file()]
