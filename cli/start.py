"""Entry of the ``aoi`` command, which imports next to nothing: Ctrl-C while the rest is imported is no traceback."""

import signal
import sys


def main() -> None:
    """Import the command and run it."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks a character shows another in its place
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="replace")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends the process there and then
    from aoi_fl.cli import main as command
    from aoi_fl.cli.interrupt import outside_imports

    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGINT, outside_imports(interrupt))
        command.main()
    except KeyboardInterrupt:  # before it is ready to say what was interrupted
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
