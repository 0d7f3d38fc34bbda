"""Terminals that lack characters, and runs that begin in the same second."""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aoi_fl.cli.main import main
from aoi_fl.science.errors import ConfigError
from aoi_fl.server import folder as folders
from aoi_fl.server.folder import make_run_folder, run_folder
from tests.refusals import refused

ROOT = Path(__file__).parents[2]


def test_a_terminal_without_a_character_shows_another():
    line = ["-m", "aoi_fl.cli.start", "simulate", "--clients", "9", "--per-round", "2"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([sys.executable, *line], cwd=ROOT, capture_output=True, env=environment, check=True)
    assert b"Jain" in done.stdout and done.stdout.isascii()


def test_names_are_taken_once_whatever_the_clock_says(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.time, "strftime", lambda form: "20260101-000000")

    def begin(_: int) -> str:
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


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "runs").write_text("no folder")
    begun = time.monotonic()
    with refused("runs-dir"), run_folder(tmp_path / "runs", "", "random", "digits"):
        pass
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "command",
    [
        "simulate --policy random --clients",
        "run --clients",
        "run -c sizes",
        "run -c",
    ],
)
def test_a_value_of_any_length_is_one_short_line(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", f"aoi {command}={'9' * 5000}".replace("--clients=", "--clients ").split())
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert len(capsys.readouterr().err) < 1000
