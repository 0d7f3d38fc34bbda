"""A run of a Flower app in Flower's Ray simulation, isolated from every other on the host, followed and ended.

The run gets a SuperLink of its own (`aoi_fl.engine.superlink`). Flower's commands tell neither by their exit status nor
in the log whether a run failed, so the SuperLink is asked at the end.
"""

import importlib.util
import json
import queue
import re
import subprocess
import threading
import time
import tomllib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from aoi_fl.engine.superlink import CONNECTION, SuperLink
from aoi_fl.science.errors import ConfigError, install

_TAIL = 200  # lines of the log that a result keeps
_COMMAND = 120.0  # seconds that one of Flower's commands may take
_PRELUDE = re.compile(r"Using SuperLink: |Starting logstream for run_id")  # Flower's command line about itself
# The frame of Flower's start of Ray in a traceback. Ray sometimes fails there by being slow, and not a second time.
_RAY_DID_NOT_START = re.compile(r"raybackend\.py.*, in init_ray")


@dataclass(frozen=True)
class SimulationResult:
    """How a simulated run ended.

    Attributes
    ----------
    status : str
        ``"completed"``, ``"failed"``, ``"stopped"``, or ``"timed-out"`` when it was ended for taking too long.
    details : str
        Flower's explanation; empty for a completed run.
    run_id : int
        Flower's number of the run.
    seconds : float
        Duration, with the start of Flower and Ray.
    log : str
        The last lines of the run's log.
    """

    status: str
    details: str
    run_id: int
    seconds: float
    log: str

    @property
    def completed(self) -> bool:
        """Whether the ServerApp ran to its end."""
        return self.status == "completed"


def run_simulation(
    app: Path,
    run_config: Mapping[str, bool | int | float | str],
    *,
    nodes: int,
    on_line: Callable[[str], None] | None = None,
    timeout: float | None = None,
) -> SimulationResult:
    """Run the Flower app in folder ``app`` with ``nodes`` simulated SuperNodes, and end everything it started.

    The ServerApp works in the caller's folder. ServerApp and clients inherit the caller's environment. Each client has
    one CPU while it works, as many work at once as there are CPUs, and none sees a GPU.

    Parameters
    ----------
    app : Path
        Folder with the app's ``pyproject.toml``.
    run_config : Mapping
        Values for keys of ``[tool.flwr.app.config]``, which must name every one of them.
    nodes : int
        Number of simulated nodes, at least 1.
    on_line : callable, optional
        Called with each line of the run's log as it comes, without its newline.
    timeout : float, optional
        Seconds after which the run is ended; for ever if not given.

    Raises
    ------
    ConfigError
        Ray is not installed, ``nodes`` is below 1, or Flower refuses the app or its configuration.
    AoiError
        The SuperLink did not start.
    """
    if nodes < 1:
        raise ConfigError("nodes", nodes, "at least 1", "Raise it.")
    _check_keys(app, run_config)
    if importlib.util.find_spec("ray") is None:
        raise ConfigError("ray", None, "installed for Flower's simulation", f"Install it: {install('sim')}.")
    start = time.monotonic()
    deadline = start + timeout if timeout is not None else float("inf")
    federation = f"num-supernodes={nodes} client-resources-num-cpus=1 client-resources-num-gpus=0.0"
    for attempt in (1, 2):
        log: deque[str] = deque(maxlen=_TAIL)
        with SuperLink() as superlink:
            run_id = _submit(superlink, app, run_config, federation)
            with closing(_follow(superlink, run_id, deadline)) as lines:
                for line in lines:
                    log.append(line)
                    if on_line is not None:
                        on_line(line)
            status, details = _outcome(superlink, run_id, deadline)
        text = "\n".join(log)
        if attempt == 2 or status != "failed" or not _RAY_DID_NOT_START.search(text):
            break
        if on_line is not None:
            on_line("Ray did not start, so no client has run yet. Starting the run once more.")
    return SimulationResult(status, details, run_id, time.monotonic() - start, text)


def _check_keys(app: Path, run_config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key that the app does not know; Flower would refuse it without saying which."""
    project = app / "pyproject.toml"
    try:
        known = tomllib.loads(project.read_text("utf-8"))["tool"]["flwr"]["app"].get("config", {})
    except FileNotFoundError:
        raise ConfigError("app", app, "a Flower app with a pyproject.toml", "Give the folder of the app.") from None
    except KeyError:
        raise ConfigError(
            "app",
            app,
            "a Flower app with [tool.flwr.app] in its pyproject.toml",
            "Add that table, or give another folder.",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("app", project, f"valid TOML ({error})", "Correct the file.") from None
    unknown = sorted(run_config.keys() - set(_flat(known)))
    if unknown:
        raise ConfigError(
            "run configuration",
            ", ".join(unknown),
            f"keys of [tool.flwr.app.config] in {app}/pyproject.toml: {', '.join(sorted(_flat(known)))}",
            "Correct the name, or leave it out.",
        )


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys of a table, those of tables in it joined by dots as Flower does."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def _submit(superlink: SuperLink, app: Path, run_config: Mapping[str, Any], federation: str) -> int:
    """Hand the app over and return Flower's number of the run."""
    # A file, because Flower's KEY=VALUE syntax has no way to write a string with both kinds of quotes.
    overrides = superlink.home / "run-config.toml"
    overrides.write_text(tomli_w.dumps(run_config), "utf-8")
    answer = _ask(
        superlink, ["run", str(app), CONNECTION, "--run-config", str(overrides), "--federation-config", federation]
    )
    if not answer.get("success"):
        raise ConfigError(
            "app", app, f"an app that Flower accepts ({answer.get('error-message', answer)})", "Correct the app."
        )
    return int(answer["run-id"])


def _follow(superlink: SuperLink, run_id: int, deadline: float) -> Generator[str, None, None]:
    """Yield the run's log line by line, until it ends, the deadline passes, or the SuperLink is gone."""
    process = superlink.flwr("log", str(run_id), CONNECTION, "--stream")
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line.rstrip("\r\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while time.monotonic() < deadline and superlink.alive:
            try:
                line = lines.get(timeout=0.2)
            except queue.Empty:
                continue
            if line is None:
                return
            if not _PRELUDE.search(line):
                yield line
    finally:
        process.kill()
        process.wait()


def _outcome(superlink: SuperLink, run_id: int, deadline: float) -> tuple[str, str]:
    """Return status and details of a run whose log has ended."""
    while superlink.alive:
        answer = _ask(superlink, ["list", CONNECTION, "--run-id", str(run_id)])
        (run,) = answer.get("runs", [{}])
        state, _, outcome = run.get("status", "").partition(":")
        if state == "finished":
            details = run.get("status-details", "")
            return outcome, "" if details == "N/A" else details
        if time.monotonic() >= deadline:
            return "timed-out", "The run was ended because it took longer than its timeout."
        time.sleep(0.5)  # the log can end a moment before the run does
    return "failed", f"Flower's SuperLink ended before the run did. Its log:\n{superlink.last_lines()}"


def _ask(superlink: SuperLink, arguments: list[str]) -> dict[str, Any]:
    """Return the answer of one of Flower's commands; what is no JSON is an error message."""
    process = superlink.flwr(*arguments, "--format", "json")
    try:
        text, _ = process.communicate(timeout=_COMMAND)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return {"error-message": f"`flwr {arguments[0]}` gave no answer within {_COMMAND:g} s"}
    try:
        answer: dict[str, Any] = json.loads(text[text.index("{") :])
    except ValueError:
        return {"error-message": "\n".join(line for line in text.splitlines() if line and not _PRELUDE.search(line))}
    return answer
