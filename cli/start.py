"""Entry point of the ``aoi`` command; Ctrl-C during its imports shows no traceback."""

import signal
import sys


def main() -> None:
    """Import the command and run it."""
    for stream in (sys.stdout, sys.stderr):  # replace characters that the terminal lacks
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="replace")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends the process at once
    from aoi_fl.cli import main as command
    from aoi_fl.cli.interrupt import outside_imports

    try:
        signal.signal(signal.SIGINT, outside_imports(signal.default_int_handler))
        command.main()
    except KeyboardInterrupt:  # no run has started
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
