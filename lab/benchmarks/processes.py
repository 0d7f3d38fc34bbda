"""Flower's programs for a benchmark: their folder, their log and their end."""

import os
import re
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import tomli_w

from aoi_fl.flower.control import ControlApi
from aoi_fl.flower.superlink import free_ports, own_address
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.lab.benchmarks.base import ROOT, Skipped

_COMMAND, _END = 120.0, 15.0  # seconds that a command may take, and a program's end
_START = 60.0  # seconds until a SuperLink listens
HOST, CONNECTION = "127.0.0.1", "bench"  # where all run, and by what name ``flwr`` finds the SuperLink
_PRIVATE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "GRPC_ENABLE_FORK_SUPPORT": "0",  # with gRPC's fork handlers in the way, Ray often does not start
}


@dataclass(frozen=True)
class Addresses:
    """Ports on this machine.

    Up to Flower 1.34 each of the three APIs has a gRPC address. The ServerApp's API moves to HTTP with 1.35, the
    command's with 1.37, the SuperNodes' with 1.40. All HTTP APIs share one port.

    Attributes
    ----------
    runtime : for the ServerApp
    fleet : for SuperNodes
    control : for the command ``flwr``
    """

    runtime: int
    fleet: int
    control: int

    @classmethod
    def free(cls) -> "Addresses":
        """Return unused ports."""
        ports = free_ports(3)
        return cls(*(ports if OVER_GRPC else ports[:1] * 3))

    def of_superlink(self, *, fleet: bool = True) -> list[str]:
        """Return the arguments of ``flower-superlink``; a simulation has no Fleet API."""
        if not OVER_GRPC:
            return [f"--host={HOST}", f"--port={self.runtime}"]
        apis = {"serverappio": self.runtime, "control": self.control} | ({"fleet": self.fleet} if fleet else {})
        return [f"--{api}-api-address={HOST}:{port}" for api, port in apis.items()]

    def of_supernode(self, port: int) -> list[str]:
        """Return the arguments of a ``flower-supernode`` that serves its apps on a port."""
        return [f"--superlink={HOST}:{self.fleet}", *own_address(port)]


class Programs:
    """Started programs, which end with the block of :func:`programs`.

    Attributes
    ----------
    folder : Flower's home, with all output in its file ``log``
    environment : environment of all programs
    control : the Control API of the SuperLink, once one is started
    """

    def __init__(self, folder):
        self.folder = folder
        home = str(folder)
        self.environment = os.environ | _PRIVATE | {"FLWR_HOME": home, "RAY_TMPDIR": home}
        self.environment.pop("RAY_ADDRESS", None)  # another simulation's cluster
        for variable, first in (("PYTHONPATH", str(ROOT)), ("PATH", sysconfig.get_path("scripts"))):
            self.environment[variable] = os.pathsep.join(filter(None, [first, os.environ.get(variable)]))
        self._started = []
        self._seen = set()

    def start(self, command, *arguments):
        """Start a program."""
        path = shutil.which(command, path=self.environment["PATH"]) or command
        with open(self.folder / "log", "ab") as log:
            process = subprocess.Popen([path, *arguments], env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        self._started.append(process)
        return process

    def await_ports(self, process, ports, seconds):
        """Wait until a program listens; raise Skipped if it ends or times out."""
        deadline = time.monotonic() + seconds
        for port in ports:
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Skipped(f"Flower's SuperLink did not listen: {self.log_tail()}")
                time.sleep(0.1)

    def connect(self, port, authority=None):
        """Make the SuperLink with this port of its Control API known, over TLS with an authority's certificate."""
        address = f"{HOST}:{port}"
        trust = f'root-certificates = "{authority}"' if authority else "insecure = true"
        (self.folder / "config.toml").write_text(f'[superlink.{CONNECTION}]\naddress = "{address}"\n{trust}\n')
        self.control = ControlApi(address, authority and authority.read_bytes())

    def superlink(self, *flags, fleet=True):
        """Start Flower's SuperLink without TLS and return its addresses once it listens."""
        addresses = Addresses.free()
        self.connect(addresses.control)
        fixed = ["--insecure", "--disable-runtime-dependency-installation", *addresses.of_superlink(fleet=fleet)]
        self.await_ports(self.start("flower-superlink", *fixed, *flags), [addresses.control], _START)
        return addresses

    def submit(self, app, settings, *more):
        """Submit an app with settings in Flower's syntax; return the run's id, or raise Skipped."""
        done = subprocess.run(
            ["flwr", "run", str(app), CONNECTION, "--run-config", settings, *more, "--format", "json"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND,
            check=False,
        )
        if not (accepted := re.search(r'"run-id": "?(\d+)', done.stdout)):
            raise Skipped(f"the run was not accepted: {done.stdout[-300:]} {done.stderr[-300:]}")
        return int(accepted[1])

    def end_of(self, run_id):
        """Return a run's outcome and details, ``finished:completed`` for instance; empty while it runs."""
        (run,) = self.control.runs(run_id)
        said = (f"{run.status}:{run.outcome}", run.details)
        return ", ".join(filter(None, said)) if run.status == "finished" else ""

    def result_of(self, run_id, seconds, look):
        """Return what ``look()`` finds of a run; raise Skipped if it ends or times out without a result."""
        why, deadline = "", time.monotonic() + seconds
        while not (found := look()):
            if why:
                raise Skipped(f"the run did not finish: {why}. {self.log_tail(600)}")
            time.sleep(1)
            why = self.end_of(run_id)
            if time.monotonic() > deadline:
                why = f"it took longer than {seconds:g} s"
        return found

    def log_tail(self, characters=1500):
        """Return the end of the programs' log."""
        path = self.folder / "log"
        return path.read_bytes()[-characters:].decode(errors="replace") if path.exists() else ""

    def end(self):
        """End all programs and their descendants, so that none writes into the folder."""
        self._living()
        alive = [process for process in self._started if process.poll() is None]
        for process in alive:
            process.terminate()
        for process in alive:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END)
        while living := self._living():
            for process in living:
                with suppress(psutil.Error):  # it ended meanwhile
                    process.kill()
            psutil.wait_procs(living, 1)

    def _living(self):
        """Return the processes with this Flower home, and their descendants, which may hide theirs."""
        everybody = list(psutil.process_iter(["environ", "ppid"]))
        self._seen |= {p for p in everybody if (p.info["environ"] or {}).get("FLWR_HOME") == str(self.folder)}
        while new := {p for p in everybody if p.info["ppid"] in {seen.pid for seen in self._seen}} - self._seen:
            self._seen |= new
        return [p for p in self._seen if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@contextmanager
def programs(kind=Programs):
    """Yield programs to start, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        made = kind(Path(folder))
        try:
            yield made
        finally:
            made.end()


def simulate(app, settings, nodes, seconds=600.0):
    """Run an app in Flower's Ray simulation; return outcome (``finished:completed``) and log.

    Each client has one CPU.
    """
    with programs() as running:
        (running.folder / "run.toml").write_text(tomli_w.dumps(settings))  # KEY=VALUE cannot contain both quotes
        running.superlink("--simulation", "--isolation=subprocess", fleet=False)
        federation = f"num-supernodes={nodes} client-resources-num-cpus=1 client-resources-num-gpus=0.0"
        run_id = running.submit(app, str(running.folder / "run.toml"), "--federation-config", federation)
        ended = running.result_of(run_id, seconds, lambda: running.end_of(run_id))
        return ended, running.control.log(run_id)


def _listens(port):
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True
