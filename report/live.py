"""The live report of a run, made from the ledger after each new round.

The page polls every second with its version, and mostly gets an empty answer. Changes are applied in place, so scroll
position, open tables and zoomed charts stay.
"""

import hashlib
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from aoi_fl.report import page
from aoi_fl.report.corruption import legible
from aoi_fl.report.figures import figures
from aoi_fl.report.runs import find, load
from aoi_fl.report.summary_card import Glance, glance
from aoi_fl.report.template import fill
from aoi_fl.science.errors import AoiError
from aoi_fl.server.folder import LEDGER

# The ratio of a version's lifetime to the time to make it, at least; so the page needs at most a sixth of a core.
_REST = 5.0


class Live:
    """The page's content, made again only when the ledger has changed.

    Parameters
    ----------
    run : a run's folder, or its name under ``runs``; it may not exist yet, and may be a link that changes
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._mark: tuple[Any, ...] = ()
        self._sent = "", b""
        self._rested = 0.0

    def content(self, seen: str) -> tuple[Glance, tuple[str, bytes] | None]:
        """Return the run's summary, and the version and the content as JSON, or None if the version is ``seen``."""
        folder, file = self.folder, None
        now = glance(folder)
        with suppress(OSError):
            file = (folder / LEDGER).stat().st_ino  # another one, if a run was started again
        with self._lock:
            mark = (folder, file, now.state.name, now.round, now.run is None and now.state.detail)
            if mark != self._mark and (not self._sent[1] or time.monotonic() >= self._rested):
                begun = time.monotonic()
                body = _content(folder, now)
                self._sent, self._mark = (hashlib.sha256(body).hexdigest()[:16], body), mark
                self._rested = time.monotonic() + _REST * (time.monotonic() - begun)
            return now, None if seen == self._sent[0] else self._sent

    @property
    def folder(self) -> Path:
        """The run's folder at present."""
        return find(self._run).resolve()


def _content(folder: Path, now: Glance) -> bytes:
    name, detail = folder.name, now.state.detail
    if now.state.name == "waiting":
        return _message(name, f"Waiting for the run {name}: {detail}.")
    if now.run is None:
        return _message(name, f"The ledger in {folder} cannot be read: {detail}.")
    try:
        with legible(name):
            runs = [load(folder, name)]
            charts = figures(runs)
            for chart in charts:
                chart.layout["uirevision"] = "live"  # it keeps the reader's zoom
            shown = {"title": page.title(runs), "main": page.main(runs, charts), "charts": page.drawings(charts)}
            return page.to_json(shown)
    except AoiError as error:  # the ledger was damaged, removed or replaced meanwhile
        return _message(name, str(error))


def _message(name: str, text: str) -> bytes:
    return page.to_json({"title": name, "main": fill("message.html", title=name, text=text), "charts": []})
