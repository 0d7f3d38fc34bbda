"""What every test starts from."""

import gc
import json
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from aoi_fl.cli.main import main
from aoi_fl.flower import messages

# A busy machine is slow, not wrong.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

messages.identify()  # tests make messages outside of any run

# A disk takes milliseconds to replace a file, and clients replace their state in each round.
if Path("/dev/shm").is_dir() and shutil.disk_usage("/dev/shm").free > 8 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Begin each worker's share with long tests, so that none of them runs alone in the end."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.get_closest_marker("long") or item.get_closest_marker("ray")]
    first = set(long)
    rest = [item for item in items if item not in first]
    share = -(-len(rest) // workers)
    items[:] = [item for w in range(workers) for item in (*long[w::workers], *rest[w * share : (w + 1) * share])]


def pytest_collection_finish(session):
    """Take what lives to the end, libraries and tests, out of garbage collection: Flower collects in each round."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unhurried_disk():
    """Spare the disk: of what this process writes, nothing has to outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True)
def flower_logger():
    """Flower's logger as it is after import: libraries that configure logging switch existing loggers off."""
    logger = logging.getLogger("flwr")
    logger.disabled, logger.propagate = False, True
    logger.setLevel(logging.INFO)
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory):
    """Forget the modules that a test wrote: the next one may write others of the same names."""
    known = len(sys.modules)
    yield
    for name in list(sys.modules)[known:]:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]


@pytest.fixture
def aoi(monkeypatch, capfd, tmp_path):
    """Return a function that runs a line of the command in this process, in an empty folder: status, output, errors."""
    monkeypatch.chdir(tmp_path)

    def call(line: str, *more: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["aoi", *line.split(), *more])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = 0 if end.code is None else end.code
        return status, *capfd.readouterr()

    return call


@pytest.fixture
def told(aoi):
    """Return a function that runs a line of the command with --json, and returns the object that it prints."""

    def call(line: str, *more: str) -> object:
        status, out, err = aoi(line, *more, "--json")
        assert status == 0, err
        return json.loads(out)

    return call


@pytest.fixture
def refusal(aoi):
    """Return a function that runs a line of the command, which is refused, and returns the message."""

    def call(line: str, *more: str) -> str:
        status, out, err = aoi(line, *more)
        assert (status, out) == (2, "") and "Traceback" not in err, err
        return " ".join(err.split())

    return call
