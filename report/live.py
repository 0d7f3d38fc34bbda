"""The live report of a run, made from the ledger after each new round.

The page polls every second with its version, and mostly gets an empty answer. Changes are applied in place, so scroll
position, open tables and zoomed charts stay.
"""

import hashlib
import html
import json
import threading
import time
from pathlib import Path
from typing import Any

from aoi_fl.report import metrics, page
from aoi_fl.report.corruption import error_line, legible
from aoi_fl.report.figures import figures
from aoi_fl.report.runs import find, load
from aoi_fl.report.state import status
from aoi_fl.report.summary_card import Glance, glance
from aoi_fl.science.errors import AoiError, ConfigError
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import DAMAGE, progress, read_run

# The ratio of a version's lifetime to the time to make it, at least; so the page needs at most a sixth of a core.
_REST = 5.0

Mark = tuple[Any, ...]


class Live:
    """The page's content, made again only when the ledger has changed.

    Parameters
    ----------
    run : a run's folder, or its name under ``runs``; it may not exist yet, and may be a link that changes
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._mark: Mark | None = None
        self._body, self._version = b"", ""
        self._rested = 0.0

    def content(self, seen: str) -> tuple[str, bytes] | None:
        """Return the version and the content as JSON, or None if the version is ``seen``."""
        with self._lock:
            mark = self._look()
            if mark != self._mark and (not self._body or time.monotonic() >= self._rested):
                begun = time.monotonic()
                self._body = self._make(mark)
                self._version = hashlib.sha256(self._body).hexdigest()[:16]
                self._mark = mark
                self._rested = time.monotonic() + _REST * (time.monotonic() - begun)
            return None if seen == self._version else (self._version, self._body)

    def glance(self) -> Glance:
        """Return the run's summary for the wall."""
        return glance(self._folder)

    def metrics(self) -> bytes:
        """Return the run's numbers in Prometheus' text format."""
        return metrics.exposition(self._run)

    @property
    def _folder(self) -> Path:
        return find(self._run).resolve()

    def _look(self) -> Mark:
        """Return the version of a ledger: its file, its number of rounds, and the status."""
        path = self._folder / LEDGER
        try:
            which = path.stat().st_ino
            return (str(path), which, *progress(path), status(path.parent, read_run(path)))
        except (FileNotFoundError, ConfigError):
            return (str(path),)
        except (OSError, *DAMAGE) as error:
            return (str(path), f"{error_line(error)}.")

    def _make(self, mark: Mark) -> bytes:
        folder = self._folder
        if len(mark) == 1 or (len(mark) == 2 and "no such table" in mark[1]):
            return _message(folder.name, f"Waiting for the run {self._run}: it has no ledger yet.")
        if len(mark) == 2:
            return _message(folder.name, f"The ledger in {folder} cannot be read: {mark[1]}")
        try:
            with legible(folder.name):
                runs = [load(folder, folder.name)]
                if not runs[0].rounds and not runs[0].config and not runs[0].policy:
                    return _message(folder.name, f"Waiting for the run {folder.name}: it has not begun yet.")
                charts = figures(runs)
                for chart in charts:
                    chart.layout["uirevision"] = "live"  # it keeps the reader's zoom
                return _packed(page.title(runs), page.main(runs, charts), page.drawings(charts))
        except AoiError as error:  # the ledger was damaged, removed or replaced meanwhile
            return _message(folder.name, str(error))


def _message(name: str, text: str) -> bytes:
    return _packed(name, f"<h1>{html.escape(name)}</h1><p>{html.escape(text)}</p>", [])


def _packed(title: str, main: str, charts: list[dict[str, Any]]) -> bytes:
    return json.dumps({"title": title, "main": main, "charts": charts}, allow_nan=False, separators=(",", ":")).encode()
