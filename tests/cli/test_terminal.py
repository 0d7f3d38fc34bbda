"""What the command says of itself, where it says it, and in what colours."""

import io
import sys
import tomllib

import pytest

import aoi_fl
from aoi_fl.cli import log
from aoi_fl.cli.main import EXTRAS
from tests.processes import ROOT, python

SMALL = "run -cnum-clients=5 -cclients-per-round=2 -cmodel=lr -clocal-epochs=1 -cnum-server-rounds=2"


def test_version_and_short_help(aoi):
    assert aoi("--version") == (0, f"{aoi_fl.__version__}\n", "")
    status, out, _ = aoi("-h")
    assert status == 0 and out == aoi("--help")[1]
    assert aoi("run -h")[1] == aoi("run --help")[1]


def test_a_mistyped_command_is_answered_once(refusal):
    message = refusal("rum")
    assert message.lower().count("did you mean") == 1 and "'run'" in message


def test_a_missing_package_is_named_with_its_extra(tmp_path):
    code = "import sys; sys.modules['torch'] = None; from aoi_fl.cli.main import main; main()"
    done = python("-c", code, *SMALL.split(), cwd=tmp_path, status=2)
    assert not done.stdout
    assert "needs torch" in done.stderr and "pip install 'aoi-fl[train]'" in done.stderr


def test_an_extra_brings_what_is_said_to_be_in_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert EXTRAS.keys() >= {"torch", "jinja2"}
    for package, extra in EXTRAS.items():
        assert any(wanted.replace("-", "_").startswith(package) for wanted in extras[extra])


@pytest.mark.parametrize("piped", [None, "stdout", "stderr"])
def test_slow_work_is_announced_on_a_terminal(piped, monkeypatch):
    for name in ("stdout", "stderr"):
        stream = io.StringIO()
        stream.isatty = lambda name=name: name != piped
        monkeypatch.setattr(sys, name, stream)
    log.announce("simulating")
    assert bool(sys.stderr.getvalue()) == (piped is None) and not sys.stdout.getvalue()


@pytest.mark.parametrize("content", [b"", b"no database"], ids=["just begun", "damaged"])
def test_a_ledger_that_cannot_be_read_is_named(refusal, tmp_path, content):
    path = tmp_path / "runs/mine/ledger.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for command in ("report", "clients"):
        message = refusal(f"{command} mine")
        assert message.startswith("aoi: ledger is ") and "runs/mine/ledger.sqlite" in message


def test_quiet_leaves_results(aoi):
    status, out, err = aoi(f"{SMALL} -crun-name=r --quiet")
    assert (status, err) == (0, "") and "completed" in out
