"""The ledger: one transaction a round, readable while it is written, and never half a round."""

import contextlib
import dataclasses

import pytest

from aoi_fl.protocol.records import NO_COLUMNS, ClientRecord, Nodes, Participation, RoundRecord
from aoi_fl.science.errors import StorageError
from aoi_fl.server.ledger import Ledger, read, read_run, refused_clients
from tests.refusals import refused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def round_of(number, clients=(3, 1)):
    parts = [
        Participation(c, f"client-{c}", "trained", age=2, weight=0.5, examples=10, loss=0.25, next_round=9, seconds=0.1)
        for c in clients
    ]
    parts.append(Participation(7, "client-7", "failed", reason="error: 'quotes', \"both\", and é"))
    return RoundRecord(
        number, 1e9, 0.5, 10, 3, len(clients), 7, 1, 26, test_loss=0.5, test_accuracy=0.75, participations=parts
    )


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%41b"])
def test_a_ledger_may_lie_anywhere(name, tmp_path):
    path = tmp_path / name / "ledger.sqlite"
    path.parent.mkdir()
    with contextlib.closing(Ledger(path)) as ledger:
        ledger.note(status="running")
    assert read_run(path)["status"] == "running" and list(tmp_path.iterdir()) == [path.parent]


def test_what_is_written_is_read(ledger, path):
    ledger.note(
        run="r", config={"alpha": 0.6, "deterministic": True}, status="running", policy={"probabilities": [0, 1]}
    )
    ledger.note(status="completed")
    clients = [ClientRecord(1, "client-1", 1, 10, 2.5, 1.5, 4), ClientRecord(0, "pi-3", 2)]
    ledger.add_clients(clients)
    ledger.add_round(round_of(1))
    ledger.add_round(RoundRecord(2, empty=True, forced=True, nodes=Nodes(3, ("node 5 cannot join",))))
    about = read_run(path)
    assert (about["run"], about["status"]) == ("r", "completed")
    assert about["config"] == {"alpha": 0.6, "deterministic": True} and about["policy"] == {"probabilities": [0, 1]}
    assert read(path, "clients") == [dataclasses.asdict(c) for c in reversed(clients)]
    one, two = read(path, "rounds")
    assert one == {k: v for k, v in dataclasses.asdict(round_of(1)).items() if k not in NO_COLUMNS}
    assert (two["round"], two["empty"], two["forced"], two["test_accuracy"]) == (2, 1, 1, None)
    assert about["nodes"]["connected"] == 3 and refused_clients(about) == ["node 5 cannot join"]
    parts = read(path, "participations")
    assert parts[1] == {"round": 1} | dataclasses.asdict(round_of(1).participations[0])


def test_a_repeated_round_replaces_itself(ledger, path):
    """A client is named twice if its answer was refused and it was then forced to train."""
    ledger.add_round(round_of(1))
    record = round_of(1, clients=(5,))
    record.participations.append(Participation(7, "client-7", "trained", forced=True))
    ledger.add_round(record)
    assert len(read(path, "rounds")) == 1
    rows = [(p["client"], p["outcome"], p["forced"]) for p in read(path, "participations")]
    assert rows == [(5, "trained", 0), (7, "trained", 1)]


def test_a_round_that_cannot_be_written_leaves_nothing(ledger, path):
    ledger.add_round(round_of(1))
    bad = round_of(2)
    bad.participations.append(Participation(9, "client-9", "trained", loss=object()))
    with pytest.raises(StorageError, match="cannot be written"):
        ledger.add_round(bad)
    assert [r["round"] for r in read(path, "rounds")] == [1]
    assert {p["round"] for p in read(path, "participations")} == {1}
    ledger.add_round(round_of(2))
    assert [r["round"] for r in read(path, "rounds")] == [1, 2]


def test_no_ledger_and_no_place_for_one_are_said(tmp_path):
    with refused("run"):
        read(tmp_path / "nowhere", "rounds")
    (tmp_path / "file").write_text("")
    with refused("runs-dir"):
        Ledger(tmp_path / "file/ledger.sqlite")
    (tmp_path / "garbage").write_bytes(b"no database, but long enough to look like a file of somebody's" * 20)
    with refused("runs-dir"):
        Ledger(tmp_path / "garbage")
