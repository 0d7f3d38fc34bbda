"""The present state of a run, by the lock on its folder and by its ledger.

running      a process runs it, and rounds end at their usual pace
stalled      a process runs it, and the last round is older than three usual ones
interrupted  no process runs it, and it did not complete
stopped      it ended without usable updates
failed       an error ended it
completed    it completed

While there is no ledger yet, a live page says *waiting*, and where its ledger is damaged, *unreadable*.
"""

import statistics
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER, is_played

STATES = ("running", "stalled", "interrupted", "stopped", "failed", "completed", "waiting", "unreadable")
RED = ("stalled", "interrupted", "stopped", "failed", "unreadable")
_USUAL = 9  # rounds, the last ones, whose median is a usual round
_SHOWN, _LONGEST = 3, 100  # clients that cannot join, named with the state, and characters of each
_PATIENCE = 10.0  # seconds: rounds shorter than a blink are not stalled for being a few of them late


@dataclass(frozen=True)
class State:
    """A run's state and what to say of it.

    Attributes
    ----------
    name : one of those above; ``unknown`` where the ledger does not say
    detail : the age of the last round while the run is being played; why it stopped or failed, where the ledger says
    """

    name: str
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The state in words."""
        return self.name.capitalize() + (f": {self.detail}" if self.detail else "")


def status(folder: Path, about: Mapping[str, Any]) -> str:
    """Return a run's status by its ledger; a running one without a process is interrupted.

    Parameters
    ----------
    folder : the run's folder
    about : the ledger's ``run`` table, read before this call
    """
    said = _known(about)
    if said != "running" or is_played(folder) is not False:
        return said
    # The status is written before the lock is given back, so what is read now is the last word.
    said = _known(ledger.read_run(folder / LEDGER))
    return "interrupted" if said == "running" else said


def _known(about: Mapping[str, Any]) -> str:
    said = about.get("status")
    return said if isinstance(said, str) and said in STATES else "unknown"


def look(folder: Path) -> State:
    """Return the state of a run by the lock and by the end of its ledger, at the cost of a few rows.

    Raises
    ------
    ConfigError, sqlite3.Error : there is no ledger, or it cannot be read.
    """
    path = folder / LEDGER
    return tell(folder, ledger.read_run(path), ledger.last_rounds(path, _USUAL))


def tell(folder: Path, about: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> State:
    """Return the state of a run by the lock and by what has just been read of its ledger.

    Parameters
    ----------
    folder : the run's folder
    about : the ledger's ``run`` table, read before this call
    rounds : the last rows of its ``rounds``, ascending
    """
    if not about and not rounds:
        return State("waiting", "the run has not begun yet")
    name = status(folder, about)
    if name != "running":
        return State(name, str(about.get("reason") or ""))
    state = judge(rounds[-_USUAL:], about.get("since"), time.time())
    shown = [textwrap.shorten(why, _LONGEST, placeholder=" …") for why in ledger.refused_clients(about)[:_SHOWN]]
    return replace(state, detail="; ".join((state.detail, *shown)))


def judge(rounds: Sequence[Mapping[str, Any]], since: float | None, now: float) -> State:
    """Return whether a run is running or has stalled.

    Parameters
    ----------
    rounds : the last rounds, ascending, with ``started`` and ``seconds``
    since : when the run began or was taken up, seconds since 1970, where that is known
    now : the time by the same clock
    """
    ended = rounds[-1]["started"] + rounds[-1]["seconds"] if rounds else None
    if ended is None or (since is not None and since > ended):  # none has ended since it was begun or taken up
        return State("running", "no round has ended yet" + ("" if since is None else f", begun {ago(now - since)}"))
    usual = statistics.median(row["seconds"] for row in rounds)
    late = now - ended > max(3 * usual, _PATIENCE)
    detail = f"round {rounds[-1]['round']} ended {ago(now - ended)}"
    return State("stalled", f"{detail}, a round takes {usual:.3g} s") if late else State("running", detail)


def ago(seconds: float) -> str:
    """Write how long ago something was."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
