"""The live report of a run: read from the ledger, and sent again only after a new round.

The page asks every second with the version that it shows, and is mostly answered with nothing. What has changed is put
into the page in place, so that scroll position, opened tables and zoomed charts stay as they are.
"""

import hashlib
import html
import json
import threading
import time
from pathlib import Path
from typing import Any

from aoi_fl.report import metrics, page
from aoi_fl.report.corruption import said, shown
from aoi_fl.report.figures import figures
from aoi_fl.report.runs import find, load
from aoi_fl.report.state import status
from aoi_fl.report.summary_card import Glance, glance
from aoi_fl.science.errors import AoiError, ConfigError
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import DAMAGE, progress, read_run

# A new version may be made when the last one is this many times as old as it took to make: a sixth of a core at most.
_REST = 5.0

Mark = tuple[Any, ...]


class Live:
    """The page's content, made again when the ledger has something new and only then.

    Parameters
    ----------
    run : a run's folder, or its name under ``runs``; it may not be there yet, and may be a link that moves on
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._mark: Mark | None = None
        self._body, self._version = b"", ""
        self._rested = 0.0

    def content(self, seen: str) -> tuple[str, bytes] | None:
        """Return the version and the JSON of what to show, or None if that is what has been ``seen``."""
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
        """Return what is to be seen of it from afar."""
        return glance(self._folder)

    def metrics(self) -> bytes:
        """Return its numbers in Prometheus' text format."""
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
            return (str(path), f"{said(error)}.")

    def _make(self, mark: Mark) -> bytes:
        folder = self._folder
        if len(mark) == 1 or (len(mark) == 2 and "no such table" in mark[1]):
            return _said(folder.name, f"Waiting for the run {self._run}: it has no ledger yet.")
        if len(mark) == 2:
            return _said(folder.name, f"The ledger in {folder} cannot be read: {mark[1]}")
        try:
            with shown(folder.name):
                runs = [load(folder, folder.name)]
                if not runs[0].rounds and not runs[0].config and not runs[0].policy:
                    return _said(folder.name, f"Waiting for the run {folder.name}: it has not begun yet.")
                charts = figures(runs)
                for chart in charts:
                    chart.layout["uirevision"] = "live"  # a reader's zoom stays
                return _packed(page.title(runs), page.main(runs, charts), page.drawings(charts))
        except AoiError as error:  # it is damaged, went away, or is being made anew, since it was looked at
            return _said(folder.name, str(error))


def _said(name: str, text: str) -> bytes:
    return _packed(name, f"<h1>{html.escape(name)}</h1><p>{html.escape(text)}</p>", [])


def _packed(title: str, main: str, charts: list[dict[str, Any]]) -> bytes:
    return json.dumps({"title": title, "main": main, "charts": charts}, allow_nan=False, separators=(",", ":")).encode()
