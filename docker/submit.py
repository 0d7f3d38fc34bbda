"""Play one run on the cluster: enrol the clients, wait for them, submit, follow, and end with the run's status.

What it prints is read from the ledger, so it goes on where it was when the SuperLink comes back. It can be ended and
started again at any time: a run that is still going is found and followed, not submitted twice.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import grpc
import tomli_w

from aoi_fl.docker import settings
from aoi_fl.docker.arrivals import AUTHORITY, CONTROL, LOOK, await_clients, await_superlink, enrol, replicas, say
from aoi_fl.docker.control import Control
from aoi_fl.flower.control import RunState
from aoi_fl.science.errors import AoiError, ConfigError, ResumeError
from aoi_fl.server.config import RunConfig
from aoi_fl.server.folder import LEDGER, run_folder
from aoi_fl.server.ledger import last_rounds, read, read_run
from aoi_fl.server.observe import progress_line, seconds_left
from aoi_fl.strategies.records import Participation, RoundRecord

APP, RUNS = Path("/app"), Path("/runs")
CURRENT = RUNS / ".current"
_REMEMBERED = 50  # rounds, by which the time that is left is told


def submit(values: dict[str, Any]) -> int:
    """Hand the app and its configuration to the SuperLink and return Flower's number of the run."""
    home = Path(os.environ["FLWR_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    connection = f'[superlink.cluster]\naddress = "{CONTROL}"\nroot-certificates = "{AUTHORITY}"\n'
    (home / "config.toml").write_text(connection)
    (home / "run.toml").write_text(tomli_w.dumps(values), "utf-8")
    answer = subprocess.run(
        ["flwr", "run", str(APP), "cluster", "--run-config", str(home / "run.toml"), "--format", "json"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    try:
        found: dict[str, Any] = json.loads(answer[answer.index("{") :])
        return int(found["run-id"])
    except (ValueError, KeyError):
        raise AoiError(f"Flower did not take the run: {' '.join(answer.split())}") from None


def point_at(name: str) -> None:
    """Make this run the one that clients and the page look at."""
    aside = RUNS / f".current.{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(name)
    aside.replace(CURRENT)


def recorded_config(folder: Path) -> dict[str, Any] | None:
    """Return the run keys that a run's ledger holds, or None while there is no ledger."""
    found = _about(folder).get("config")
    return dict(found) if found else None


def _about(folder: Path) -> dict[str, Any]:
    try:
        return read_run(folder / LEDGER)
    except (ConfigError, sqlite3.OperationalError):  # not there, or just being made
        return {}


def follow(control: Control, run_id: int, folder: Path) -> RunState:
    """Print each round as it is recorded, enrol whoever comes late, and return how the run ended."""
    known = last_rounds(folder / LEDGER, _REMEMBERED) if _about(folder) else []
    seconds = [row["seconds"] for row in known]
    last, away = known[-1]["round"] if known else 0, False
    while True:
        try:
            enrol(control)
            state = control.run(run_id)
            if away:
                say("the SuperLink is back")
            away = False
        except grpc.RpcError:
            if not away:
                say("the SuperLink does not answer; the run goes on as soon as it does")
            state, away = RunState(run_id, "unknown", "", ""), True
        for record in _records(folder, after=last):
            last = record.round
            rounds = int((recorded_config(folder) or {})["num-server-rounds"])
            seconds.append(record.seconds)
            say(progress_line(record, rounds, seconds_left(seconds, rounds - last)))
        if state.status == "finished":
            return state
        time.sleep(LOOK)


def _records(folder: Path, after: int) -> list[RoundRecord]:
    """Return the rounds after one, from the ledger; none while there is no ledger yet."""
    path, names = folder / LEDGER, {f.name for f in fields(Participation)}
    if not _about(folder):
        return []
    rows = read(path, "rounds", after)
    parts: dict[int, list[Participation]] = {}
    for row in read(path, "participations", after):
        parts.setdefault(row["round"], []).append(Participation(**{k: v for k, v in row.items() if k in names}))
    return [RoundRecord(**row, participations=parts.get(row["round"], [])) for row in rows]


def conclude(control: Control, state: RunState, folder: Path) -> int:
    """Say how the run ended and return the exit status."""
    about = _about(folder)
    if state.outcome == "completed" and about.get("status") == "completed":
        (last,) = last_rounds(folder / LEDGER, 1)
        metrics = {"accuracy": last["test_accuracy"], "rmse": last["test_rmse"]}
        told = "".join(f", test {name} {value:.4g}" for name, value in metrics.items() if value is not None)
        say(f"run {folder.name} is complete: {last['round']} rounds{told}")
        return 0
    if state.outcome == "completed":
        say(f"run {folder.name} was stopped: {about.get('reason')}. AOI_RESUME=true goes on with it.")
        return 1
    say(f"run {folder.name} ended as {state.outcome}: {state.details}")
    say("the end of its log:\n" + "\n".join(control.log(state.run_id).splitlines()[-40:]))
    return 1


def play() -> int:
    """Play the run that the environment describes, or follow the one that is going, and return the exit status."""
    fixed = {"runs-dir": str(RUNS), "data-dir": "/data", "model-dir": "/data/models"}
    known = {key: value for key, value in settings.defaults(APP / "pyproject.toml").items() if key not in fixed}
    chosen = settings.from_environment(os.environ, known) | fixed
    if chosen.get("num-clients", "0").isdecimal():  # anything else is for RunConfig to complain of
        chosen["num-clients"] = str(max(int(chosen.get("num-clients", "0")), replicas()))
    if chosen.get("resume", "").lower() == "true" and CURRENT.exists():
        chosen.setdefault("run-name", CURRENT.resolve().name)
    config = RunConfig.parse(chosen)
    control = Control(CONTROL, AUTHORITY)
    newest = await_superlink(control, config.join_timeout)[-1:]  # an older one that is not finished died in a crash
    if newest and newest[0].status != "finished" and CURRENT.exists() and not config.resume:
        folder = CURRENT.resolve()
        say(f"run {folder.name} is going; following it")
        return conclude(control, follow(control, newest[0].run_id, folder), folder)
    values = config.flat()
    if config.resume:  # server and clients take every other key from the ledger, not from today's environment
        values = (recorded_config(RUNS / config.run_name) or {}) | {"resume": True}
        if len(values) == 1:
            raise ResumeError(f"AOI_RESUME is set, but there is no run {config.run_name!r} to go on with.")
    wanted = int(values["num-clients"])
    await_clients(control, wanted, least=1 if config.resume else wanted, seconds=config.join_timeout)
    with run_folder(RUNS, config.run_name, config.policy, config.dataset) as folder:
        name = folder.name
        folder.mkdir(parents=True, exist_ok=True)
        point_at(name)
        run_id = submit(values | {"run-name": name})
    policy, dataset, rounds = (values[key] for key in ("policy", "dataset", "num-server-rounds"))
    say(f"run {name} {'goes on' if config.resume else 'is submitted'}: {policy}, {dataset}, {rounds} rounds")
    return conclude(control, follow(control, run_id, folder), folder)


def main() -> None:
    """Play; a user's mistake ends with one paragraph and status 2."""
    try:
        sys.exit(play())
    except AoiError as error:
        say(f"aoi: {' '.join(str(error).split())}")
        sys.exit(2)


if __name__ == "__main__":
    main()
