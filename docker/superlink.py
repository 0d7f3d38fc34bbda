"""Flower's SuperLink, with one connection to its database: ``python -m aoi_fl.docker.superlink``, with its options."""

import sys
from importlib.metadata import entry_points

from aoi_fl.flower.superlink import connect_once

_COMMAND = "flower-superlink"


def main() -> None:
    """Run Flower's command in this process."""
    connect_once()
    sys.argv[0] = _COMMAND
    (command,) = entry_points(group="console_scripts", name=_COMMAND)
    command.load()()


if __name__ == "__main__":
    main()
