"""Flower's SuperNode, run in this process with other waits, and another SuperExec, than its own."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import grpc

from aoi_fl.flower.errors import is_busy
from aoi_fl.flower.seams import BEATS, LOOP, RETRIES, WARM
from aoi_fl.flower.versions import warn_once

_FIRST_RETRY, _LONGEST_RETRY = 1.0, 20.0  # seconds after a heartbeat that did not come through


class Sleeper(Protocol):
    """What stands for the module ``time`` in the SuperNode's loop, which calls nothing else of it."""

    changed: threading.Event  # set when a heartbeat is due at once

    def sleep(self, seconds: float) -> None:
        """Sleep, for as long as is found right."""

    def heartbeat(self) -> tuple[float, float]:
        """Return the interval that the next heartbeat names, and the seconds until the one after it."""


class Heartbeats:
    """What stands for Flower's ``HeartbeatSender``: heartbeats at intervals of one's own.

    Parameters
    ----------
    send : Flower's function, which sends one with the interval that it finds in its module, and tells whether it came
        through
    pace : says when, and with which
    ended : told why, if they end without :meth:`stop`: nobody would ask this client again
    """

    def __init__(self, send: Callable[[], bool], pace: Sleeper, ended: Callable[[str], object]) -> None:
        self._send, self._pace, self._ended = send, pace, ended
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
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
        from flwr.client.grpc_rere_client import connection

        module: Any = connection
        usual, retry = module.HEARTBEAT_DEFAULT_INTERVAL, _FIRST_RETRY
        refused = False
        while not self._stopped.is_set():
            interval, wait = self._pace.heartbeat()
            module.HEARTBEAT_DEFAULT_INTERVAL = usual if refused else interval
            try:
                came = self._send()
            except grpc.RpcError as error:
                if not refused and interval != usual:
                    refused = True
                    warn_once(
                        f"the SuperLink refuses heartbeats every {interval:g} s, so they arrive as usual: {error}"
                    )
                    continue
                came, code = False, error.code() if isinstance(error, grpc.Call) else error
                warn_once(f"a heartbeat has failed ({code}), and is tried again")
            wait, retry = (wait, _FIRST_RETRY) if came else (retry, min(2 * retry, _LONGEST_RETRY))
            self._pace.changed.wait(min(wait, usual / 2) if refused else wait)
            self._pace.changed.clear()


def be_patient(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a maker of Flower's retries that also try a call again for which the SuperLink is too busy.

    Flower tries again only where no SuperLink answers; its pauses grow, and are drawn at random.
    """

    def make_patient() -> Any:
        retries = make()
        give_up = retries.should_giveup
        retries.should_giveup = lambda error: not is_busy(error) and give_up(error)
        return retries

    return make_patient


def run(waits: Sleeper, start_superexec: Callable[[Sequence[str]], object], ended: Callable[[str], object]) -> None:
    """Run Flower's command, with the arguments of this process, until it ends.

    Parameters
    ----------
    waits : sleeps between two looks for a message (Flower asks for three seconds) and for an answer (half a second),
        and paces heartbeats; where Flower's own cannot be replaced, they come as usual
    start_superexec : is given Flower's command line of the SuperExec, and starts one in its place; where Flower's own
        cannot be replaced, it is not called
    ended : as of :class:`Heartbeats`
    """
    from flwr.supernode.cli import flower_supernode

    if LOOP.there:
        from flwr.supernode import start_client_internal

        loop: Any = start_client_internal
        loop.time = waits
        if RETRIES.there:
            loop.make_simple_grpc_retry_invoker = be_patient(loop.make_simple_grpc_retry_invoker)
        if BEATS.there:
            from flwr.client.grpc_rere_client import connection

            sender: Any = connection
            sender.HeartbeatSender = partial(Heartbeats, pace=waits, ended=ended)
        if WARM.there:
            loop.subprocess = SimpleNamespace(Popen=start_superexec)
        else:
            WARM.say_what_is_lost()
    else:
        LOOP.say_what_is_lost()
    flower_supernode()
