"""A Flower SuperLink of one's own: started, spoken to, and ended with everything it started.

Flower's ready-made local SuperLink is one for the whole host: it outlives its command and keeps the environment, folder
and interpreter of whoever started it first. This one has a temporary home and ports of its own, and ends with the block
that opened it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

import aoi_fl
from aoi_fl.flower.superlink import CONTROL_LISTENS, Addresses, listens
from aoi_fl.science.errors import AoiError

CONNECTION = "aoi"  # the name under which Flower's command line knows this SuperLink
# A Unix socket's path holds at most 103 bytes (macOS), and Ray puts its sockets some 75 below its folder.
_LONGEST_HOME = 28
_GRACE = 6.0  # seconds to end of one's own accord before being killed

# The SuperLink watches its standard input, which closes with the caller: nothing is left behind even by a caller that
# was killed and could end nothing.
_LAUNCHER = """\
import os, sys, threading
from importlib.metadata import entry_points

def leave_with_caller():
    os.read(0, 1)
    sys.path.append(folder)
    from aoi_fl.engine.superlink import abandon
    abandon()

folder = sys.argv.pop(1)
threading.Thread(target=leave_with_caller, daemon=True).start()
sys.argv[0] = "flower-superlink"
(command,) = entry_points(group="console_scripts", name="flower-superlink")
command.load()()
"""


class SuperLink:
    """A simulation SuperLink on this machine, alive for the length of a ``with`` block.

    It, the ServerApp and Ray's workers inherit the caller's environment, but for what keeps them apart from other
    SuperLinks and Ray clusters and from calling home; the SuperLink and the ServerApp work in the caller's folder.

    Attributes
    ----------
    home : Path
        Temporary folder of Flower's and Ray's files, removed at the end.

    Raises
    ------
    AoiError
        On entry, when the SuperLink ends or does not listen within a minute. The message holds its last lines.
    """

    def __enter__(self) -> Self:
        base = tempfile.gettempdir()
        self.home = Path(tempfile.mkdtemp(prefix="aoi-", dir=base if len(base) + 13 <= _LONGEST_HOME else "/tmp"))
        self._log = self.home / "superlink.log"
        self._environment = private_environment(self.home)
        arguments = ["--insecure", "--simulation", "--isolation=subprocess"]
        arguments += ["--disable-runtime-dependency-installation", *Addresses.any().of_superlink(fleet=False)]
        beside = str(Path(aoi_fl.__file__).resolve().parents[1])  # where aoi_fl itself is found
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _LAUNCHER, beside, *arguments],
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # an interrupt from the keyboard is the caller's to handle
                )
            self._connect(within=60.0)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def alive(self) -> bool:
        """Whether the SuperLink's process is running."""
        return self._process.poll() is None

    def last_lines(self, count: int = 10) -> str:
        """Return the end of the SuperLink's own log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-count:])

    def flwr(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start Flower's command line, which finds this SuperLink as ``CONNECTION``; its output is one text stream."""
        return subprocess.Popen(
            [shutil.which("flwr", path=self._environment["PATH"]) or "flwr", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )

    def _connect(self, within: float) -> None:
        """Wait until the SuperLink listens, and write its port where Flower's command line looks."""
        deadline = time.monotonic() + within

        def wait() -> None:
            if not self.alive:
                raise AoiError(f"Flower's SuperLink did not start. Its log:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise AoiError(f"Flower's SuperLink did not listen within {within:g} s. Its log:\n{self.last_lines()}")
            time.sleep(0.05)

        while not (found := CONTROL_LISTENS.search(self._log.read_text(errors="replace"))):
            wait()
        port = int(found[1])
        listens(port, wait)
        (self.home / "config.toml").write_text(Addresses(0, 0, port).connection(CONNECTION))

    def _end(self) -> None:
        """Ask the SuperLink to end, wait for everything it started, kill what stays, remove the home."""
        if not hasattr(self, "_process"):
            shutil.rmtree(self.home, ignore_errors=True)
            return
        started = Descendants(self.home)
        try:
            started.living()
            self._process.terminate()
            deadline = time.monotonic() + _GRACE
            while (self.alive or started.living()) and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:  # a second interrupt from the keyboard ends the waiting, not the cleaning
            self._process.kill()
            self._process.wait()
            started.kill()
            if self._process.stdin is not None:
                self._process.stdin.close()
            shutil.rmtree(self.home, ignore_errors=True)


def abandon() -> None:
    """Kill, from within a SuperLink whose caller is gone, whatever it started; remove its home; end."""
    home = Path(os.environ["FLWR_HOME"])
    Descendants(home).kill(but=os.getpid())
    shutil.rmtree(home, ignore_errors=True)
    os._exit(1)


def private_environment(home: Path) -> dict[str, str]:
    """Return the caller's environment, made private to one SuperLink and silent towards the network."""
    environment = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_TMPDIR": str(home),
        "RAY_USAGE_STATS_ENABLED": "0",
        "GRPC_ENABLE_FORK_SUPPORT": "0",  # with gRPC's fork handlers in the way, Ray's processes often do not start
        "PYTHONUNBUFFERED": "1",
        # Flower starts its parts by name; they must be those of this interpreter.
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]),
    }
    environment.pop("RAY_ADDRESS", None)  # it would draw the simulation into somebody's running cluster
    return environment


class Descendants:
    """Whatever was started under a folder that is Flower's home, and what that has started.

    Neither process groups nor parents would do: Flower and Ray start sessions of their own, and a process whose parent
    ended belongs to init. Who was seen once is remembered, should its environment be gone before it is.

    Parameters
    ----------
    home : the folder, ``FLWR_HOME`` in the environment of all of them
    """

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self._seen: set[psutil.Process] = set()

    def living(self) -> list[psutil.Process]:
        """Return those that live."""
        everybody = list(psutil.process_iter(["environ", "ppid"]))  # what may not be read, another user's, is None
        self._seen |= {p for p in everybody if (p.info["environ"] or {}).get("FLWR_HOME") == self._home}
        while children := {p for p in everybody if p.info["ppid"] in {seen.pid for seen in self._seen}} - self._seen:
            self._seen |= children
        return [process for process in self._seen if _lives(process)]

    def kill(self, but: int | None = None) -> None:
        """Kill them all, newcomers included; one may be spared, by its number."""
        for _ in range(100):
            living = [process for process in self.living() if process.pid != but]
            if not living:
                return
            for process in living:
                try:
                    process.kill()
                except psutil.Error:  # it ended meanwhile
                    continue
            time.sleep(0.02)


def _lives(process: psutil.Process) -> bool:
    try:
        # A number that the system has given to another process since is told by the time of birth.
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
