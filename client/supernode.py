"""Flower's SuperNode, for networks that change and machines for which starting a program is work.

``python -m aoi_fl.client.supernode`` takes what ``flower-supernode`` takes. It says why it does not trust a SuperLink,
where Flower tries again and again, and mends four more habits.

- Flower asks the SuperLink for messages in calls without a deadline; where the client's address changes (another
  network, a renewed lease, a container that is connected again), such a call waits for an answer that cannot come until
  the system gives the connection up, a quarter of an hour later or never. gRPC's own keepalive finds out within a
  minute; the call then fails, and Flower connects anew. It is patient enough for two cores that eight clients train on:
  a busy SuperLink is not a dead one.
- Flower looks for messages every three seconds. A round is two or three exchanges one right after the other, then
  perhaps nothing for long: here the wait is short after a message and grows with the silence, up to Flower's own.
- Flower never sleeps: a client that knows its next round goes on looking, and sends a heartbeat twice a minute. Here it
  sleeps until then, if its configuration lets it (``client/poll_schedule.py``).
- Flower starts a new program for every message: ``client/superexec.py`` has its libraries loaded already.

Two options are its own. With ``--session FILE`` it is let in at once after a power cut (``client/session.py``); with
``--leave`` beside that it ends where it would sleep for minutes, for a timer to start it again.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import grpc

from aoi_fl.client import superexec
from aoi_fl.client.device import reach
from aoi_fl.client.poll_schedule import NAP_FILE, PollSchedule, laid_down
from aoi_fl.client.session import Heard, take_up
from aoi_fl.flower import supernode
from aoi_fl.science.errors import ConfigError

# A SuperNode that works hears of the SuperLink every three seconds, and then nothing is sent to keep it alive.
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.http2.ping_timeout_ms", 30_000),  # of the pings that measure the line; none other is sent meanwhile
    ("grpc.http2.max_pings_without_data", 0),
)
ANSWER_LOOK = 0.1  # seconds between two looks for the answer of the client's own process
# Seconds before the end of a SuperNode that failed. Docker, which doubles its wait before each restart, begins anew
# after a container that lived for ten.
PAUSE = 10.0


def keep_alive(make: Callable[..., grpc.Channel]) -> Callable[..., grpc.Channel]:
    """Return a function that makes channels like ``make``, with keepalive."""

    def channel(*arguments: Any, options: Any = None, **more: Any) -> grpc.Channel:
        return make(*arguments, options=[*(options or ()), *KEEPALIVE], **more)

    return channel


class BackingOff:
    """What the SuperNode's loop knows as ``time``, and what paces its heartbeats (:mod:`aoi_fl.client.poll_schedule`).

    While an answer is computed the loop looks for it every half second: those looks tell of work, and they may come
    more often. Between messages it would sleep for three; here the sleep grows with the silence, and where the
    ClientApp has laid down that none can come, it lasts until one can.

    Parameters
    ----------
    nap : the file in which the ClientApp does so
    clock, sleep : of seconds
    heard : told what was laid down, when all is answered
    """

    def __init__(
        self,
        nap: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        heard: Heard | None = None,
    ) -> None:
        self._nap, self._clock, self._sleep, self._heard = nap, clock, sleep, heard
        self._looks = PollSchedule(clock())
        self._awake: float | None = None  # since when it is, to look and for nothing else
        self.changed = threading.Event()

    def sleep(self, seconds: float) -> None:
        """Sleep for less than is asked, or through a nap."""
        now = self._clock()
        if seconds < 1:
            self._looks.answered(now)
            self._sleep(min(seconds, ANSWER_LOOK))
            self._awake = None
            return
        if self._nap is not None and (said := laid_down(self._nap)) is not None:
            told, node = said
            self._looks.answered(now, told)
            if self._heard is not None:
                self._heard(told, node)
            if told.asleep:
                self.changed.set()
        self._sleep(self._looks.wait(now, 0.0 if self._awake is None else now - self._awake))
        self._awake = self._clock()

    def heartbeat(self) -> tuple[float, float]:
        """Return the interval that a heartbeat is to name, and the seconds until the next one."""
        return self._looks.heartbeat(self._clock())


def start_forking(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start our SuperExec in the place of ``flower-superexec``; the SuperNode, deaf without it, ends soon after it."""
    process = subprocess.Popen([*superexec.COMMAND, *command[1:]])

    def watch() -> None:
        process.wait()
        fail("the SuperExec has ended, so no message would get an answer")

    threading.Thread(target=watch, daemon=True).start()
    return process


def fail(reason: str) -> NoReturn:
    """End this process with all its threads; its supervisor starts it again."""
    print(f"this SuperNode ends: {reason}", file=sys.stderr, flush=True)
    time.sleep(PAUSE)
    os._exit(1)


def leave(reason: str) -> NoReturn:
    """End this process, which has done what there was to do."""
    print(f"this SuperNode ends: {reason}", flush=True)
    os._exit(0)


def own_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options that are this command's own, and those that are left for Flower's."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--session", type=Path)
    parser.add_argument("--leave", action="store_true")
    return parser.parse_known_args(arguments)


def main() -> None:
    """Run Flower's command with channels that are kept alive, waits that back off, and a SuperExec that forks."""
    ours, sys.argv[1:] = own_options(sys.argv[1:])
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("--superlink", "--root-certificates", "--auth-supernode-private-key"):
        parser.add_argument(name)
    given, _ = parser.parse_known_args()
    link, authority, key = given.superlink, given.root_certificates, given.auth_supernode_private_key
    if ours.leave and not ours.session:
        sys.exit("--leave needs --session FILE, which holds the time of the return.")
    if ours.session and not (link and authority and key):
        sys.exit("--session needs --superlink, --root-certificates and --auth-supernode-private-key.")
    if link and authority:
        reach.check(link, Path(authority))

    grpc.secure_channel, grpc.insecure_channel = keep_alive(grpc.secure_channel), keep_alive(grpc.insecure_channel)
    try:
        heard = None
        if ours.session:
            heard = take_up(ours.session, link, Path(authority), Path(key), leave if ours.leave else None)
        with TemporaryDirectory() as folder:
            os.environ[NAP_FILE] = str(Path(folder) / "nap")  # known to all processes of this client
            supernode.run(BackingOff(Path(os.environ[NAP_FILE]), heard=heard), start_forking, fail)
    except ConfigError as error:
        fail(str(error))
    except Exception as error:  # Flower's servers go on in threads that would keep alive a SuperNode that was refused
        traceback.print_exc()
        fail(str(error))


if __name__ == "__main__":
    main()
