"""Flower's simulation as a black box: a small foreign app is run, fails, is interrupted, and leaves nothing behind."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aoi_fl.engine import superlink
from aoi_fl.engine.ray_run import run_simulation
from aoi_fl.science.errors import AoiError
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
ECHO = Path(__file__).parents[1] / "apps" / "echo"
HARD = "both ' and \" quotes, = signs, \\, a\ttab, a\nnew line, é 😀"


def shown(lines: list[str], name: str) -> list[dict]:
    """Return what the app printed under this name."""
    return [json.loads(line.removeprefix(name)) for line in lines if line.startswith(name + " ")]


def traces(home: str) -> list[str]:
    """Return every process that speaks of this folder in its command line, its environment, or its working folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if home.encode() in text or os.readlink(process / "cwd").startswith(home):
                found.append(f"{process.name}: {text[:200]!r}")
        except OSError:
            continue
    return found


@pytest.fixture
def base(monkeypatch) -> Iterator[Path]:
    """Give a short, empty folder in which the simulations make their homes."""
    folder = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.ray
def test_two_runs_at_once_each_have_their_own_simulation(monkeypatch, tmp_path):
    monkeypatch.setenv("ECHO_MARK", "seen by all")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # somebody's cluster, to be left alone
    monkeypatch.chdir(tmp_path)
    good: list[str] = []
    bad: list[str] = []
    most: list[str] = []  # the most processes seen at work for the good run

    def watch(line: str) -> None:
        good.append(line)
        if line.startswith("ANSWER"):
            most[:] = max(most, traces(shown(good, "SERVER")[0]["home"]), key=len)

    with ThreadPoolExecutor() as pool:
        config = {"nodes": 4, "word": HARD, "loud": True, "volume": 1e-5}
        first = pool.submit(run_simulation, ECHO, config, nodes=4, on_line=watch, timeout=400)
        config = {"fail": "the echo died away", "word": "other"}
        second = pool.submit(run_simulation, ECHO, config, nodes=2, on_line=bad.append, timeout=400)
        result, failure = first.result(), second.result()

    assert (result.status, result.details) == ("completed", ""), result.log
    assert result.completed and result.run_id > 0 and 1 < result.seconds < 400
    assert shown(good, "CONFIG")[0].items() >= {"word": HARD, "loud": True, "volume": 1e-5, "fail": ""}.items()
    answers = shown(good, "ANSWER")
    assert sorted(answer["partition"] for answer in answers) == [0, 1, 2, 3]
    assert {answer["word"] for answer in answers} == {HARD}
    server = shown(good, "SERVER")[0]
    assert {(a["folder"], a["mark"]) for a in [*answers, server]} == {(str(tmp_path), "seen by all")}
    assert result.log.splitlines() == good[-200:]

    assert failure.status == "failed" and not failure.completed
    assert "the echo died away" in failure.details
    assert [answer["word"] for answer in shown(bad, "ANSWER")] == ["other", "other"]

    homes = [server["home"], shown(bad, "SERVER")[0]["home"]]
    assert homes[0] != homes[1]
    assert len(most) >= 5  # SuperLink, its executor, the ServerApp, Ray's servers and workers: the search finds them
    assert [traces(home) for home in homes] == [[], []]
    assert not any(Path(home).exists() for home in homes)


@pytest.mark.slow
@pytest.mark.ray
def test_runs_that_are_broken_off_leave_nothing(base):
    interrupted: list[str] = []
    late: list[str] = []

    def interrupt(line: str) -> None:
        interrupted.append(line)
        if line.startswith("SERVER"):
            time.sleep(1.5)  # Ray is on its way up
            raise KeyboardInterrupt

    with ThreadPoolExecutor() as pool:
        first = pool.submit(run_simulation, ECHO, {}, nodes=2, on_line=interrupt)
        # Three nodes will never come.
        second = pool.submit(run_simulation, ECHO, {"nodes": 3}, nodes=2, on_line=late.append, timeout=15)
        assert isinstance(first.exception(), KeyboardInterrupt)
        result = second.result()

    assert result.status == "timed-out" and "timeout" in result.details
    assert 15 <= result.seconds < 100
    assert traces(str(base)) == []
    assert list(base.iterdir()) == []


@pytest.mark.slow
@pytest.mark.ray
def test_a_start_of_ray_that_failed_is_tried_once_more(base, monkeypatch):
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", "no JSON")  # a way to break Ray's start, though not one that mends
    lines: list[str] = []
    result = run_simulation(ECHO, {}, nodes=2, on_line=lines.append, timeout=400)
    assert result.status == "failed"
    assert len(shown(lines, "CONFIG")) == 2
    assert sum("once more" in line for line in lines) == 1


def test_a_superlink_that_does_not_start_says_why(base, monkeypatch):
    monkeypatch.setattr(superlink, "_LAUNCHER", "print('no such port'); raise SystemExit(3)")
    with pytest.raises(AoiError, match=r"did not start[^$]*no such port"):
        run_simulation(ECHO, {}, nodes=2)
    assert list(base.iterdir()) == []


@pytest.mark.slow
@pytest.mark.ray
def test_a_run_whose_caller_was_killed_ends(base):
    code = f"""
import os
from pathlib import Path
from aoi_fl.engine.ray_run import run_simulation
run_simulation(Path({str(ECHO)!r}), {{}}, nodes=2, on_line=lambda line: "SERVER" in line and os.kill(os.getpid(), 9))
"""
    caller = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"TMPDIR": str(base)})
    assert caller.returncode == -9
    deadline = time.monotonic() + 20
    while (traces(str(base)) or list(base.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert traces(str(base)) == []
    assert list(base.iterdir()) == []


@pytest.mark.parametrize(
    ("app", "config", "nodes", "fields"),
    [
        (ECHO, {"wrod": "x"}, 2, ("run configuration", "wrod", "word")),
        (ECHO, {}, 0, ("nodes", 0, "1")),
        (ECHO.parent, {}, 2, ("app", str(ECHO.parent), "pyproject.toml")),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(app, config, nodes, fields, monkeypatch):
    monkeypatch.setattr(superlink, "_LAUNCHER", "raise SystemExit('must not start')")
    with refused(*fields):
        run_simulation(app, config, nodes=nodes)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused("ray"):
        run_simulation(ECHO, {}, nodes=2)
