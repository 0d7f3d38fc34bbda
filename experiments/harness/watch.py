"""What is known of a unit while it is played: how far it is, from the ledger, and the core time spent before a kill."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aoi_fl.science.errors import AoiError

_LOOK = 1.0  # seconds between two looks at the ledger
_SPENT = "core-seconds"  # file in a run's folder

Report = Callable[[int, int, str], None]


class Watch:
    """The watch over one unit.

    Parameters
    ----------
    report : called with (done, of how many, of what: rounds or simulated seconds) when a round has been added, from
        another thread

    Attributes
    ----------
    earlier : seconds of one core that processes before this one spent on the unit's run
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._started = time.process_time()
        self.earlier = 0.0
        self._told = float("-inf")

    @property
    def seconds(self) -> float:
        """Seconds of one core that the unit has taken so far, those of processes that were killed included."""
        return self.earlier + time.process_time() - self._started

    def tell(self, done: int, rounds: int) -> None:
        """Report that so many rounds are done, at most once a second."""
        if time.monotonic() - self._told >= _LOOK:
            self._told = time.monotonic()
            self._report(done, rounds, "round")

    @contextlib.contextmanager
    def over(self, ledger: Path, rounds: int, until: float | None = None) -> Iterator[None]:
        """Report a run's rounds while the block plays them, and keep beside the ledger what they cost.

        A run that ends after so many simulated seconds, ``until``, is as far as its clock.

        A process that is killed loses a second of its account, at most, and whatever it had not written down.
        """
        spent = ledger.with_name(_SPENT)
        with contextlib.suppress(OSError, ValueError):
            self.earlier += float(spent.read_text(encoding="utf-8"))
        ended = threading.Event()
        watcher = threading.Thread(target=self._look, args=(ledger, rounds, until, spent, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            self._keep(spent)

    def _look(self, ledger: Path, rounds: int, until: float | None, spent: Path, ended: threading.Event) -> None:
        seen = -1
        while not ended.wait(_LOOK):
            done, clock = reached(ledger)
            if done != seen:
                if until is None:
                    self._report(done, rounds, "round")
                else:
                    self._report(int(min(clock, until)), int(until), "second")
                seen = done
            self._keep(spent)

    def _keep(self, spent: Path) -> None:
        """Write the account aside and rename it; it is no result, so a full disk does not stop the run here."""
        aside = spent.with_name(f".{spent.name}")
        with contextlib.suppress(OSError):
            aside.write_text(f"{self.seconds:.3f}\n", encoding="utf-8")
            aside.replace(spent)


def reached(ledger: Path) -> tuple[int, float]:
    """Return how many rounds a ledger holds, and the simulated second of the last; 0 if it cannot be read yet."""
    import sqlite3

    from aoi_fl.server.ledger import last_rounds

    try:
        last = last_rounds(ledger, 1)
    except (AoiError, sqlite3.Error):
        return 0, 0.0
    return (last[0]["round"], last[0]["clock"] or 0.0) if last else (0, 0.0)
