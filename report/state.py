"""The present state of a run, by the lock on its folder and by its ledger.

running      a process runs it, and rounds end at their usual pace
stalled      a process runs it, and the last round is older than three usual rounds
interrupted  no process runs it, and it did not complete
stopped      it ended because no usable updates arrived
failed       an error ended it
completed    it completed

A live page shows *waiting* without a ledger, and *unreadable* with a damaged one.
"""

import statistics
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aoi_fl.server import ledger
from aoi_fl.server.folder import LEDGER, is_played
from aoi_fl.server.ledger import About, Row

STATES = ("running", "stalled", "interrupted", "stopped", "failed", "completed", "waiting", "unreadable")
RED = ("stalled", "interrupted", "stopped", "failed", "unreadable")
_USUAL = 9  # last rounds, the median of which is a usual round
_SHOWN, _LONGEST = 3, 100  # clients that cannot join, shown with the state, and characters of each
_PATIENCE = 10.0  # seconds of delay, at least, before a run with short rounds counts as stalled


@dataclass(frozen=True)
class RunStatus:
    """A run's state with details.

    Attributes
    ----------
    name : a state of this module, or ``unknown``
    detail : the age of the last round of a running run, or the reason for its end
    """

    name: str
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The state in words."""
        return self.name.capitalize() + (f": {self.detail}" if self.detail else "")


def status(folder: Path, about: About) -> str:
    """Return a run's status by its ledger; a running run without a process is interrupted.

    Parameters
    ----------
    folder : the run's folder
    about : the ledger's ``run`` table, read before this call
    """
    recorded = about.get("status")
    if recorded == "running" and is_played(folder) is False:
        # The status is written before the lock is released, so this status is final.
        recorded = ledger.read_run(folder / LEDGER).get("status")
        recorded = "interrupted" if recorded == "running" else recorded
    return recorded if isinstance(recorded, str) and recorded in STATES else "unknown"


def tell(about: About, rounds: Sequence[Row]) -> RunStatus:
    """Return a run's state by rows of its ledger.

    Parameters
    ----------
    about : the ledger's ``run`` table, with the present ``status``
    rounds : the last rows of its ``rounds``, ascending

    Examples
    --------
    >>> tell({"status": "running", "nodes": {"connected": 3, "refused": ["node 7 cannot join"]}}, []).detail
    'no round has ended yet; node 7 cannot join'
    >>> tell({"status": "running", "nodes": {"refused": 3}}, []).detail, tell({}, []).name  # a damaged value; no begin
    ('no round has ended yet', 'waiting')
    """
    if not about and not rounds:
        return RunStatus("waiting", "the run has not begun yet")
    if (name := str(about.get("status", "unknown"))) != "running":
        return RunStatus(name, str(about.get("reason") or ""))
    state = judge(rounds[-_USUAL:], about.get("since"), time.time())
    shown = [textwrap.shorten(why, _LONGEST, placeholder=" …") for why in ledger.refused_clients(about)[:_SHOWN]]
    return replace(state, detail="; ".join((state.detail, *shown)))


def judge(rounds: Sequence[Row], since: float | None, now: float) -> RunStatus:
    """Return the state of a run with a process, running or stalled.

    Parameters
    ----------
    rounds : the last rounds, ascending, with ``started`` and ``seconds``
    since : when the run began or resumed, in seconds since 1970, or None
    now : the time by the same clock

    Examples
    --------
    >>> row = {"round": 7, "started": 950.0, "seconds": 30.0}  # it ended at 980
    >>> judge([], None, 1000.0).sentence, judge([], 940.0, 1000.0).detail
    ('Running: no round has ended yet', 'no round has ended yet, begun 60 s ago')
    >>> judge([row], 900.0, 1069.0).name, judge([row], 900.0, 1071.0).sentence
    ('running', 'Stalled: round 7 ended 91 s ago, a round takes 30 s')
    >>> judge([row | {"seconds": 600.0}, row, row], 900.0, 1071.0).name  # by the median
    'stalled'
    >>> judge([row | {"seconds": 0.1}], None, 960.0).name  # so short that ten seconds are no stall
    'running'
    >>> judge([row], 990.0, 1000.0).detail, judge([row], None, 970.0).detail  # a resumption; a clock that was set back
    ('no round has ended yet, begun 10 s ago', 'round 7 ended 0 s ago')
    """
    ended = rounds[-1]["started"] + rounds[-1]["seconds"] if rounds else None
    if ended is None or (since is not None and since > ended):  # no round has ended since the start or resumption
        return RunStatus("running", "no round has ended yet" + ("" if since is None else f", begun {ago(now - since)}"))
    usual = statistics.median(row["seconds"] for row in rounds)
    late = now - ended > max(3 * usual, _PATIENCE)
    detail = f"round {rounds[-1]['round']} ended {ago(now - ended)}"
    return RunStatus("stalled", f"{detail}, a round takes {usual:.3g} s") if late else RunStatus("running", detail)


def ago(seconds: float) -> str:
    """Return a past time as text, for instance ``5 min ago``."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
