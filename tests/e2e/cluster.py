"""A Compose project of this checkout, as the tests start it, hurt it, and look into its ledger."""

import json
import os
import re
import select
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FIRST = 50_000  # the user of client 0
PAGE = (ROOT / "docs/deployment.md").read_text("utf-8")
NEWEST = os.environ.get("AOI_E2E_FLOWER") == "newest"  # the newest Flower over HTTP, in place of 1.34 over gRPC
_FLOWER = (
    {"AOI_IMAGE": "aoi-e2e:http", "COMPOSE_FILE": "compose.yaml:docker/http.yaml"}
    if NEWEST
    else {"AOI_IMAGE": "aoi-e2e:cpu"}
)
_PATIENCE = 900  # seconds for whatever is awaited; a slow machine takes minutes for a few rounds
# A word in the command line of what runs a client's app: from 1.35 on each message starts a program.
CLIENT_APP = "flwr-clientapp" if NEWEST else "multiprocessing.forkserver"
# One process answers each look at a ledger: to start one for each would take much of a small machine.
_READ = """
import json, sqlite3, sys
for line in sys.stdin:
    found = {}
    try:
        db = sqlite3.connect(f"file:/runs/{line.strip()}/ledger.sqlite?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        for table in ("rounds", "participations", "clients"):
            found[table] = [dict(row) for row in db.execute(f"SELECT * FROM {table}")]
        found["run"] = {key: json.loads(value) for key, value in db.execute("SELECT * FROM run")}
        db.close()
    except sqlite3.OperationalError:  # not there yet, or just being made
        found = {}
    print(json.dumps(found), flush=True)
"""


