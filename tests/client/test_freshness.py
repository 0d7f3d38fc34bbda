"""Data with an age: what the two sources do with it, and that a client keeps count of it."""

import os
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import ConfigRecord

from aoi_fl.client.member import Member
from aoi_fl.flower import messages
from aoi_fl.learning.freshness import Folder, Mislabelled
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.arrays import to_record
from aoi_fl.science.age import ClientAge
from tests.fakes import request
from tests.refusals import refused

CLASSES = 10
LABELS = np.arange(400) % CLASSES
INDICES = np.arange(100, 300)


class Shown:
    """Stands for the task: tells what it was asked for."""

    data = SimpleNamespace(classes=CLASSES, train_y=LABELS)

    def examples(self, indices, *, labels=None):
        labels = LABELS[indices] if labels is None else labels
        return SimpleNamespace(indices=np.asarray(indices), labels=np.asarray(labels))

    def examples_from(self, path):
        return SimpleNamespace(path=Path(path))


TASK = Shown()


def wrong(source, round_, age):
    """Return the positions of the wrong labels, and the labels."""
    shown = source.examples(TASK, round_, age)
    assert shown.indices.tolist() == source.indices.tolist()
    return set(np.flatnonzero(shown.labels != LABELS[source.indices]).tolist()), shown.labels


# Mislabelled ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "cap", "n"), [(0.05, 0.9, 200), (0.03, 0.5, 97), (1.0, 1.0, 10), (0.4, 0.9, 7)])
def test_the_share_of_wrong_labels_grows_with_age_to_a_cap(rate, cap, n):
    source = Mislabelled(INDICES[:n], number=3, seed=1, rate=rate, cap=cap)
    before, earlier = set(), LABELS
    for age in range(30):
        now, labels = wrong(source, 50 + age, age)
        assert abs(len(now) - min(cap, rate * age) * n) <= 0.5 + 1e-9, age
        assert now >= before, age  # a wrong label stays wrong …
        assert ((labels >= 0) & (labels < CLASSES)).all()
        assert all(labels[i] == earlier[i] for i in before)  # … in the same way
        before, earlier = now, labels
    assert len(before) == round(cap * n)
    assert wrong(source, 50, 0)[0] == set()


def test_wrong_labels_depend_on_client_seed_and_refresh():
    def labels(round_=20, number=3, seed=1):
        return wrong(Mislabelled(INDICES, number, seed, rate=0.05), round_, 8)[1].tolist()

    assert len({tuple(labels(**change)) for change in ({}, {}, {"number": 4}, {"seed": 2}, {"round_": 21})}) == 4
    shifts = (wrong(Mislabelled(INDICES, rate=1.0), 9, 9)[1] - LABELS[INDICES]) % CLASSES
    assert {*shifts} - {0} == {*range(1, CLASSES)}  # every wrong class occurs


# A client's own folder -----------------------------------------------------------------------------------------------


def aged(path, seconds):
    now = time.time()
    os.utime(path, (now, now - seconds))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own data.npz"
    np.savez(path, x=np.zeros((3, 8, 8), np.uint8), y=np.array([0, 1, 2]))
    return path


def script(folder, body):
    """Write an executable program and return its path."""
    path = folder / "program"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_age_of_a_folder_is_its_files(file):
    clock = ClientAge(last=0)
    for seconds, rounds in ((0, 0), (59, 0), (61, 1), (605, 10), (-500, 0)):
        aged(file, seconds)
        assert Folder(file).age(clock, 99) == rounds
    aged(file, 605)
    assert Folder(file, round_seconds=100).age(clock, 99) == 6
    assert Folder(file).examples(TASK, 3, 2).path == file


def test_the_command_runs_without_a_shell(tmp_path, file):
    seen = tmp_path / "seen"
    program = script(tmp_path, f"import sys; open({str(seen)!r}, 'a').write(repr(sys.argv[1:]))")
    Folder(file, f"{program} 'two words' $HOME > nothing ; touch x").refresh(1)
    assert seen.read_text() == "['two words', '$HOME', '>', 'nothing', ';', 'touch', 'x']"


def test_a_command_that_fails_says_how(tmp_path, file):
    def fails(command, words, **how):
        with refused("refresh-command", allowed=words):
            Folder(file, command, **how).refresh(1)

    fails("", "set")
    fails("/no/such/program", "No such file")
    fails("cat 'unbalanced", "No closing quotation")
    fails(
        str(script(tmp_path, "import sys; print('cam', file=sys.stderr); sys.exit('lens cap on')")),
        "status 1.*lens cap",
    )
    fails(str(script(tmp_path, "import os; os.write(1, b'\\xff\\xfe'); os._exit(3)")), "status 3")
    fails(str(script(tmp_path, "import time; time.sleep(60)")), "timed out", timeout=0.5)


