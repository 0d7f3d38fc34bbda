"""Flower's SuperLink with its options, ``python -m aoi_fl.docker.superlink``.

It has one connection to its database, keeps for a second what each call asks it, lets more calls wait, and refuses
replies that would harm others.
"""

import sys
from importlib.metadata import entry_points

from aoi_fl.flower.superlink import connect_once, keep_answers, let_calls_wait, refuse_strange_replies

_COMMAND = "flower-superlink"


def main() -> None:
    """Run Flower's command in this process."""
    connect_once()
    keep_answers()
    let_calls_wait()
    refuse_strange_replies()
    sys.argv[0] = _COMMAND
    (command,) = entry_points(group="console_scripts", name=_COMMAND)
    command.load()()


if __name__ == "__main__":
    main()
