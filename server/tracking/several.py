"""Several observers in the place of one."""

from typing import Any

from flwr.app import ArrayRecord

from aoi_fl.strategies.records import ClientRecord, Observer, RoundRecord, RunObserver, State


class CompositeObserver:
    """Observers that are told one after another, in their order: what counts comes first."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._witnesses = [observer for observer in observers if isinstance(observer, RunObserver)]

    def run_begins(self, policy: dict[str, Any], rounds: int) -> None:
        """Pass it on to those that want to know."""
        for observer in self._witnesses:
            observer.run_begins(policy, rounds)

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.clients_seen(clients)

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.round_done(record, arrays, memory)

    def run_ends(self, stopped: str | None, error: BaseException | None) -> None:
        """Pass it on to those that want to know."""
        for observer in self._witnesses:
            observer.run_ends(stopped, error)


def together(*observers: Observer) -> CompositeObserver:
    """Return an observer that passes on all it is told to several, in their order."""
    return CompositeObserver(observers)
