"""A progress bar for slow commands."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a progress bar and the time on stderr if the block takes more than two seconds.

    Both stdout and stderr must be terminals, even with ``FORCE_COLOR``.
    """
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(what, total=None)
    timer = threading.Timer(PATIENCE, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # else it might start now and never stop
        progress.stop()
