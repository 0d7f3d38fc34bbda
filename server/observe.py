"""The observer of finished rounds: it writes ledger and checkpoints and prints progress."""

import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from aoi_fl.protocol import default_name
from aoi_fl.protocol.arrays import from_record
from aoi_fl.protocol.own_code import call_own
from aoi_fl.protocol.records import NO_COLUMNS, ClientRecord, Participation, RoundRecord, State
from aoi_fl.server.checkpoint import Checkpoint, Checkpoints
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.logs import tell
from aoi_fl.strategies.validation import one_line

OnRound = Callable[[dict[str, Any]], object]
HOOK: ContextVar[OnRound | None] = ContextVar("HOOK", default=None)  # of a run that Python starts
_USUAL = 9  # last rounds, the median of which estimates a round's duration


class Recorder:
    """An observer that writes ledger and checkpoints, and prints a line of progress per round.

    Parameters
    ----------
    ledger : the run's ledger
    checkpoints : the run's checkpoints; None: no checkpoints, and the run cannot be resumed
    rounds : number of rounds, for the remaining time; None: unknown
    """

    def __init__(self, ledger: Ledger, checkpoints: Checkpoints | None, rounds: int | None) -> None:
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._rounds = rounds
        self._seconds: deque[float] = deque(maxlen=_USUAL)

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Write the clients into the ledger."""
        self._ledger.add_clients(clients)

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Write checkpoint, then ledger, which commits the round; then print its line."""
        if self._checkpoints is not None:
            self._checkpoints.save(Checkpoint(record.round, from_record(arrays), memory))
        self._ledger.add_round(record)
        if self._checkpoints is not None:
            self._checkpoints.prune(record.round, record.round - 1)
        self._seconds.append(record.seconds)
        left = None if self._rounds is None else seconds_left(list(self._seconds), self._rounds - record.round)
        tell(progress_line(record, self._rounds, left), record)


class Hook:
    """An observer that hands each round to a function, and ends the run once the function returns a true value.

    Parameters
    ----------
    function : receives the round as in the ledger's ``rounds``, with a key for each metric
    finish : ends the run, with the reason
    """

    def __init__(self, function: OnRound, finish: Callable[[str], None]) -> None:
        self._function, self._finish = function, finish

    def clients_seen(self, clients: list[ClientRecord]) -> None:
        """Do nothing."""

    def round_done(self, record: RoundRecord, arrays: ArrayRecord, memory: State) -> None:
        """Call the function."""
        row = asdict(record)
        row |= row.pop("metrics")
        shown = {key: row[key] for key in row if key not in NO_COLUMNS}
        wanted = "a function that returns None, a truth value or a reason"
        if answer := call_own("on_round", self._function, shown, made=_ending, wanted=wanted):
            self._finish(answer if isinstance(answer, str) else f"the hook stopped it after round {record.round}")


def _ending(answer: object) -> object:
    if answer is not None and not isinstance(answer, str | int | np.bool_):  # a generator is true, and has not begun
        raise TypeError
    return answer


def seconds_left(seconds: Sequence[float], rounds_left: int) -> float | None:
    """Return a run's remaining seconds, by the median of its last rounds.

    The first round includes the start of clients, so the result is None until the second round.

    Examples
    --------
    >>> seconds_left([60.0, 2.0, 2.0, 2.1], rounds_left=10)
    20.0
    """
    if len(seconds) < 2 and rounds_left:
        return None
    return statistics.median_low(seconds[-_USUAL:]) * rounds_left


def progress_line(record: RoundRecord, rounds: int | None, seconds_left: float | None) -> str:
    """Return one round as a line for people."""
    trained = [p for p in record.participations if p.outcome == "trained"]
    ages = [p.age for p in trained if p.age is not None]
    clients = _clients(sorted(trained, key=lambda p: p.client)) or "no client"
    parts = [
        f"round {record.round}" if rounds is None else f"round {record.round:>{len(str(rounds))}}/{rounds}",
        f"{clients}{' (forced)' if record.forced else ''}",
        f"age {sum(ages) / len(ages):.1f}" if ages else "age –",
        _first({"loss": record.test_loss, "clients' loss": record.client_loss, "train loss": record.train_loss}),
        _first(
            {
                "accuracy": record.test_accuracy,
                "rmse": record.test_rmse,
                "clients' accuracy": record.client_accuracy,
                "clients' rmse": record.client_rmse,
                **dict(sorted(record.metrics.items(), key=lambda one: one[0].startswith("train_"))),
            }
        ),
        f"{record.seconds:.1f} s",
    ]
    if record.epsilon is not None:
        parts.append(f"ε {record.epsilon:.3g}")
    if record.clock is not None:
        parts.append(f"clock {duration(record.clock)}")
    if seconds_left is not None:
        parts.append(f"{duration(seconds_left)} left")
    if record.dropped:
        parts.insert(2, f"{record.dropped} dropped")
    return " | ".join(parts)


def _clients(trained: Sequence[Participation]) -> str:
    """Return the first clients of a round by number, or by the names that the data or the devices give them."""
    named = any(p.name != default_name(p.client) for p in trained)
    first = trained[: 5 if named else 20]
    shown = ", ".join(one_line(p.name) for p in first) if named else " ".join(str(p.client) for p in first)
    return shown if len(trained) == len(first) else f"{shown} … ({len(trained)})"


def _first(values: Mapping[str, float | None]) -> str:
    """Return the first value that was measured, with its name."""
    for name, value in values.items():
        if value is not None:
            return f"{name} {value:{'.4g' if 'rmse' in name else '.3f'}}"
    return f"{next(iter(values))} –"


def duration(seconds: float) -> str:
    """Return seconds as a text for people, for instance ``4 min 05 s``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