# The client's clock --------------------------------------------------------------------------------------------------


def member(folder, round_, source, terms=(), **node):
    ask = ParticipationRequest("r", round_, **dict(terms))
    context = messages.context(1, 2, {"runs-dir": str(folder), "seed": 1}, {"partition-id": 0, **node})
    return Member(context, ask, make_source=lambda context, ask: source)


def data_age(folder, *about, **terms):
    return member(folder, *about, terms).data_age()


def test_a_bid_is_the_index_at_the_age_before_the_decision(tmp_path):
    source = Mislabelled(INDICES, first_age=2)

    def bid(index, payment=8.0, sensitivity=0.5, round_=4, budget=40.0):
        price = {"payment": payment, "sensitivity": sensitivity}
        node = {key: value for key, value in price.items() if value is not None}
        client = member(tmp_path, round_, source, {"index": index, "budget": budget}, **node)
        return client.bid(client.introduction())

    assert (bid("whittle").age, bid("whittle").payment) == (5, 8.0)
    assert bid("whittle").bid == 6 * 7 * 40 * 0.5 / (2 * 8)  # (Δ+1)(Δ+2)Bφ/2p
    assert bid("abs").bid == 5 * 0.5 / 8  # Δφ/p
    assert bid("maxpack").bid == 5 and bid("maxpack", sensitivity=None).bid == 5
    data_age(tmp_path, 4, source, refresh=True)
    assert bid("whittle").age == 5  # asked again in the round of the refresh: the answer it gave before
    assert bid("whittle", round_=5).age == 0
    for terms in ({"payment": None}, {"sensitivity": None}, {"budget": None}, {"index": "loudest"}):
        with refused("budget" if "index" in terms else next(iter(terms))):
            bid(**({"index": "whittle"} | terms))


def test_a_repeated_message_runs_the_command_once_after_it_has_succeeded(tmp_path, file):
    log = tmp_path / "log"
    program = script(tmp_path, f"import os; open({str(log)!r}, 'a').write('x'); os.utime({str(file)!r})")
    source = Folder(file, str(program))
    aged(file, 1000)
    assert member(tmp_path, 1, source).introduction().data_age == 16
    assert data_age(tmp_path, 1, source) == 17
    with refused("refresh-command"):
        data_age(tmp_path, 2, Folder(file, "/no/such/program"), refresh=True)
    for round_ in (2, 2, 1):  # again, and a message that was long under way
        assert data_age(tmp_path, round_, source, refresh=True) == 0
    assert log.read_text() == "x" and data_age(tmp_path, 3, source) == 1
    data_age(tmp_path, 3, source, refresh=True)
    assert log.read_text() == "xx"


# The real client, over messages ---------------------------------------------------------------------------------------


def test_a_client_reports_and_trains_on_its_own_folder(tmp_path, file):
    from aoi_fl.learning.client_app import app
    from aoi_fl.learning.task import Task

    aged(file, 300)
    program = script(tmp_path, f"import os; os.utime({str(file)!r})")
    node = {"name": "pi", "state-dir": str(tmp_path), "data-file": str(file), "refresh-command": str(program)}
    node |= {"payment": 2, "sensitivity": 0.5, "round-seconds": 60}
    settings = {"runs-dir": str(tmp_path), "seed": 1, "dataset": "digits", "model": "lr", "local-epochs": 1}
    model = to_record(Task("digits", "data", "lr", "cpu", 1).initial_arrays())

    def send(kind, round_=1, refresh=False):
        ask, config = ParticipationRequest("r", round_, refresh=refresh), ConfigRecord({"learning-rate": 0.1})
        return app(request(kind, ask, arrays=model, config=config), messages.context(1, 2, settings, node)).content

    own = {"payment": 2.0, "sensitivity": 0.5, "data-age": 5}
    assert dict(send("query.hello")["aoi"]) == {"name": "pi", "num-examples": 3, "packing": 2, **own}
    reply = send("train", refresh=True)
    assert reply["metrics"]["num-examples"] == 3 and "arrays" in reply
    assert dict(send("query.hello", round_=2)["aoi"])["data-age"] == 0
    assert send("evaluate")["metrics"]["num-examples"] == 3
    file.unlink()
    with refused("data-file", str(file), "No such file or directory"):
        send("train", round_=2)
