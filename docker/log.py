"""Print the log of the newest run, which the SuperLink keeps: ``python -m aoi_fl.docker.log``."""

import sys

import grpc

from aoi_fl.docker.arrivals import AUTHORITY, CONTROL, say
from aoi_fl.docker.control import Control


def show(control: Control) -> int:
    """Print the newest run's log and return 0, or 2 where there is none."""
    runs = control.runs()
    if not runs:
        say("aoi: there is no run yet. Submit one with docker compose up.")
        return 2
    say(control.log(runs[-1].run_id).rstrip() or "the log of the run is empty")
    return 0


def main() -> None:
    """Print it; a silent SuperLink ends with status 2."""
    try:
        sys.exit(show(Control(CONTROL, AUTHORITY)))
    except grpc.RpcError:
        say(f"aoi: the SuperLink at {CONTROL} does not answer: see `docker compose logs superlink`, and ask again.")
        sys.exit(2)


if __name__ == "__main__":
    main()
