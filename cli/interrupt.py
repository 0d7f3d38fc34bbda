"""Handle Ctrl-C and SIGTERM: the run ends, and a line shows how to resume it."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_AGAIN, _TRIES = 0.05, 100  # seconds until a signal during an import is repeated, and how often


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM; no client can raise this, as with Ctrl-C."""


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """End the block, a run, at Ctrl-C or SIGTERM with a message and status 130 or 143.

    A second signal, while the run ends, has no effect. Outside the main thread, which alone can handle signals, a
    SIGTERM ends the process.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT) if main else ()
    before = {number: signal.signal(number, outside_imports(ask)) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as request:
        print(f"\naoi: interrupted{_way_on(folder)}", file=sys.stderr, flush=True)
        sys.exit(128 + (signal.SIGTERM if isinstance(request, Terminated) else signal.SIGINT))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def outside_imports(act: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
    """Return a handler that waits for the end of an interrupted import, at most five seconds.

    During an import of torch, an exception in C++ code can abort the process.
    """
    tries = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal tries
        if tries < _TRIES and _imports(frame):
            tries += 1
            again = threading.Timer(_AGAIN, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
        else:
            tries = 0
            act(number, frame)

    return handle


def _imports(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _way_on(folder: Path) -> str:
    """Return the rest of the message: a run's last round and the command that resumes it."""
    from aoi_fl.science.errors import ResumeError
    from aoi_fl.server.folder import LEDGER
    from aoi_fl.server.ledger import planned, read, resume_command
    from aoi_fl.server.resume import recorded_run

    try:
        about = recorded_run(folder)
    except ResumeError:
        return " before anything was recorded: give the same command again."
    done, rounds = len(read(folder / LEDGER, "rounds")), planned(about["config"])
    of = "" if rounds is None else f" of {rounds}"
    return f" after round {done}{of}. Go on with: {resume_command(folder)}"
