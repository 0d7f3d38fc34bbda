"""The web application of ``aoi serve``: a run's live page and wall view, or a list of runs."""

import csv
import gzip
import hashlib
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import quote

from fastapi import FastAPI, Header, HTTPException, Query, Response
from starlette.middleware.gzip import GZipMiddleware

from aoi_fl.report import metrics, page
from aoi_fl.report.guard import MOST_BYTES, Guard
from aoi_fl.report.live import Live
from aoi_fl.report.output import restored
from aoi_fl.report.runs import load_all, readable
from aoi_fl.report.state import RED
from aoi_fl.report.summary_card import Glance, glance
from aoi_fl.report.template import fill, plotly
from aoi_fl.science.errors import AoiError, ConfigError
from aoi_fl.server.folder import LEDGER

# The page may run this server's scripts and connect to this server only.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MOST_RUNS = 200
_MOST_COMPARED = 50
_Header: TypeAlias = Annotated[str, Header()]


@dataclass(frozen=True)
class Compared:
    """A comparison in the list: the name of its page, what it compares, and its runs."""

    stem: str
    title: str
    runs: list[Glance]


class RunList:
    """The runs in a folder, the latest first; ended runs are cached until their ledgers change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lives: dict[str, Live] = {}
        self._seen: dict[str, tuple[float, Glance]] = {}
        self._places: dict[str, Path] = {}

    def names(self) -> list[str]:
        """Return the names of runs with a ledger, by its last change."""
        return list(self._latest())

    def glances(self) -> list[Glance]:
        """Return a summary of each run."""
        return [self._glance(name, written) for name, written in self._latest().items()]

    def comparisons(self) -> list[Compared]:
        """Return the comparisons whose table and page lie beside the runs, the latest first."""
        seen, found = {run.name: run for run in self.glances()}, []
        tables = sorted(self.folder.glob("compare-*.csv"), key=_written_at, reverse=True)
        for table in tables[:_MOST_RUNS]:
            with suppress(OSError, ValueError, csv.Error, KeyError), table.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
                runs = [seen[name] for row in rows if (name := restored(row["run"])) in seen]
                settings = [*dict.fromkeys(restored(row["setting"]) for row in rows)]
                policies = {run.policy for run in runs} - set(settings)
                title = f"{policies.pop()}: " if len(policies) == 1 and "" not in policies else ""
                if runs and table.with_suffix(".html").is_file():
                    found.append(Compared(table.stem, title + " against ".join(settings), runs))
        return found

    def place(self, name: str) -> Path:
        """Return the folder of a listed run; open nothing for another name."""
        if name not in self.names():
            raise HTTPException(404, "there is no run of that name")
        return self._places[name]

    def live(self, name: str) -> Live:
        """Return a run's live page."""
        if name not in self._lives:
            self._lives[name] = Live(str(self.place(name)))
        return self._lives[name]

    def _latest(self) -> dict[str, float]:
        """Return names with their ledgers' last change, the latest first, without hidden folders."""
        folders = [ledger.parent for ledger in self.folder.glob(f"[!.]*/{LEDGER}")]  # a cluster's .current is a link
        self._places = {readable(folder.name): folder for folder in folders}
        written = {name: _written(folder) for name, folder in self._places.items()}
        return dict(sorted(written.items(), key=lambda item: -item[1])[:_MOST_RUNS])

    def _glance(self, name: str, written: float) -> Glance:
        when, seen = self._seen.get(name, (None, None))
        if seen is None or when != written or seen.state.name in ("running", "stalled", "waiting"):
            seen = replace(glance(self._places[name]), name=name)
            self._seen[name] = (written, seen)
        return seen


def _written_at(file: Path) -> float:
    return file.stat().st_mtime if file.is_file() else 0.0


def _written(folder: Path) -> float:
    latest = 0.0
    for name in (LEDGER, f"{LEDGER}-wal"):
        with suppress(FileNotFoundError):  # the last process that closes the ledger removes it
            file = (folder / name).stat()
            if file.st_size:  # a reader may leave an empty one
                latest = max(latest, file.st_mtime)
    return latest


def application(run: str | None) -> FastAPI:
    """Return the web application of a run or, without one, of the list of runs under ``runs``."""
    app = FastAPI(openapi_url=None)  # without the pages that load scripts from other servers
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=3)
    _add_script(app, "plotly.js", plotly())
    for name, parts in {"live.js": ("draw.js", "keys.js", "live.js"), "follow.js": ("follow.js",)}.items():
        _add_script(app, name, gzip.compress("".join(map(fill, parts)).encode(), mtime=0))

    @app.get("/healthz")
    def health() -> Response:
        return _response("ok\n", "text/plain")

    if run is None:
        runs = RunList(Path("runs"))
        _add_list(app, runs)
        _add_run(app, "/run/{name}", runs.live, listed=True)
    else:
        live = Live(run)
        _add_run(app, "", lambda _: live, listed=False)
    return app


