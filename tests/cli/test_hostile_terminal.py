"""Terminals that lack characters, and runs that begin in the same second."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from aoi_fl.science.errors import ConfigError
from aoi_fl.server import folder as folders
from aoi_fl.server.folder import make_run_folder, run_folder
from tests.processes import python


def test_a_terminal_without_a_character_shows_another():
    line = "-m aoi_fl.cli.start simulate --clients 9 --per-round 2"
    shown = python(*line.split(), PYTHONIOENCODING="ascii:strict").stdout
    assert "Jain" in shown and shown.isascii()


def test_names_are_taken_once_whatever_the_clock_says(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.time, "strftime", lambda form: "20260101-000000")

    def begin(_):
        with run_folder(tmp_path / "runs", "", "random", "npz:/a/b.npz") as folder:
            make_run_folder(folder)
            return folder.name

    with ThreadPoolExecutor(20) as pool:
        names = sorted(pool.map(begin, range(20)))
    assert len(set(names)) == 20 and names[0] == "random-npz-20260101-000000"
    assert all(re.fullmatch(r"random-npz-20260101-000000(-\d+)?", name) for name in names)


def test_a_name_that_was_not_used_is_given_back(tmp_path):
    with pytest.raises(ConfigError), run_folder(tmp_path, "", "random", "digits"):
        raise ConfigError("dataset", "x", "one that exists", "Choose another.")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), run_folder(tmp_path, "", "random", "digits") as folder:
        (folder / "ledger.sqlite").touch()
        raise KeyboardInterrupt
    assert len(list(tmp_path.iterdir())) == 1
    with run_folder(tmp_path, "given", "random", "digits") as folder:
        assert folder == tmp_path / "given" and not folder.exists()


@pytest.mark.parametrize(
    "command",
    [
        "simulate --policy random --clients",
        "run --clients",
        "run -c sizes",
        "run -c",
    ],
)
def test_a_value_of_any_length_is_one_short_line(command, refusal):
    assert len(refusal(f"{command}={'9' * 5000}".replace("--clients=", "--clients "))) < 1000
