"""A deployed exchange: a SuperLink and two SuperNodes on this machine, ours and Flower's own waiting in turns."""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from benchmarks.base import ROOT, Row, Skipped, Times, ratio_row, stopwatch
from strategies.exchange import Exchange

DEPLOYED = "deployed"
NODES, REPEATS = 2, 4
APP = Path(__file__).parent / "apps" / "exchange"
_TIMEOUT = 200.0  # seconds for one exchange
_PATIENCE = 600.0  # seconds for the whole run


def play(grid: Grid, config: Mapping[str, Any]) -> None:
    """Exchange the same messages in turns by our pull loop and by ``send_and_receive``; write the times down."""
    from benchmarks.engines import model

    while len(nodes := list(grid.get_node_ids())) < NODES:
        time.sleep(0.5)
    content = RecordDict({"arrays": model(100_000)})
    ours, stock = Times([], []), Times([], [])
    for _ in range(int(config["rounds"])):
        messages = {n: Message(content, node, "train", ttl=_TIMEOUT) for n, node in enumerate(nodes)}
        with stopwatch(ours):
            answered = sum(not reply.has_error() for reply in Exchange(grid, messages, _TIMEOUT, one_by_one=True))
        messages = {n: Message(content, node, "train", ttl=_TIMEOUT) for n, node in enumerate(nodes)}
        with stopwatch(stock):
            answered += sum(
                not reply.has_error() for reply in grid.send_and_receive(messages.values(), timeout=_TIMEOUT)
            )
        if answered != 2 * NODES:
            raise RuntimeError(f"{answered} of {2 * NODES} replies came")
    Path(config["out"]).write_text(json.dumps({"ours": vars(ours), "stock": vars(stock)}))


def run(data: Path) -> list[Row]:
    """Deploy, run the app, and compare."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        home, out = Path(folder), Path(folder) / "times.json"
        environment = os.environ | {
            "FLWR_HOME": folder,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        }
        apps, fleet, control, *clients = (f"127.0.0.1:{port}" for port in _free_ports(3 + NODES))
        (home / "config.toml").write_text(f'[superlink.bench]\naddress = "{control}"\ninsecure = true\n')
        running.enter_context(
            _process(
                environment,
                "flower-superlink",
                "--insecure",
                "--disable-runtime-dependency-installation",
                f"--serverappio-api-address={apps}",
                f"--fleet-api-address={fleet}",
                f"--control-api-address={control}",
            )
        )
        _listening(control)
        for i, address in enumerate(clients):
            running.enter_context(
                _process(
                    environment,
                    sys.executable,
                    "-m",
                    "client.supernode",
                    "--insecure",
                    f"--superlink={fleet}",
                    f"--clientappio-api-address={address}",
                    f"--node-config=partition-id={i} num-partitions={NODES}",
                )
            )
        settings = f'what="{DEPLOYED}" rounds={REPEATS} out="{out}"'
        submitted = subprocess.run(
            ["flwr", "run", str(APP), "bench", "--run-config", settings],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while not out.exists() or not out.read_text():
            said = (home / "log").read_text(errors="replace")
            if submitted.returncode or "ServerApp failed" in said or time.monotonic() > deadline:
                raise Skipped(f"the deployment did not finish. {submitted.stdout[-300:]} {said[-600:]}")
            time.sleep(0.5)
        found = {key: Times(**times) for key, times in json.loads(out.read_text()).items()}
    return [
        ratio_row(
            f"deployed exchange, {NODES} SuperNodes",
            "Flower's `send_and_receive`, same SuperLink",
            0.7,
            found["ours"],
            found["stock"],
            note=f"{found['ours'].seconds:.1f} s against {found['stock'].seconds:.1f} s",
        )
    ]


@contextmanager
def _process(environment: dict[str, str], command: str, *arguments: str) -> Iterator[None]:
    path = shutil.which(command, path=environment["PATH"]) or command
    with open(Path(environment["FLWR_HOME"]) / "log", "ab") as log:
        process = subprocess.Popen([path, *arguments], env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]


def _listening(address: str) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise Skipped(f"Flower's SuperLink did not listen on {address}") from None
            time.sleep(0.2)
