"""A command in a process of its own, whole runs, and one that was cut."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from aoi_fl.server.observe import Recorder
from tests.processes import FORK
from tests.server.interrupted import arguments_of, configuration, recorded, run_here, signalled, write_to


@pytest.fixture(scope="session")
def start(tmp_path_factory, whole):
    """Start the ``aoi`` command in a process of its own, which writes to ``process.output``."""
    outputs = tmp_path_factory.mktemp("outputs")
    whole("poll")  # a process forked from this one need not import

    def begin(*arguments, script="from aoi_fl.cli.main import main; main()"):
        output = outputs / f"{len(os.listdir(outputs))}.txt"
        process = FORK.Process(target=_run, args=(output, ["aoi", *arguments], script))
        process.start()
        process.output = output
        return process

    return begin


def _run(output, arguments, script):
    write_to(output)
    sys.argv = arguments
    exec(script, {"__name__": "aoi_in_a_process"})


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Return uninterrupted runs by policy, each played once."""
    done = {}

    def get(policy, **more):
        key = (policy, *more.items())
        if key not in done:
            done[key] = run_here(configuration(policy, tmp_path_factory.mktemp("whole"), "whole", **more))
        return done[key]

    return get


@pytest.fixture(scope="session")
def cut(start, tmp_path_factory):
    """Return a run that was killed after five rounds, to be copied and damaged."""
    folder = tmp_path_factory.mktemp("cut") / "cut"
    start(*arguments_of(configuration("poll", folder.parent, "cut")), script=signalled("committed", 5)).join()
    assert recorded(folder) == 5
    return folder


@pytest.fixture
def cut_after(monkeypatch):
    """Return a context in which a run is interrupted once a round is in the ledger, before any tool hears of it."""

    @contextmanager
    def context(round_):
        done = Recorder.round_done

        def interrupted(self, record, arrays, memory):
            done(self, record, arrays, memory)
            if record.round == round_:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Recorder, "round_done", interrupted)
            yield

    return context


@pytest.fixture
def copy(cut, tmp_path):
    return Path(shutil.copytree(cut, tmp_path / "cut"))
