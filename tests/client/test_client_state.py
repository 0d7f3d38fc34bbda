"""A client's state is read as it was written, and a place that cannot hold it is named."""

import pytest

from aoi_fl.client.state import ClientState, StateFile
from aoi_fl.science.age import ClientAge
from tests.refusals import refused

STATE = ClientState(seed=7, age=ClientAge(last=12, before=4, reserved=20), data=ClientAge(last=9, before=2))


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "run" / "clients", "pi-3")


@pytest.mark.parametrize("state", [ClientState(seed=5), STATE, ClientState(3, age=ClientAge(last=-4))], ids=str)
def test_what_was_saved_is_loaded_whatever_seed_is_asked_for(file, state):
    file.save(state)
    assert StateFile(file.path.parent, "pi-3").load(99) == state
    assert [p.name for p in file.path.parent.iterdir()] == ["pi-3.json"]


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
