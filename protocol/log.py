"""The log of a process: Flower's own, so that all lines are in one."""

import logging

logger = logging.getLogger("flwr")
