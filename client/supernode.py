"""Flower's SuperNode for unreliable networks and slow machines.

``python -m aoi_fl.client.supernode`` accepts the options of ``flower-supernode``. Flower retries without a reason if it
does not trust the SuperLink's certificate; this command ends with the reason. It refuses a misspelt key or an invalid
rule of the node configuration. It changes five more things.

- Flower polls for messages in calls without a deadline. When the client's address changes (another network, a renewed
  lease, a reconnected container), such a call waits until the system drops the connection, after a quarter of an hour
  or never. With gRPC's keepalive the call fails within a minute, and Flower reconnects. The timeouts are long enough
  for eight clients that train on two cores: a busy SuperLink does not count as dead.
- Flower polls for messages every three seconds. A round is two or three quick exchanges, then often a long silence.
  Here the pause is short after a message and grows up to Flower's.
- Flower never sleeps: a client that knows its next round goes on to poll, and sends two heartbeats a minute. Here the
  client sleeps until that round, if its configuration allows it (``client/poll_schedule.py``).
- Flower ends with status 0 if the SuperLink refuses this client's clock or key. This command ends with the reason.
- Flower starts a new program for each message. ``client/superexec.py`` has its libraries loaded already.

It has three more options. With ``--session FILE`` it reconnects at once after a power cut (``client/session.py``). With
``--leave`` it ends instead of sleeping for minutes, and a timer starts it again. With ``--app-socket FILE`` the app's
processes run in a sandbox and connect to ``FILE`` (``client/sandbox.py``).
"""

import argparse
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import grpc

from aoi_fl.client import sandbox, superexec
from aoi_fl.client.device import checks, reach, receipts
from aoi_fl.client.device.node import check, read
from aoi_fl.client.gate.book import Book
from aoi_fl.client.gate.gate import Gate
from aoi_fl.client.gate.rules import KEYS, STATE
from aoi_fl.client.gatekeeper import Gatekeeper
from aoi_fl.client.poll_schedule import NAP_FILE, PollSchedule, laid_down
from aoi_fl.client.session import Heard, take_up
from aoi_fl.flower import supernode
from aoi_fl.flower.superlink import free_ports, own_address
from aoi_fl.protocol.files import absolute
from aoi_fl.protocol.log import logger
from aoi_fl.science.errors import ConfigError

# An active SuperNode receives an answer every three seconds; gRPC then sends no keepalive pings.
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 30_000),  # of the pings that measure bandwidth; no other ping is sent meanwhile
    ("grpc.http2.max_pings_without_data", 0),
)
ANSWER_LOOK = 0.1  # seconds between two polls for the reply of the client's own process
# Seconds before a failed SuperNode ends. Docker doubles its pause before each restart, and resets it after a container
# that has run for ten seconds.
PAUSE = 10.0
_superexecs: list[subprocess.Popen[bytes]] = []


def keep_alive(make: Callable[..., grpc.Channel]) -> Callable[..., grpc.Channel]:
    """Return a function that makes channels as ``make`` does, with keepalive."""

    def channel(*arguments: Any, options: Any = None, **more: Any) -> grpc.Channel:
        return make(*arguments, options=[*(options or ()), *KEEPALIVE], **more)

    return channel


class BackingOff:
    """A replacement of ``time`` in the SuperNode's loop; it also paces the heartbeats.

    Flower's loop polls for a reply every half second while the ClientApp works, here more often. Between messages it
    sleeps for three seconds. Here the pause grows with the silence, or lasts until the next message can arrive if the
    ClientApp has written that time (:mod:`aoi_fl.client.poll_schedule`).

    Parameters
    ----------
    nap : the file into which the ClientApp writes it
    heard : called with the file's content when all messages are answered
    """

    def __init__(self, nap: Path, heard: Heard | None) -> None:
        self._nap, self._heard = nap, heard
        self._looks = PollSchedule(time.monotonic())
        self._awake: float | None = None  # end of the last pause between polls
        self.changed = threading.Event()

    def sleep(self, seconds: float) -> None:
        """Sleep until the next poll by our schedule, whatever the loop asks."""
        now = time.monotonic()
        if seconds < 1:
            self._looks.answered(now)
            time.sleep(min(seconds, ANSWER_LOOK))
            self._awake = None
            return
        if (content := laid_down(self._nap)) is not None:
            following, node = content
            self._looks.answered(now, following)
            if self._heard is not None:
                self._heard(following, node)
            if following.asleep:
                self.changed.set()
        time.sleep(self._looks.wait(now, 0.0 if self._awake is None else now - self._awake))
        self._awake = time.monotonic()

    def heartbeat(self) -> tuple[float, float]:
        """Return the interval in the next heartbeat, and the seconds until the one after it."""
        return self._looks.heartbeat(time.monotonic())


