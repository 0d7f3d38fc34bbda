"""The web application of ``aoi serve``: a run's live page and wall view, or a list of runs."""

import gzip
import hashlib
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Header, HTTPException, Query, Response
from starlette.middleware.gzip import GZipMiddleware

from aoi_fl.report import metrics, page
from aoi_fl.report.guard import MOST_BYTES, Guard
from aoi_fl.report.live import Live
from aoi_fl.report.runs import comparison, load_all, readable
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

    def places(self) -> dict[str, Path]:
        """Return the folders with a ledger by their names, without hidden ones; the last change first."""
        folders = [ledger.parent for ledger in self.folder.glob(f"[!.]*/{LEDGER}")]  # a cluster's .current is a link
        return {readable(folder.name): folder for folder in sorted(folders, key=_written, reverse=True)[:_MOST_RUNS]}

    def glances(self) -> list[Glance]:
        """Return a summary of each run."""
        for name, folder in (places := self.places()).items():
            written = _written(folder)
            when, seen = self._seen.get(name, (None, None))
            if seen is None or when != written or seen.state.name in ("running", "stalled", "waiting"):
                self._seen[name] = (written, replace(glance(folder), name=name, run=None))
        return [self._seen[name][1] for name in places]

    def comparisons(self) -> list[Compared]:
        """Return the comparisons whose table and page lie beside the runs, the latest first."""
        seen, found = {run.name: run for run in self.glances()}, []
        for table in sorted(self.folder.glob("compare-*.csv"), key=_changed, reverse=True)[:_MOST_RUNS]:
            rows = comparison(table)
            runs = [seen[row["run"]] for row in rows if row["run"] in seen]
            settings = [*dict.fromkeys(row.get("setting", "") for row in rows)]
            policies = {run.policy for run in runs} - set(settings)
            title = f"{policies.pop()}: " if len(policies) == 1 and "" not in policies else ""
            if runs and table.with_suffix(".html").is_file():
                found.append(Compared(table.stem, title + " against ".join(settings), runs))
        return found

    def place(self, name: str) -> Path:
        """Return the folder of a listed run; open nothing for another name."""
        if name not in (places := self.places()):
            raise HTTPException(404, "there is no run of that name")
        return places[name]

    def live(self, name: str) -> Live:
        """Return a run's live page."""
        if name not in self._lives:
            self._lives[name] = Live(str(self.place(name)))
        return self._lives[name]


def _written(folder: Path) -> float:
    return max(map(_changed, (folder / LEDGER, folder / f"{LEDGER}-wal")))


def _changed(file: Path) -> float:
    """Return the time of a file's last change; 0 for an empty one, which a reader may leave, and for none."""
    with suppress(FileNotFoundError):  # the last process that closes a ledger removes its log
        found = file.stat()
        return found.st_mtime if found.st_size else 0.0
    return 0.0


def application(run: str | None) -> FastAPI:
    """Return the web application of a run or, without one, of the list of runs under ``runs``."""
    app = FastAPI(openapi_url=None)  # without the pages that load scripts from other servers
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=3)
    _add_script(app, "plotly.js", gzip.decompress(plotly()))
    for name, parts in {"live.js": ("draw.js", "keys.js", "live.js"), "follow.js": ("follow.js",)}.items():
        _add_script(app, name, "".join(map(fill, parts)).encode())

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


def _add_script(app: FastAPI, name: str, content: bytes) -> None:
    """Serve a script that a browser keeps while it is the same."""
    tag = f'W/"{hashlib.blake2b(content, digest_size=8).hexdigest()}"'
    kept = {"Cache-Control": "no-cache", "ETag": tag}

    @app.get(f"/{name}")
    def script(if_none_match: Annotated[str, Header()] = "") -> Response:
        if if_none_match == tag:
            return Response(status_code=304, headers=kept)
        return _response(content, "text/javascript", kept)


def _add_list(app: FastAPI, runs: RunList) -> None:
    @app.get("/compare")
    def compare(run: Annotated[list[str], Query(min_length=1, max_length=_MOST_COMPARED)]) -> Response:
        try:
            return _response(page.render(load_all(map(runs.place, run))), "text/html")
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
        current = runs.folder / ".current"  # a cluster's link to its newest run
        shown = current if current.is_symlink() else next(iter(runs.places().values()), current)
        return _response(metrics.exposition(shown.resolve()), metrics.FORMAT)


def _add_run(app: FastAPI, at: str, find: Callable[[str], Live], *, listed: bool) -> None:
    @app.get(f"{at}/")
    def shell(name: str = "") -> Response:
        find(name)
        return _page("live.html", listed=listed)

    @app.get(f"{at}/content")
    def content(name: str = "", seen: str = "") -> Response:
        run, new = find(name).content(seen)
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
        return _response(fill("wall.html", run=glance(find(name).folder)), "text/html")

    @app.get(f"{at}/metrics")
    def scrape(name: str = "") -> Response:
        return _response(metrics.exposition(find(name).folder), metrics.FORMAT)


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
