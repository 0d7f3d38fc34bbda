"""Flower's programs beside a benchmark: a folder that is theirs, what they say, and that none of them outlives it."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aoi_fl.engine.superlink import Descendants, private_environment
from aoi_fl.flower.superlink import listens
from benchmarks.base import ROOT, Skipped

_COMMAND, _END = 120.0, 15.0  # seconds that a command may take, and a program's end


class Programs:
    """Programs that have been started, and end with the block that :func:`programs` makes.

    Attributes
    ----------
    folder : Flower's home; what is said goes into its file ``log``
    environment : of each of them
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.environment = private_environment(folder) | {"PYTHONPATH": path}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program."""
        path = shutil.which(command, path=self.environment["PATH"]) or command
        with open(self.folder / "log", "ab") as log:
            process = subprocess.Popen([path, *arguments], env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        self._started.append(process)
        return process

    def await_ports(self, process: subprocess.Popen[bytes], ports: Sequence[int], seconds: float) -> None:
        """Return as soon as a program listens; raise Skipped if it ends, or does not in time."""
        deadline = time.monotonic() + seconds

        def wait() -> None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Skipped(f"Flower's SuperLink did not listen: {self.said()}")
            time.sleep(0.1)

        for port in ports:
            listens(port, wait)

    def submit(self, app: Path, connection: str, settings: str) -> int:
        """Submit an app, with settings in Flower's syntax, and return the run's number; Skipped if it is refused."""
        answer = self._flwr("run", str(app), connection, "--run-config", settings)
        if "run-id" not in answer:
            raise Skipped(f"the run was not accepted: {answer.get('error-message', answer)}")
        return int(answer["run-id"])

    def end_of(self, run_id: int, connection: str) -> str:
        """Return how a run has ended by Flower's list of runs, and its details; empty while it goes on."""
        for run in self._flwr("list", connection, "--run-id", str(run_id)).get("runs", ()):
            if run["status"].startswith("finished"):
                return f"{run['status']}, {run.get('status-details', '')}"
        return ""

    def _flwr(self, *arguments: str) -> dict[str, Any]:
        """Return the answer of one of Flower's commands; what is no JSON is an error message."""
        done = subprocess.run(
            ["flwr", *arguments, "--format", "json"],
            env=self.environment, capture_output=True, text=True, timeout=_COMMAND, check=False,
        )  # fmt: skip
        try:
            answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            return {"error-message": f"{done.stdout[-300:]} {done.stderr[-300:]}"}
        return answer

    def said(self, characters: int = 1500) -> str:
        """Return the end of what the programs have said."""
        path = self.folder / "log"
        if not path.exists():
            return ""
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - characters))
            return file.read().decode(errors="replace")

    def end(self) -> None:
        """End all programs, and what they have started: nothing writes into the folder any more."""
        alive = [process for process in self._started if process.poll() is None]
        for process in alive:
            process.terminate()
        for process in alive:
            try:
                process.wait(_END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        Descendants(self.folder).kill()


@contextmanager
def programs() -> Iterator[Programs]:
    """Yield programs to start, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        made = Programs(Path(folder))
        try:
            yield made
        finally:
            made.end()
