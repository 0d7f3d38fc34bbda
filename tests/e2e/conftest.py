"""The cluster tests need a Docker engine and minutes: they run when they are asked for, with `make e2e`."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, engine_problem


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of this checkout, built, and gone afterwards with everything it kept."""
    problem = engine_problem()
    if problem:
        pytest.fail(f"these tests need a Docker engine with Compose, and there is none: {problem}", pytrace=False)
    made = Cluster("aoi-e2e", AOI_PAGE_PORT=os.environ.get("AOI_E2E_PORT", "8059"))
    made.down()
    made.compose("build", timeout=420)
    try:
        yield made
    finally:
        made.down()
