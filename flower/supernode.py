"""Run Flower's SuperNode in this process with our pauses, heartbeats and SuperExec."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Protocol

import grpc

from aoi_fl.flower.errors import code_of, details_of, is_busy
from aoi_fl.flower.gate import GateDoors, Keeper
from aoi_fl.flower.seams import GATE, LINK
from aoi_fl.flower.versions import OVER_GRPC, check_deployable, warn_once

_FIRST_RETRY, _LONGEST_RETRY = 1.0, 20.0  # seconds after a failed heartbeat


class Sleeper(Protocol):
    """The replacement of the module ``time`` in the SuperNode's loop, which only sleeps."""

    changed: threading.Event  # set when a heartbeat is due at once

    def sleep(self, seconds: float) -> None:
        """Sleep for a time of the sleeper's choice; ``seconds`` is Flower's."""

    def heartbeat(self) -> tuple[float, float]:
        """Return the interval in the next heartbeat, and the seconds until the one after it."""


class Heartbeats:
    """A replacement of Flower's ``HeartbeatSender`` with a choice of intervals.

    Parameters
    ----------
    send : Flower's function; it sends a heartbeat with its module's interval and returns whether that succeeded
    pace : chooses the intervals and pauses
    ended : called with the reason if heartbeats end without :meth:`stop`; the client would then receive no messages
    """

    def __init__(self, send: Callable[[], bool], pace: Sleeper, ended: Callable[[str], object]) -> None:
        self._send, self._pace, self._ended = send, pace, ended
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start the heartbeats."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeats."""
        self._stopped.set()
        self._pace.changed.set()
        self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether heartbeats are sent."""
        return self._thread.is_alive() and not self._stopped.is_set()

    def _run(self) -> None:
        try:
            self._beat()
        except Exception as error:
            self._ended(f"its heartbeats have ended: {error}")

    def _beat(self) -> None:
        module = link()
        retry = _FIRST_RETRY
        while not self._stopped.is_set():
            module.HEARTBEAT_DEFAULT_INTERVAL, wait = self._pace.heartbeat()
            try:
                success = self._send()
            except Exception as error:
                if not (isinstance(error, grpc.RpcError) or hasattr(error, "response")):  # the latter over HTTP
                    raise
                success, code = False, error.code() if isinstance(error, grpc.Call) else error
                warn_once(f"a heartbeat has failed ({code}) and is retried")
            wait, retry = (wait, _FIRST_RETRY) if success else (retry, min(2 * retry, _LONGEST_RETRY))
            self._pace.changed.wait(wait)
            self._pace.changed.clear()


def link() -> Any:
    """Return Flower's module of a SuperNode's connection, over gRPC or HTTP."""
    return import_module(LINK)


def be_patient(make: Callable[[], Any], ended: Callable[[str], object]) -> Callable[[], Any]:
    """Wrap Flower's factory of retries: they also retry calls that a busy SuperLink refuses.

    Flower retries only if no SuperLink answers, with growing random pauses. At a refused signature it ends with status
    0, and at a refused key without the reason; here ``ended`` is called with the reason.
    """

    def make_patient() -> Any:
        retries = make()
        give_up = retries.should_giveup

        def gives_up(error: Exception) -> bool:
            if code_of(error) in ("UNAUTHENTICATED", "FAILED_PRECONDITION"):
                ended(_refusal(error))
            return not is_busy(error) and bool(give_up(error))

        retries.should_giveup = gives_up
        return retries

    return make_patient


def _refusal(error: Any) -> str:
    """Return why the SuperLink refuses a call of this client, and the remedy."""
    from aoi_fl.flower.fleet import AHEAD, BEHIND

    details = details_of(error)
    clock = (
        f"its clock is more than {AHEAD:g} s ahead of the SuperLink's, or {BEHIND:g} s behind it. Set the clock: "
        "sudo timedatectl set-ntp true"
    )
    key = (
        f"the SuperLink refuses its key ({details}). Ask the operator to register it, or wait a minute for the end of "
        "this client's former session"
    )
    if not OVER_GRPC:  # where a wrong clock and a wrong key have one answer
        return f"{key}. Or {clock}"
    return clock if "timestamp" in details else key


def node_config(given: str | None) -> dict[str, Any]:
    """Return the node configuration of the option ``--node-config``: a TOML file, or key=value pairs."""
    command: Any = import_module("flwr.supernode.cli.flower_supernode")
    values: dict[str, Any] = command.parse_config_args([given] if given else None)
    return values


def run(
    waits: Sleeper,
    start_superexec: Callable[[Sequence[str]], object],
    ended: Callable[[str], object],
    keeper: Keeper | None = None,
) -> None:
    """Run Flower's SuperNode command with this process's arguments until it ends.

    Parameters
    ----------
    waits : pauses between two polls for a message (Flower: three seconds) and for a reply (Flower: half a second), and
        paces heartbeats
    start_superexec : called with Flower's command line of the SuperExec to start ours
    ended : called with the reason if the client can receive no more messages
    keeper : decides about messages and replies
    """
    check_deployable()
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    loop: Any = start_client_internal
    loop.time = waits
    retries = (loop, "make_simple_grpc_retry_invoker") if OVER_GRPC else (link(), "make_simple_http_retry_invoker")
    setattr(*retries, be_patient(getattr(*retries), ended))
    link().HeartbeatSender = partial(Heartbeats, pace=waits, ended=ended)
    loop.subprocess = SimpleNamespace(Popen=start_superexec)
    if keeper is not None:
        if keeper.binds and (missing := GATE.missing()):
            ended(f"{GATE.lost}: this Flower has no {', '.join(missing)}")
        doors = GateDoors(keeper)
        loop._init_connection = partial(doors.connection, loop._init_connection)
        loop._push_messages = partial(doors.push_messages, loop._push_messages)
    flower_supernode()
