"""What every test starts from."""

import logging

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, not wrong.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(autouse=True)
def flower_logger():
    """Flower's logger as it is after import: libraries that configure logging switch existing loggers off."""
    logger = logging.getLogger("flwr")
    logger.disabled, logger.propagate = False, True
    logger.setLevel(logging.INFO)
    logging.disable(logging.NOTSET)
