"""The log of a process: Flower's own, so that its lines and ours stand in one."""

import logging

logger = logging.getLogger("flwr")