def start_forking(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start our SuperExec instead of ``flower-superexec``; when it ends, the SuperNode ends too."""
    process = subprocess.Popen([*superexec.COMMAND, *command[1:]])
    _superexecs.append(process)

    def watch() -> None:
        process.wait()
        fail("the SuperExec has ended, so no message would get an answer")

    threading.Thread(target=watch, daemon=True).start()
    return process


def fail(reason: str) -> NoReturn:
    """End this process with a failure; its supervisor starts it again."""
    print(f"this SuperNode ends: {reason}", file=sys.stderr, flush=True)
    time.sleep(PAUSE)
    _end(1)


def leave(reason: str) -> NoReturn:
    """End this process with success."""
    print(f"this SuperNode ends: {reason}", flush=True)
    _end(0)


def _end(status: int) -> NoReturn:
    for process in _superexecs:  # an orphan would look for this process for ever
        process.terminate()
    os._exit(status)


def own_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return this command's own options, and the arguments left for Flower's command."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--session", type=Path)
    parser.add_argument("--leave", action="store_true")
    parser.add_argument("--app-socket", type=Path)
    parser.add_argument("--clientappio-api-address")  # the newest Flower has two options in its place
    return parser.parse_known_args(arguments)


def make_gatekeeper(node: Mapping[str, Any], server: str, key: Path | None) -> Gatekeeper | None:
    """Return the gatekeeper of a node, and log what closes its gate; None for a node without a ``state-dir``.

    Raises
    ------
    ConfigError : a rule is invalid, or there is no ``state-dir`` for the rules, or no key in the file.
    """
    sign = {} if key is None else {"sign": receipts.signer(key)}
    if STATE in node:
        folder = Path(str(node[STATE]))
        for finding in checks.durable(folder):
            if finding.status == "fail":
                logger.warning("The owner's gate: %s: %s. %s", finding.check, finding.found, finding.remedy)
        return Gatekeeper(Gate(node, server, Book(folder, **sign)), node)
    if not node.keys().isdisjoint(KEYS):
        allowed = "set in node.toml, because the owner's rules need durable state"
        raise ConfigError(STATE, None, allowed, "Set it to a folder of this client.")
    return None


def node_config(given: str | None) -> dict[str, Any]:
    """Return the configuration of the option ``--node-config``, a file or key=value pairs."""
    if given and given.endswith(".toml"):
        return read(absolute(given), "--node-config")
    return supernode.node_config(given)


def main() -> None:
    """Run Flower's command with keepalive, growing pauses and a SuperExec that forks."""
    ours, sys.argv[1:] = own_options(sys.argv[1:])
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("--superlink", "--root-certificates", "--auth-supernode-private-key", "--node-config"):
        parser.add_argument(name)
    given, _ = parser.parse_known_args()
    link, authority, key = given.superlink, given.root_certificates, given.auth_supernode_private_key
    if ours.session and not (link and authority and key):
        sys.exit("--session needs --superlink, --root-certificates and --auth-supernode-private-key.")
    try:
        node = node_config(given.node_config)
        check(node)
        keeper = make_gatekeeper(node, link or "", Path(key) if key else None)
        if link and authority:
            reach.check(link, Path(authority))
    except (OSError, ValueError) as error:
        fail(str(error))

    grpc.secure_channel, grpc.insecure_channel = keep_alive(grpc.secure_channel), keep_alive(grpc.insecure_channel)
    try:
        heard = None
        if ours.session:
            heard = take_up(ours.session, link, Path(authority), Path(key), leave if ours.leave else None)
        with TemporaryDirectory() as folder:
            nap = Path(folder) / "nap"
            if ours.app_socket:
                nap, (port,) = sandbox.nap_file(ours.app_socket), free_ports(1)
                sandbox.serve(ours.app_socket, port)
                sys.argv += ["--isolation", "process", *own_address(port)]
            elif ours.clientappio_api_address:
                host, _, own = ours.clientappio_api_address.rpartition(":")
                sys.argv += own_address(own, host)
            os.environ[NAP_FILE] = str(nap)  # all processes of this client inherit it
            supernode.run(BackingOff(nap, heard), start_forking, fail, keeper)
    except ConfigError as error:
        fail(str(error))
    except Exception as error:  # threads of Flower's servers would keep a refused SuperNode alive
        traceback.print_exc()
        fail(str(error))


if __name__ == "__main__":
    main()