def _add_script(app: FastAPI, name: str, packed: bytes) -> None:
    """Serve a gzipped script that a browser keeps while it is the same."""
    tag = f'"{hashlib.blake2b(packed, digest_size=8).hexdigest()}"'
    kept = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}

    @app.get(f"/{name}")
    def script(accept_encoding: _Header = "", if_none_match: _Header = "") -> Response:
        if if_none_match == tag:
            return Response(status_code=304, headers=kept)
        if "gzip" in accept_encoding:
            return _response(packed, "text/javascript", kept | {"Content-Encoding": "gzip"})
        return _response(gzip.decompress(packed), "text/javascript", kept)


def _add_list(app: FastAPI, runs: RunList) -> None:
    @app.get("/compare")
    def compare(run: Annotated[list[str], Query(min_length=1, max_length=_MOST_COMPARED)]) -> Response:
        try:
            return _response(page.render(load_all([str(runs.place(name)) for name in run])), "text/html")
        except AoiError as error:
            raise HTTPException(409, str(error)) from error

    @app.get("/")
    def start() -> Response:
        return _page("follow.html", view="start", source="list")

    @app.get("/list")
    def content() -> Response:
        compared = runs.comparisons()
        listed = {run.name for one in compared for run in one.runs}
        alone = [run for run in runs.glances() if run.name not in listed]
        return _response(fill("start.html", compared=compared, runs=alone, folder=runs.folder.name), "text/html")

    @app.get("/compared/{stem}")
    def compared(stem: str) -> Response:
        if stem not in [one.stem for one in runs.comparisons()]:
            raise HTTPException(404, "there is no comparison of that name")
        return _response((runs.folder / f"{stem}.html").read_bytes(), "text/html")

    @app.get("/metrics")
    def scrape() -> Response:
        current, names = runs.folder / ".current", runs.names()  # a cluster's link to its newest run
        shown = current if current.is_symlink() or not names else runs.place(names[0])
        return _response(metrics.exposition(str(shown)), metrics.FORMAT)


def _add_run(app: FastAPI, at: str, find: Callable[[str], Live], *, listed: bool) -> None:
    @app.get(f"{at}/")
    def shell(name: str = "") -> Response:
        find(name)
        return _page("live.html", listed=listed)

    @app.get(f"{at}/content")
    def content(name: str = "", seen: str = "") -> Response:
        live = find(name)
        new, run = live.content(seen), live.glance()
        headers = {
            "State": run.state.name,
            "Said": quote(run.state.sentence, errors="replace"),
            "Round": str(run.round),
            "Rounds": quote(str(run.rounds or ""), errors="replace"),
            "Left": run.left,
        }
        if new is None:
            return Response(status_code=204, headers={"Cache-Control": "no-store"} | headers)
        version, body = new
        return _response(body, "application/json", {"Version": version} | headers)

    @app.get(f"{at}/wall")
    def wall(name: str = "") -> Response:
        find(name)
        return _page("follow.html", view="wall", source="wall/content")

    @app.get(f"{at}/wall/content")
    def wall_content(name: str = "") -> Response:
        return _response(fill("wall.html", run=find(name).glance()), "text/html")

    @app.get(f"{at}/metrics")
    def scrape(name: str = "") -> Response:
        return _response(find(name).metrics(), metrics.FORMAT)


def _page(template: str, **values: object) -> Response:
    return _response(fill(template, red=(*RED, "lost"), **values), "text/html", {"Content-Security-Policy": _POLICY})


def _response(content: str | bytes, kind: str, headers: dict[str, str] | None = None) -> Response:
    fixed = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    if isinstance(content, str):
        content = content.encode(errors="replace")  # a folder's name may be invalid Unicode
    return Response(content, media_type=kind, headers=fixed | (headers or {}))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket for the page; port 0 takes a free port.

    Raises
    ------
    ConfigError : the address is not this machine's, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address, family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        remedy = "Choose another with --port (0 takes a free one), or an address of this machine with --host."
        raise ConfigError("--port", f"{host}:{port}", f"free on this machine ({error})", remedy) from error


def serve(run: str | None, listening: socket.socket, names: Sequence[str] = ()) -> None:
    """Serve a run's page, or the list of runs, until interrupted; ``names`` are host names."""
    import uvicorn

    from aoi_fl.report.slow import Prompt

    config = uvicorn.Config(
        Guard(application(run), names),
        http=Prompt,  # it limits the size of headers, and their time
        h11_max_incomplete_event_size=MOST_BYTES,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listening])
