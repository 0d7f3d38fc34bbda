"""Serve the report page of the run that goes on now, on the port that compose.yaml publishes on 127.0.0.1.

A request makes the page anew if the ledger has grown since, and the browser asks again every few seconds.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from report import page
from server.folder import LEDGER

CURRENT = Path("/runs/.current")
PORT, REFRESH = 8050, 5  # seconds
_WAITING = "<!doctype html><title>AoI-FL</title><p>No round has been recorded yet."


class Page:
    """The page of the current run, made again only when there is something new."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[str, int] | None = None
        self._html = _WAITING

    def html(self) -> str:
        """Return the page as it is now."""
        with self._lock:
            folder = CURRENT.resolve()
            try:
                stamp = folder.name, max(f.stat().st_mtime_ns for f in folder.glob(f"{LEDGER}*"))
            except ValueError:  # no ledger yet
                return _WAITING
            if stamp != self._made:
                try:
                    self._html = page.write([str(folder)], folder / "report.html").read_text("utf-8")
                    self._made = stamp
                except (ValueError, LookupError):  # a run before its first round has nothing to show
                    return _WAITING
            return self._html


PAGE = Page()


class Handler(BaseHTTPRequestHandler):
    """Answers every GET with the page."""

    def do_GET(self) -> None:
        """Send the page."""
        body = PAGE.html().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Refresh", str(REFRESH))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
