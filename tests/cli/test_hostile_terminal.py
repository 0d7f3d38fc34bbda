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
from aoi_fl.protocol.records import ClientRecord, Participation, RoundRecord
from aoi_fl.science.errors import ConfigError
from aoi_fl.server import folder as folders
from aoi_fl.server.folder import make_run_folder, run_folder
from tests.refusals import refused
from tests.report.recorded import record

ROOT = Path(__file__).parents[2]
AOI = ("-m", "aoi_fl.cli.start")
SMALL = ("-q", "--clients", "3", "--per-round", "2", "--rounds", "1", "-cmodel=lr", "-clocal-epochs=1")


def played(folder: Path) -> None:
    clients = [ClientRecord(0, "Zoë ✓ 日本", 1, 10), ClientRecord(1, "pi–3", 1)]
    rounds = [RoundRecord(1, 1.0, 1.0, participations=[Participation(0, "Zoë", "failed", reason="Σ → ∞")])]
    record(folder, rounds, clients, run=folder.name, config={"policy": "random", "num-clients": 2})


def run(command, folder, program=AOI, **environment) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *program, *command],
        cwd=folder,
        capture_output=True,
        timeout=300,
        env=os.environ | {"COLUMNS": "200"} | environment,
    )


ENCODINGS = {
    "ascii, strictly": {"PYTHONIOENCODING": "ascii:strict"},
    "KOI8-R": {"PYTHONIOENCODING": "koi8-r"},
    "POSIX": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
COMMANDS = (
    "clients one",
    "clients one --json",
    "simulate --policy random --clients 9 --per-round 2",
    "report one",
    "report näh",
)
# All commands in one process, as each loads the same libraries; the last line has their statuses.
EACH = """
import sys
from aoi_fl.cli.start import main
found = []
for command in sys.argv[1:]:
    sys.argv = ["aoi", *command.split()]
    try:
        found.append(main() or 0)
    except SystemExit as end:
        found.append(end.code or 0)
print(found)
"""


@pytest.mark.parametrize(
    "encoding", ["POSIX", *(pytest.param(e, marks=pytest.mark.slow) for e in ENCODINGS if e != "POSIX")]
)
def test_a_terminal_without_a_character_shows_another(encoding, tmp_path):
    played(tmp_path / "runs/one")
    done = run(COMMANDS, tmp_path, ("-c", EACH), PYTHONPATH=str(ROOT), **ENCODINGS[encoding])
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr[-500:]
    assert done.stdout.splitlines()[-1] == b"[0, 0, 0, 0, 2]"
    assert "Zoë" in (tmp_path / "runs/one/report.html").read_text("utf-8")


def test_a_project_is_laid_out_in_utf_8_whatever_the_terminal(tmp_path):
    done = run(["init", "mine"], tmp_path, **ENCODINGS["POSIX"])
    assert done.returncode == 0, done.stderr[-500:]
    for path in tmp_path.rglob("*.py"):
        path.read_text("utf-8")


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
        "serve --port",
        "report",
        "run --x",
    ],
)
def test_a_value_of_any_length_is_one_short_line(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", f"aoi {command}={'9' * 5000}".replace("--clients=", "--clients ").split())
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert len(capsys.readouterr().err) < 1000
