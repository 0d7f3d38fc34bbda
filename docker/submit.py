"""Run a federation on the cluster, and end with the run's status.

It prints rounds from the ledger, so it continues after a restart of the SuperLink. You can end and restart it at any
time: it follows a run in progress and does not submit it twice.

``docker compose run --rm --no-deps submit COMMAND`` is for the operator: ``runs list|log|stop|resume|rm|queue``,
``nodes`` and ``nodes revoke|accept|prune``.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from aoi_fl.config.policies import Keys
from aoi_fl.config.presets import PRESET
from aoi_fl.config.run import RunConfig
from aoi_fl.config.values import names_of
from aoi_fl.docker import settings
from aoi_fl.docker.arrivals import (
    AUTHORITY,
    CONTROL,
    LOOK,
    await_clients,
    await_replicas,
    await_superlink,
    replicas,
)
from aoi_fl.docker.nodes import ClusterNodes, say
from aoi_fl.docker.runs import COMMAND, CURRENT, RUNS, Runs, Ticket, about, note_number
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import ControlApi, RunState
from aoi_fl.report.measure import judge
from aoi_fl.report.output import print_json, print_table
from aoi_fl.science.errors import AoiError, shortened
from aoi_fl.server.folder import LEDGER, run_folder
from aoi_fl.server.ledger import read, records, refused_clients
from aoi_fl.server.observe import progress_line, seconds_left

_GLANCE, _GONE = 0.25, 2  # seconds between two looks for the cluster's containers, and looks without any
_REMEMBERED = 50  # last rounds, for the remaining time


def submit(folder: Path, values: Keys, app: Path = settings.APP) -> int:
    """Submit an app and its configuration to the SuperLink; record and return Flower's id of the run."""
    home = Path(os.environ["FLWR_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    connection = f'[superlink.cluster]\naddress = "{CONTROL}"\nroot-certificates = "{AUTHORITY}"\n'
    (home / "config.toml").write_text(connection)
    (home / "run.toml").write_text(tomli_w.dumps(values), "utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    answer = subprocess.run(
        ["flwr", "run", str(app), "cluster", "--run-config", str(home / "run.toml"), "--format", "json"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    try:
        run_id = int(json.loads(answer[answer.index("{") :])["run-id"])
    except (ValueError, KeyError):
        raise AoiError(f"Flower did not take the run: {' '.join(answer.split())}") from None
    note_number(folder, run_id)
    return run_id


def point_at(name: str) -> None:
    """Make this run the current run of clients and page."""
    aside = RUNS / f".current.{os.getpid()}"
    aside.unlink(missing_ok=True)
    aside.symlink_to(name)
    aside.replace(CURRENT)


def follow(control: ControlApi, run_id: int, folder: Path) -> int:
    """Print each recorded round and the end of the run, enrol late clients, and return the exit status."""
    recorded = read(folder / LEDGER, "rounds", last=_REMEMBERED) if about(folder) else []
    seconds = [row["seconds"] for row in recorded]
    last, unreachable = recorded[-1]["round"] if recorded else 0, False
    refused, nodes = set[str](), ClusterNodes(control)
    while True:
        try:
            nodes.enrol()
            state = control.run(run_id) or RunState(run_id, "finished", "lost", "the SuperLink does not know it")
            if unreachable:
                say("the SuperLink is back")
            unreachable = False
        except CallError:
            if not unreachable:
                say("the SuperLink does not answer; the run continues when it does")
            state, unreachable = RunState(run_id, "unknown", "", ""), True
        for record in records(folder / LEDGER, last) if about(folder) else ():
            last = record.round
            rounds = int(about(folder)["config"]["num-server-rounds"])
            seconds.append(record.seconds)
            say(progress_line(record, rounds, seconds_left(seconds, rounds - last)))
        for why in refused_clients(about(folder)):
            if why not in refused:
                say(why)
                refused.add(why)
        if state.status == "finished":
            return _conclude(control, state, folder)
        time.sleep(LOOK)


def _conclude(control: ControlApi, state: RunState, folder: Path) -> int:
    """Print the end of the run and return the exit status."""
    facts = about(folder)
    if state.outcome == "completed" and not facts:
        say(f"run {folder.name} is complete; its app has recorded no rounds")
        return 0
    if state.outcome == "completed" and facts.get("status") == "completed":
        (last,) = read(folder / LEDGER, "rounds", last=1)
        main = judge([last])
        measured = "" if last[main.column] is None else f", {main.name} {main.show(last[main.column])}"
        say(f"run {folder.name} is complete: {last['round']} rounds{measured}")
        return 0
    if state.outcome in ("completed", "stopped"):
        reason = facts.get("reason") if state.outcome == "completed" else "stopped by the operator"
        say(f"run {folder.name} was stopped: {reason}. To continue it: {COMMAND} resume {folder.name}")
        return 1
    say(f"run {folder.name} ended as {state.outcome}: {state.details}")
    say("the end of its log:\n" + "\n".join(control.log(state.run_id).splitlines()[-40:]))
    return 1


def wanted_keys(resume: str = "") -> dict[str, str]:
    """Return the run keys of the environment, or the keys that resume a run."""
    if resume:
        return settings.FOLDERS | {"resume": "true", "run-name": resume}
    keys = {"preset": PRESET} | settings.run_keys(os.environ)
    if keys.get("clients"):  # others may be connected
        keys.setdefault("num-clients", str(len(names_of("clients", keys["clients"]))))
    elif count := replicas():  # none: the settings are checked without a cluster
        keys.setdefault("num-clients", str(count))
    if keys.get("resume", "").lower() == "true" and CURRENT.exists():
        keys.setdefault("run-name", CURRENT.resolve().name)
    return keys


def play(*, queue: bool = False, resume: str = "") -> int:
    """Run the environment's configuration, or follow the run in progress; return the status.

    Parameters
    ----------
    queue : whether to wait for the run in progress and the queue, instead of following the run
    resume : a run to resume instead
    """
    if not resume:
        settings.check(os.environ)  # before any wait
        if (settings.OWN / "pyproject.toml").exists():  # which AOI_APP mounts
            return play_own(settings.OWN)
        if not (os.environ.get("AOI_NUM_CLIENTS") or os.environ.get("AOI_CLIENTS")):
            os.environ["AOI_NUM_CLIENTS"] = str(await_replicas(_join_timeout()))
    config = RunConfig.parse(wanted_keys(resume))
    control = _ready(config.join_timeout)
    runs = Runs(control)
    going = runs.going()[-1:]
    if going and not (queue or config.resume) and not runs.is_dead(going[0]):
        folder = runs.of_number(going[0].run_id)
        say(f"run {folder.name} is in progress; following it")
        say("To start another run after it: docker compose run --rm -d --no-deps submit runs queue")
        return follow(control, going[0].run_id, folder)
    if config.resume:
        runs.check_resumable(config.run_name)
    elif subprocess.run([sys.executable, "-m", "aoi_fl.docker.submit", "runs", "check"], check=False).returncode:
        return 2
    with _turn(control, config.run_name, config.policy, config.dataset) as folder:
        values = config.flat()
        if config.resume:  # server and clients read all other keys from the ledger
            values = about(folder)["config"] | {"resume": True}
        wanted = int(values["num-clients"])
        await_clients(ClusterNodes(control), wanted, least=1 if config.resume else wanted, seconds=config.join_timeout)
        point_at(folder.name)
        run_id = submit(folder, values | {"run-name": folder.name})
        policy, dataset, rounds = (values[key] for key in ("policy", "dataset", "num-server-rounds"))
        how = "continues" if config.resume else "is submitted"
        say(f"run {folder.name} {how}: {policy}, {dataset}, {rounds} rounds")
    status = follow(control, run_id, folder)
    for name in runs.retain(settings.kept_runs(os.environ)):
        say(f"run {name} is deleted (AOI_KEEP_RUNS)")
    return status


def play_own(app: Path) -> int:
    """Run your own Flower app when its turn comes, and follow it; return the status."""
    keys = settings.own_keys(os.environ, app)
    seconds, given = _join_timeout(), os.environ.get("AOI_NUM_CLIENTS", "")
    control = _ready(seconds)
    with _turn(control, str(keys.get("run-name", "")), "own", app.name) as folder:
        wanted = int(given) if given.isdecimal() else await_replicas(seconds)
        await_clients(ClusterNodes(control), wanted, least=1, seconds=seconds)
        run_id = submit(folder, keys, app)
        say(f"run {folder.name} is submitted: your own app")
    return follow(control, run_id, folder)


def _join_timeout() -> float:
    """Return the longest wait for clients, before the keys of a run are known; in seconds."""
    return float(os.environ.get("AOI_JOIN_TIMEOUT") or RunConfig().join_timeout)


def _ready(seconds: float) -> ControlApi:
    """Return the connection to the SuperLink once it answers; from then on this process ends with its cluster."""
    control = connect(seconds)
    threading.Thread(target=end_with_cluster, daemon=True).start()
    await_superlink(ClusterNodes(control), seconds)
    return control


@contextmanager
def _turn(control: ControlApi, name: str, policy: str, dataset: str) -> Iterator[Path]:
    """Wait for the end of the runs before a run, and hold its turn until it is submitted; yield its folder."""
    with (
        run_folder(RUNS, name, policy, dataset) as folder,
        Ticket.take({"run": folder.name, "policy": policy, "dataset": dataset}) as ticket,
    ):
        Runs(control).await_turn(ticket)
        yield folder


def check_run() -> None:
    """Check the run of the environment, without clients; in a process of its own, because data take memory."""
    from aoi_fl.server.app import prepare

    prepare(RunConfig.parse(wanted_keys()), Path())
    say("the settings of the run are good")


def end_with_cluster() -> None:
    """End this process when SuperExec and clients are gone; Compose does not stop the containers of `run`."""
    seen, gone = False, 0
    while gone < _GONE:
        there = any(map(_has_address, ("superexec", "client")))
        seen, gone = seen or there, 0 if there or not seen else gone + 1
        time.sleep(_GLANCE)
    say("the cluster is down")
    os.kill(os.getpid(), signal.SIGTERM)


def _has_address(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except socket.gaierror:
        return False


def connect(seconds: float = 0.0) -> ControlApi:
    """Return the connection to the SuperLink; a cluster that starts needs some seconds for its certificates.

    Raises
    ------
    AoiError : the cluster has made none.
    """
    end = time.monotonic() + seconds
    while not AUTHORITY.exists():
        if time.monotonic() > end:
            raise AoiError("The cluster has no certificates yet. Start it with docker compose up, and read init's log.")
        time.sleep(LOOK / 4)
    return ControlApi(CONTROL, AUTHORITY.read_bytes())


def parser() -> argparse.ArgumentParser:
    """Return the commands of ``docker compose run --rm --no-deps submit``."""
    usage = "docker compose run --rm --no-deps submit"
    top = argparse.ArgumentParser(usage, description="Operate a cluster; alone: run a run.")
    rooms = top.add_subparsers(dest="room", title="commands")
    runs = rooms.add_parser("runs", help="the runs of the cluster").add_subparsers(dest="command", required=True)
    for name, text in (
        ("list", "list runs and queue"),
        ("log", "print the server's log of a run"),
        ("stop", "stop a run, or take it from the queue"),
        ("resume", "continue a run after its last round, and follow it"),
        ("check", "check the run of the environment: settings, model, data"),
        ("rm", "delete a run that has ended"),
        ("queue", "start the run of the environment when the others have ended, and follow it"),
    ):
        command = runs.add_parser(name, help=text)
        if name == "list":
            command.add_argument("--json", action="store_true", help="print one JSON object")
        elif name not in ("queue", "check"):
            command.add_argument("run", metavar="RUN")
    clients = rooms.add_parser("nodes", help="the registered clients").add_subparsers(dest="command")
    clients.add_parser("revoke", help="refuse a client's key from now on").add_argument("name", metavar="NAME")
    takes = clients.add_parser("accept", help="register the keys of clients that ask")
    takes.add_argument("names", metavar="NAME", nargs="+")
    clients.add_parser("prune", help="unregister replaced keys whose clients are not connected")
    return top


def operate(arguments: argparse.Namespace) -> int:
    """Run the command of an operator and return the exit status."""
    if arguments.room is None:
        return play()
    if arguments.command in ("resume", "queue"):
        if arguments.command == "resume":
            Runs(connect()).check_resumable(arguments.run)
        return play(queue=arguments.command == "queue", resume=getattr(arguments, "run", ""))
    if arguments.command == "check":
        settings.check(os.environ)
        check_run()
        return 0
    control = connect()
    runs, nodes = Runs(control), ClusterNodes(control)
    match arguments.room, arguments.command:
        case "nodes", "revoke":
            nodes.revoke(arguments.name)
        case "nodes", "accept":
            nodes.accept(arguments.names)
        case "nodes", "prune":
            say(f"{len(nodes.prune())} replaced keys are unregistered")
        case "nodes", _:
            nodes.show()
        case _, "list" if arguments.json:
            print_json({"runs": runs.table()})
        case _, "list":
            columns = ("run", "state", "policy", "dataset", "round", "rounds", "detail")
            print_table("runs", columns, ([row.get(column) for column in columns] for row in runs.table()))
        case _, "log":
            say(runs.log(arguments.run).rstrip() or "the log of the run is empty")
        case _, "rm":
            runs.remove(arguments.run)
            say(f"run {arguments.run} is deleted")
        case _, "stop":
            last = runs.stop(arguments.run)
            say(f"run {arguments.run} is stopped after round {last}")
            say(f"To continue it: {COMMAND} resume {arguments.run}" if last else "It has no round to continue from.")
    return 0


def main() -> None:
    """Run a command; a user's error or a silent SuperLink prints one paragraph, with status 2."""
    arguments = parser().parse_args()
    try:
        sys.exit(operate(arguments))
    except AoiError as error:
        say(f"aoi: {shortened(str(error))}")
    except CallError:
        say(f"aoi: the SuperLink at {CONTROL} does not answer: see `docker compose logs superlink`, and ask again.")
    sys.exit(2)


if __name__ == "__main__":
    main()
