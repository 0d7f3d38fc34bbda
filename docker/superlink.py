"""Flower's SuperLink with its options, ``python -m aoi_fl.docker.superlink``.

It uses one database connection and plain SQL, caches frequent queries, queues more calls, has fewer threads, logs no
looks, and refuses harmful replies. From Flower 1.40 on it has one port, and a short way for frequent calls. There
``--inner-host HOST`` names this machine's address at which the SuperLink answers commands and ServerApps. At other
addresses it answers clients only.
"""

import argparse
import socket
import sys
from importlib.metadata import entry_points

from aoi_fl.flower.doors import close_doors
from aoi_fl.flower.lane import shorten_calls
from aoi_fl.flower.link_state import speak_plainly
from aoi_fl.flower.superexec import stamp_lines
from aoi_fl.flower.superlink import (
    connect_once,
    keep_answers,
    let_calls_wait,
    log_no_looks,
    read_once,
    refuse_strange_replies,
    use_few_threads,
)
from aoi_fl.flower.versions import check_deployable


def run_command(name: str) -> None:
    """Run one of Flower's commands in this process, with timestamps in its log."""
    stamp_lines()
    sys.argv[0] = name
    (command,) = entry_points(group="console_scripts", name=name)
    command.load()()


def main() -> None:
    """Run the SuperLink."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--inner-host")
    given, sys.argv[1:] = parser.parse_known_args()
    check_deployable()
    shorten_calls()
    if given.inner_host:
        close_doors(socket.gethostbyname(given.inner_host))
    connect_once()
    keep_answers()
    speak_plainly()
    read_once()
    let_calls_wait()
    use_few_threads()
    log_no_looks()
    refuse_strange_replies()
    run_command("flower-superlink")


if __name__ == "__main__":
    main()