def engine_problem() -> str:
    """Return why there is no usable engine, or nothing."""
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except OSError as error:
            return str(error)
        if done.returncode:
            return (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
    return ""


def python(code: str) -> str:
    """Return a shell command that runs a piece of Python."""
    return f"python - <<'END'\n{code}\nEND\n"


def start(cluster: "Cluster", run: str, rounds: int, scale: int = 4, **settings: str) -> None:
    """Submit a run to four clients, ``scale`` of which are the cluster's own; it is started with it, or goes on."""
    cluster.compose("up", "-d", "--no-build", "--scale", f"client={scale}", timeout=180, **_keys(run, rounds, settings))


def queue(cluster: "Cluster", run: str, rounds: int, **settings: str) -> str:
    """Queue a run of four clients; return the container that follows it."""
    said = cluster.compose("run", "-d", "--no-deps", "submit", "runs", "queue", **_keys(run, rounds, settings))
    return said.split()[-1]


def _keys(run: str, rounds: int, settings: dict[str, str]) -> dict[str, Any]:
    mine = {"AOI_RUN_NAME": run, "AOI_NUM_SERVER_ROUNDS": str(rounds), "AOI_NUM_CLIENTS": "4", "AOI_PRESET": "papers"}
    return mine | settings


def _done(command: list[str] | str, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command; both of its streams are one."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False, **options
    )


def _run(command: list[str], check: bool, timeout: float, **options: Any) -> str:
    """Run a command and return what it printed on both streams."""
    done = _done(command, timeout, **options)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


class Cluster:
    """One Compose project under a name of its own; the caller's AOI_ variables play no part."""

    def __init__(self, project: str, **settings: str) -> None:
        self.project = project
        self._reader: subprocess.Popen[str] | None = None  # answers :meth:`ledger`
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AOI_", "COMPOSE_"))}
        index = {k: v for k, v in os.environ.items() if k in ("AOI_TORCH", "AOI_TORCH_INDEX", "AOI_FLOWER")}
        self.environment = inherited | index | _FLOWER | settings

    def compose(self, *arguments: str, check: bool = True, timeout: float = 120, **settings: str) -> str:
        """Run a Compose command and return what it printed."""
        command = ["docker", "compose", "--env-file", os.devnull, "-p", self.project, *arguments]
        return _run(command, check, timeout, cwd=ROOT, env=self.environment | settings)

    def operate(self, command: str, **words: str) -> tuple[int, str]:
        """Run a command as docs/deployment.md has it, from another shell; return its status and what it printed.

        ``words`` replace words of the command, such as RUN.
        """
        assert re.search(rf"^{re.escape(command)}( *$| +#| {{2,}})", PAGE, re.MULTILINE), f"no page has {command}"
        for word, value in words.items():
            command = re.sub(rf"\b{word}\b", value, command)
        compose = {"COMPOSE_PROJECT_NAME": self.project, "COMPOSE_ENV_FILES": os.devnull}
        other = {"AOI_LOG_LEVEL": "DEBUG", "AOI_SUPERLINK_HOSTS": "other.example", "AOI_NUM_CLIENTS": "9"}
        done = _done(command, 300, shell=True, cwd=ROOT, env=self.environment | compose | other)
        return done.returncode, done.stdout

    def identity(self, service: str) -> str:
        """Return what changes when a service's container is recreated or restarted."""
        return self.docker("inspect", "-f", "{{.Id}} {{.State.StartedAt}}", self.container(service))

    def is_running(self, container: str) -> bool:
        """Tell whether a container runs, or is there at all."""
        return "running" in self.docker("inspect", "-f", "{{.State.Status}}", container, check=False)

    def unharmed(self, container: str) -> bool:
        """Tell that a container was never started again, nor ended for want of memory."""
        killed = self.docker("inspect", "-f", "{{.State.OOMKilled}}", container).strip()
        return self.restarts(container) == 0 and killed == "false"

    def down(self) -> None:
        """End every container of the project, and remove its networks and volumes."""
        self.dismiss()
        mine = self.docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={self.project}", check=False)
        if mine.split():  # those of `compose run` too, which `down` leaves
            self.docker("rm", "--force", *mine.split(), check=False)
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "2", check=False)

    def dismiss(self) -> None:
        """Remove every intruder."""
        strays = self.docker("ps", "-aq", "--filter", f"label=e2e={self.project}", check=False)
        self.docker("rm", "--force", *strays.split(), check=False)

    def docker(self, *arguments: str, check: bool = True, timeout: float = 120) -> str:
        """Run a Docker command and return what it printed on both streams."""
        return _run(["docker", *arguments], check, timeout)

    # Looking ---------------------------------------------------------------------------------------------------------

    def container(self, service: str, index: int = 1) -> str:
        """Return the name of a service's container."""
        return f"{self.project}-{service}-{index}"

    def containers(self, service: str) -> list[str]:
        """Return the names of a service's containers."""
        names = self.docker("ps", "--format", "{{.Names}}", "--filter", f"name={self.project}-{service}-")
        return sorted(names.split())

    def client_of(self, number: int) -> str:
        """Return the container that is client ``number`` now."""
        for name in self.containers("client"):
            if self.name_of(name) == f"client-{number}":
                return name
        raise AssertionError(f"no container is client-{number}")

    def inside(self, number: int, *command: str, check: bool = True) -> str:
        """Run a command in the container of client ``number``, as the user of its app."""
        user = str(FIRST + number)
        return self.docker("exec", "-u", user, "-e", f"HOME=/tmp/{user}", self.client_of(number), *command, check=check)

    def name_of(self, container: str) -> str:
        """Return the name of the client that a container is now, or nothing."""
        lines = self.docker("logs", container).splitlines()
        said = (line.removeprefix("this is ") for line in reversed(lines) if line.startswith("this is "))
        return next(said, "").partition(",")[0]

    def logs(self, service: str) -> str:
        """Return what the containers of a service have said."""
        return self.compose("logs", "--no-color", "--no-log-prefix", service)

    def exit_status(self, container: str) -> int | None:
        """Return a container's exit status, or None while it runs."""
        status, code = self.docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", container).split()
        return int(code) if status == "exited" else None

    def ledger(self, run: str) -> dict[str, Any]:
        """Return the ledger of a run: rounds, participations, clients, run."""
        if self._reader is None or self._reader.poll() is not None:
            command = ["docker", "exec", "-i", self.container("page"), "python", "-c", _READ]
            self._reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._reader.stdout is not None
        print(run, file=self._reader.stdin, flush=True)
        assert select.select([self._reader.stdout], [], [], 120)[0], "the page's container does not answer"
        found: dict[str, Any] = json.loads(self._reader.stdout.readline())
        return found

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the operator's list of runs, by their names."""
        text = self.compose("run", "--rm", "--no-deps", "submit", "runs", "list", "--json")
        return {row["run"]: row for row in json.loads(text[text.index('{"runs"') :])["runs"]}

    def page(self, path: str) -> str:
        """Return what the page shows at a path."""
        address = f"http://127.0.0.1:{self.environment['AOI_PAGE_PORT']}/{path}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            shown: str = answer.read().decode()
        return shown

    def last_round(self, run: str) -> int:
        """Return the last round that is recorded."""
        return max((row["round"] for row in self.ledger(run).get("rounds", [])), default=0)

    def await_round(self, run: str, round_: int) -> None:
        """Wait until a round is recorded."""
        self.await_(lambda: self.last_round(run) >= round_, f"round {round_} of {run}")

    def await_(self, condition: Callable[[], bool], what: str, pause: float = 2.0) -> None:
        """Wait until something holds, with pauses between looks; fail with what the run says when it does not come."""
        end = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > end:
                services = "client", "superexec", "submit"
                said = "\n".join(f"{service}:\n{self.logs(service)[-3000:]}" for service in services)
                raise AssertionError(f"{what} did not come within {_PATIENCE} s:\n{said}")
            time.sleep(pause)

    def await_end(self, submit: str = "") -> int:
        """Wait for the end of the run and return the exit status of ``submit``."""
        name = submit or self.container("submit")
        self.await_(lambda: self.exit_status(name) is not None, "the end of the run", 1.0)
        status = self.exit_status(name)
        assert status is not None
        return status

    # Hurting ---------------------------------------------------------------------------------------------------------

    def processes(self, container: str) -> list[int]:
        """Return the numbers that a container's processes have on this machine."""
        return [int(line) for line in self.docker("top", container, "-eo", "pid").split()[1:]]

    def kill_process(self, container: str, program: str) -> None:
        """Kill the program of a container whose command line holds a word, and not its forks, which share it."""
        lines = self.docker("top", container, "-eo", "pid,ppid,args").splitlines()[1:]
        found = [line.split()[:2] for line in lines if program in line and "docker-init" not in line]
        forked = {pid for pid, _ in found}
        (first,) = (int(pid) for pid, parent in found if parent not in forked)
        os.kill(first, signal.SIGKILL)

    def crash(self, container: str) -> None:
        """Kill a container's first process, and so all of them; unlike `docker kill` it is restarted by its policy."""
        os.kill(int(self.docker("inspect", "-f", "{{.State.Pid}}", container)), signal.SIGKILL)

    def signal(self, container: str, which: signal.Signals) -> None:
        """Send a signal to all processes of a container."""
        for pid in self.processes(container):
            try:
                os.kill(pid, which)
            except ProcessLookupError:
                continue

    def is_training(self, container: str) -> bool:
        """Tell whether a client has been sent a model and has not yet answered."""
        return "Receiving: train" in self._last_line(container, "Receiving: ", "Sending: ")

    def hold_up(self, container: str) -> bool:
        """Stop a client in mid-training; tell whether it was, and let go of one that has answered meanwhile."""
        if not self.is_training(container):
            return False
        self.signal(container, signal.SIGSTOP)
        if self.is_training(container):
            return True
        self.signal(container, signal.SIGCONT)
        return False

    def is_idle(self, container: str) -> bool:
        """Tell whether a client has answered everything that it was sent."""
        return "Sent" in self._last_line(container, "Receiving: ", "Sent successfully")

    def _last_line(self, container: str, *words: str) -> str:
        """Return the last line of a log that holds one of some words, or nothing."""
        lines = self.docker("logs", "--tail", "40", container).splitlines()
        return next((line for line in reversed(lines) if any(word in line for word in words)), "")

    def restarts(self, container: str) -> int:
        """Return how often Docker has started a container again."""
        return int(self.docker("inspect", "-f", "{{.RestartCount}}", container))

    def trained(self, run: str, client: int, after: int = 0) -> bool:
        """Tell whether a client's update counted in a round after one."""
        parts = self.ledger(run).get("participations", [])
        return any(p["client"] == client and p["outcome"] == "trained" and p["round"] > after for p in parts)

    def crash_client(self, container: str) -> Callable[[], bool]:
        """Crash a client; return a function that tells whether it has connected again."""
        before = self._connections(container)
        self.crash(container)
        return lambda: self._connections(container) > before

    def _connections(self, container: str) -> int:
        return self.docker("logs", container).count("SuperNode ID")

    def intruder(self, name: str, *command: str, mounts: tuple[str, ...] = (), network: str = "fleet") -> str:
        """Start a container of the image outside the project and return its name; ``down`` removes it.

        The image has the label of the project that built it, and a container inherits it: without a label of its own,
        the end of another cluster would remove the container.
        """
        full = f"{self.project}-{name}"
        volumes = [part for mount in mounts for part in ("-v", f"{self.project}_{mount}")]
        self.docker(
            *("run", "-d", "--name", full, "--label", f"e2e={self.project}", "--init"),
            *("--label", f"com.docker.compose.project={full}"),
            *("--network", f"{self.project}_{network}", "--network-alias", name),
            *volumes,
            *(self.environment["AOI_IMAGE"], *command),
        )
        return full
