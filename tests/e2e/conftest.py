"""The cluster tests need a Docker engine and minutes: they run when they are asked for, with `make e2e`.

Most of their time is waiting, for deadlines and for sessions to lapse. So they run in two processes, each with a
cluster of its own; both share one image. With AOI_E2E_FLOWER=newest the clusters run the newest Flower over HTTP.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import NEWEST, Cluster, engine_problem

_FIRST_PORT = 8059  # of the pages


@pytest.fixture(scope="session")
def cluster(worker_id: str, testrun_uid: str) -> Iterator[Cluster]:
    """A cluster of this checkout, and gone afterwards with everything it kept."""
    problem = engine_problem()
    if problem:
        pytest.fail(f"these tests need a Docker engine with Compose, and there is none: {problem}", pytrace=False)
    number = int(worker_id.removeprefix("gw")) if worker_id.startswith("gw") else 0
    port = int(os.environ.get("AOI_E2E_PORT", _FIRST_PORT)) + number
    made = Cluster(f"aoi-e2e-{'http-' * NEWEST}{number}", AOI_PAGE_PORT=str(port))
    with open(Path(tempfile.gettempdir()) / f"aoi-e2e-{testrun_uid}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not lock.seek(0, os.SEEK_END):  # another image, even of the same layers, would renew the other's cluster
            made.compose("build", timeout=600)
            lock.write("built")
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module", autouse=True)
def _settled(cluster: Cluster) -> None:
    """Begin without the containers, keys and runs of the file before this one."""
    cluster.down()
