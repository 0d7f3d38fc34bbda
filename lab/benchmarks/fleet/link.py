"""A SuperLink on this machine, as in compose.yaml: TLS, registered keys, SQLite on disk.

The ServerApp's SuperExec is a separate process, so a run survives a kill of the SuperLink.
"""

import sys
from contextlib import contextmanager

import psutil

from aoi_fl.docker.pki import make_all
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.superlink import free_ports
from aoi_fl.flower.versions import OVER_GRPC
from aoi_fl.lab.benchmarks.base import peak_memory
from aoi_fl.lab.benchmarks.processes import HOST, Addresses, Programs, programs
from aoi_fl.lab.benchmarks.superlink import OURS

_START = 240.0  # seconds until a SuperLink listens
PROGRAMS = {"stock": ("flower-superlink",), "ours": (sys.executable, "-m", "aoi_fl.docker.superlink")}


class SuperLink(Programs):
    """A SuperLink that can be killed and restarted, and its SuperExec.

    Attributes
    ----------
    peak : the SuperLink's peak memory, in MiB
    authority : certificate of the authority that signed the SuperLink's
    """

    peak, _cpu = 0.0, 0.0

    def begin(self, server):
        """Start both; the SuperLink is ours or stock."""
        make_all(self.folder)
        self._command, self.addresses = PROGRAMS[server], Addresses.free()
        self._trust = self.folder / "trust" / "ca.crt"
        self.authority = self._trust.read_bytes()
        self.connect(self.addresses.control, self._trust)
        self.restart()
        self.start(
            "flower-superexec",
            "--plugin-type=serverapp",
            f"--appio-api-address={HOST}:{self.addresses.runtime}",
            f"--root-certificates={self._trust}",
            f"--superexec-auth-secret-file={self.folder / 'superexec' / 'secret'}",
        )

    @property
    def fleet(self):
        """The address of the Fleet API."""
        return f"{HOST}:{self.addresses.fleet}"

    @property
    def cpu(self):
        """CPU seconds of the SuperLink so far."""
        return self._cpu + _cpu_seconds(self._server.pid)

    def start_supernode(self, key, config):
        """Start our SuperNode with a private key and a configuration in Flower's syntax."""
        self.start(
            *OURS,
            *self.addresses.of_supernode(*free_ports(1)),
            f"--root-certificates={self._trust}",
            f"--auth-supernode-private-key={key}",
            f"--node-config={config}",
        )

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
        """Start it, again with the same database and ports, and wait until it listens."""
        root, certificate = self.folder, self.folder / "server"
        tls = [
            f"--{prefix}ssl-{what}={path}"
            for prefix in (("", "appio-") if OVER_GRPC else ("",))
            for what, path in (
                ("ca-certfile", self._trust),
                ("certfile", certificate / "server.crt"),
                ("keyfile", certificate / "server.key"),
            )
        ]
        self._server = self.start(
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
        self.await_ports(self._server, ports, _START)


@contextmanager
def superlink(server="ours"):
    """Yield a SuperLink, ours or stock, that ends with the block, as do its descendants."""
    with programs(SuperLink) as link:
        link.begin(server)
        yield link


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
