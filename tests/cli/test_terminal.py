"""What the command says of itself, where it says it, and in what colours."""

import json
import os
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

import aoi_fl
from aoi_fl.cli import log
from aoi_fl.cli.main import EXTRAS, app
from aoi_fl.protocol.records import Participation, RoundRecord
from aoi_fl.server.ledger import Ledger
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
SMALL = ["-cnum-clients=5", "-cclients-per-round=2", "-cmodel=lr", "-clocal-epochs=1", "-cnum-server-rounds=2"]


def test_version_and_short_help(aoi):
    assert aoi("--version") == (0, f"{aoi_fl.__version__}\n", "")
    status, out, _ = aoi("-h")
    assert status == 0 and out == aoi("--help")[1]
    assert aoi("run", "-h")[1] == aoi("run", "--help")[1]


def test_each_command_is_told_in_a_line_that_fits(aoi):
    listed = aoi("--help")[1].partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(app.registered_commands) + len(app.registered_groups)
    assert not any("..." in line for line in listed)


def test_a_mistyped_command_is_answered_once(aoi):
    status, _, err = aoi("rum")
    assert status == 2 and err.lower().count("did you mean") == 1 and "'run'" in err


@pytest.mark.parametrize(
    ("lacking", "command", "extra"), [("torch", ["run", *SMALL], "train"), ("jinja2", ["report", "r"], "report")]
)
def test_a_missing_package_is_named_with_its_extra(lacking, command, extra, tmp_path):
    code = f"import sys; sys.modules[{lacking!r}] = None; from aoi_fl.cli.main import main; main()"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"needs {lacking}" in done.stderr and f"pip install 'aoi-fl[{extra}]'" in done.stderr


def test_an_extra_brings_what_is_said_to_be_in_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(wanted.replace("-", "_").startswith(package) for wanted in extras[extra])


_ONE = ("run is ", "the folder of a run", "the name of a run under runs/")
_SEVERAL = ("RUN is ", "a run, a name under runs/", "a glob that matches runs")


@pytest.mark.parametrize(("command", "usage"), [("resume", _ONE), ("report", _SEVERAL), ("clients", _ONE)])
def test_an_unknown_run_is_answered_with_the_usage(aoi, command, usage):
    status, out, err = aoi(command, "nope")
    assert (status, out) == (2, "") and "nope" in err and all(words in err for words in usage)
    assert not any(key in err for key in ("runs-dir", "run-name", "-c "))


@pytest.mark.parametrize("command", ["report", "clients"])
@pytest.mark.parametrize("content", [b"", b"no database", None], ids=["just begun", "damaged", "torn JSON"])
def test_a_ledger_that_cannot_be_read_is_named(aoi, tmp_path, command, content):
    path = tmp_path / "runs" / "mine" / "ledger.sqlite"
    path.parent.mkdir(parents=True)
    if content is None:
        Ledger(path).close()
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO run VALUES ('status', '{')")
            db.commit()
    else:
        path.write_bytes(content)
    status, out, err = aoi(command, "mine")
    assert (status, out) == (2, "") and err.startswith("aoi: ledger is ") and err.count("\n") == 1
    assert "runs/mine/ledger.sqlite" in err and "from a copy" in err


@pytest.mark.parametrize(
    ("damage", "commands", "said"),
    [
        ("UPDATE rounds SET seconds = 'long'", "report clients", "rounds has 'long' in its column seconds"),
        ("DELETE FROM rounds WHERE round = 1", "report", "participations has round 1, which rounds lacks"),
        ("INSERT INTO run VALUES ('initial_loss', '[1]')", "report", "run has [1] as its initial_loss"),
        ("UPDATE participations SET client = -1", "report", "its clients go from -1 to"),
    ],
)
def test_damaged_content_is_named_too(aoi, tmp_path, damage, commands, said):
    path = tmp_path / "runs" / "mine" / "ledger.sqlite"
    path.parent.mkdir(parents=True)
    ledger = Ledger(path)
    for t in (1, 2):
        ledger.add_round(RoundRecord(t, 1.0, 2.0, participations=[Participation(0, "pi", "trained", weight=1.0)]))
    ledger.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(damage)
        db.commit()
    for command in commands.split():
        status, out, err = aoi(command, "mine")
        assert (status, out) == (2, "") and err.count("\n") == 1 and f"({said}" in err


def test_a_port_that_is_none_is_refused(aoi):
    status, _, err = aoi("serve", "mine", "--port", "99999")
    assert status == 2 and "99999" in err and "65535" in err


def test_a_waiting_page_names_similar_runs(tmp_path):
    (tmp_path / "runs/markov").mkdir(parents=True)
    (tmp_path / "runs/markov/ledger.sqlite").write_bytes(b"")
    command = [sys.executable, "-m", "aoi_fl.cli.start", "serve", "markof", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as page:
        try:
            said = page.stderr.readline()
        finally:
            page.terminate()
    assert said == "There is no run markof yet: the page waits for it. Did you mean 'markov'?\n"


def test_quiet_leaves_results(aoi):
    status, out, err = aoi("run", *SMALL, "-crun-name=r", "--quiet")
    assert (status, err) == (0, "") and "completed" in out
    assert aoi("resume", "r", "-q", "-v")[0] == 2


def test_either_less_or_more_is_logged():
    with refused("--quiet", "given"):
        log.configure(quiet=True, verbose=True)


def test_a_collector_of_logs_gets_a_json_object_a_line(aoi):
    status, _, err = aoi("run", *SMALL, "-clog-format=json", "-crun-name=told")
    assert status == 0
    lines = [json.loads(line) for line in err.splitlines()]
    assert {line["run"] for line in lines} == {"told"} and {line["level"] for line in lines} == {"info"}
    rounds = [line["round"] for line in lines if "round" in line]
    assert [row["round"] for row in rounds] == [1, 2] and all(0 < row["test_accuracy"] <= 1 for row in rounds)
    assert all("participations" not in row for row in rounds)
