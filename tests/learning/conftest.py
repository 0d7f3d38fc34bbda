"""What tests of training share."""

import pytest

from aoi_fl.learning import sgd


@pytest.fixture
def one_thread():
    """Compute in one thread: sums depend on how many there are."""
    sgd.threads(1)
