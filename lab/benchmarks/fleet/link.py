"""A SuperLink on this machine, as in compose.yaml: TLS, registered keys, SQLite on disk.

The ServerApp's SuperExec is a separate process, so a run survives a kill of the SuperLink.
"""

import sys
from contextlib import contextmanager

import psutil

from aoi_fl.docker.pki import make_all
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import ControlApi
from aoi_fl.flower.superlink import free_ports
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.lab.benchmarks.base import APP, peak_memory
from aoi_fl.lab.benchmarks.processes import Addresses, programs
from aoi_fl.lab.benchmarks.superlink import OURS

_START = 240.0  # seconds until a SuperLink listens
_HOST = "127.0.0.1"
PROGRAMS = {"stock": ("flower-superlink",), "ours": (sys.executable, "-m", "aoi_fl.docker.superlink")}


class SuperLink:
    """A SuperLink that can be killed and restarted, and its SuperExec.

    Attributes
    ----------
    folder, environment : folder and environment of the processes
    peak : the SuperLink's peak memory, in MiB
    """

    def __init__(self, running, server="ours"):
        self._command = PROGRAMS[server]
        make_all(running.folder)
        self._running, self.folder, self.environment = running, running.folder, running.environment
        self.addresses = Addresses.free()
        self.authority = (self.folder / "trust" / "ca.crt").read_bytes()
        self.peak, self._cpu = 0.0, 0.0
        self._trust = trust = self.folder / "trust" / "ca.crt"
        (self.folder / "config.toml").write_text(
            f'[superlink.fleet]\naddress = "{_HOST}:{self.addresses.control}"\nroot-certificates = "{trust}"\n'
        )
        self._server = self._start()
        running.start(
            "flower-superexec",
            "--plugin-type=serverapp",
            f"--appio-api-address={_HOST}:{self.addresses.runtime}",
            f"--root-certificates={trust}",
            f"--superexec-auth-secret-file={self.folder / 'superexec' / 'secret'}",
        )

    @property
    def fleet(self):
        """The address of the Fleet API."""
        return f"{_HOST}:{self.addresses.fleet}"

    @property
    def cpu(self):
        """CPU seconds of the SuperLink so far."""
        return self._cpu + _cpu_seconds(self._server.pid)

    def control(self):
        """Return a connection to the Control API."""
        return ControlApi(f"{_HOST}:{self.addresses.control}", self.authority)

    def start_supernode(self, key, config):
        """Start our SuperNode with a private key and a configuration in Flower's syntax."""
        self._running.start(
            *OURS,
            *self.addresses.of_supernode(*free_ports(1)),
            f"--root-certificates={self._trust}",
            f"--auth-supernode-private-key={key}",
            f"--node-config={config}",
        )

    def submit(self, settings, app=APP):
        """Start a run of an app with settings in Flower's syntax, and return its id."""
        return self._running.submit(app, "fleet", settings)

    def measure(self):
        """Record the peak memory so far."""
        self.peak = max(self.peak, peak_memory(self._server.pid))

    def kill(self):
        """Kill the SuperLink."""
        self.measure()
        self._cpu = self.cpu
        self._server.kill()
        self._server.wait()

    def restart(self):
        """Restart it with the same database and ports, and wait until it listens."""
        self._server = self._start()

    def log_tail(self):
        """Return the end of the processes' log."""
        return self._running.log_tail()

    def _start(self):
        root, certificate = self.folder, self.folder / "server"
        tls = [
            f"--{prefix}ssl-{what}={path}"
            for prefix in (("", "appio-") if OVER_GRPC else ("",))
            for what, path in (
                ("ca-certfile", root / "trust" / "ca.crt"),
                ("certfile", certificate / "server.crt"),
                ("keyfile", certificate / "server.key"),
            )
        ]
        process = self._running.start(
            *self._command,
            *tls,
            f"--superexec-auth-secret-file={root / 'superexec' / 'secret'}",
            "--enable-supernode-auth",
            "--isolation=process",
            "--disable-runtime-dependency-installation",
            f"--database={root / 'superlink.db'}",
            *self.addresses.of_superlink(),
        )
        ports = self.addresses.control, self.addresses.fleet, self.addresses.runtime
        self._running.await_ports(process, ports, _START)
        return process


@contextmanager
def superlink(server="ours"):
    """Yield a SuperLink, ours or stock, that ends with the block, as do its descendants."""
    with programs() as running:
        yield SuperLink(running, server)


def register(control, public_keys):
    """Register these public keys of nodes."""
    for public in public_keys:
        control.register(public)


def failure(control, run_id):
    """Return a run's failure, or "" without one or while the SuperLink is unavailable."""
    try:
        (state,) = control.runs(run_id)
    except CallError:
        return ""
    failed = state.status == "finished" and state.outcome != "completed"
    return f"{state.outcome}: {state.details}" if failed else ""


def _cpu_seconds(pid):
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
