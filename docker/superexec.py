"""Flower's SuperExec, ``aoi_fl.docker.superexec``, which shows the ServerApp's output."""

from aoi_fl.docker.superlink import run_command
from aoi_fl.flower.superexec import show_output


def main() -> None:
    """Run the SuperExec."""
    show_output()
    run_command("flower-superexec")


if __name__ == "__main__":
    main()
