"""The cluster tests need a Docker engine and minutes: they run when they are asked for, with `make e2e`.

A cluster alone keeps two cores busy, so one is played at a time. With AOI_E2E_FLOWER=newest the clusters run the newest
Flower over HTTP.
"""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import NEWEST, Cluster, engine_problem


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of this checkout, and gone afterwards with everything it kept."""
    problem = engine_problem()
    if problem:
        pytest.fail(f"these tests need a Docker engine with Compose, and there is none: {problem}", pytrace=False)
    made = Cluster(f"aoi-e2e{'-http' * NEWEST}", AOI_PAGE_PORT=os.environ.get("AOI_E2E_PORT", "8059"))
    try:
        made.down()  # what an interrupted session left
        made.compose("build", timeout=600)
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module", autouse=True)
def _settled(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    """Begin without the containers, keys and runs of the file before this one, unless the file goes on with them."""
    if not getattr(request.module, "GOES_ON", False):
        cluster.down()
