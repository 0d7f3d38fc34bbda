"""What a run survives: clients and SuperLink really killed, stopped and cut off; a test says what holds of one event.

One run carries all of it. A killed client is back as soon as Docker has started it again; what does not concern it
happens meanwhile.
"""

import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.cluster import CLIENT_APP, NEWEST, Cluster, python, start

RUN, ROUNDS = "storm", 30
ASK, TRAIN, AWAY = 10, 15, 35  # deadlines and absences in seconds; an absence is longer than any round may take
MID_TRAIN, MID_WRITE, IDLE, ABSENT = range(4)  # the client to which each thing happens

# Kills every process of a client's container in the middle of the next write of its state, once.
FALL = python(f"""
import site
from pathlib import Path
folder = Path(site.getusersitepackages())
folder.mkdir(parents=True, exist_ok=True)
(folder / "fall.pth").write_text("import fall")
(folder / "fall.py").write_text('''
import os, signal, sys
def hook(event, args):
    if event == "os.rename" and str(args[1]).startswith("/clients/") and not os.path.exists("/tmp/fallen"):
        os.truncate(args[0], os.path.getsize(args[0]) // 2)
        open("/tmp/fallen", "w").close()
        os.kill(-1, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
if any("{CLIENT_APP}" in word for word in sys.orig_argv):
    sys.addaudithook(hook)
''')
""")


@dataclass
class Storm:
    """The round that was the last recorded one when each thing happened; logs and ledger at the end."""

    at: dict[str, int] = field(default_factory=dict)
    status: int = -1
    superlink_restarts: int = 0
    log: str = ""
    clients_log: str = ""
    ledger: dict[str, Any] = field(default_factory=dict)

    def rows(self, client: int, *outcomes: str, after: int = 0) -> list[dict[str, Any]]:
        """Return the participations of a client with one of these outcomes, after a round."""
        rows = self.ledger["participations"]
        return [r for r in rows if r["client"] == client and r["outcome"] in outcomes and r["round"] > after]

    def went_on(self, client: int) -> bool:
        """Tell whether a client's age was never begun anew: it is at most the rounds since it last took part."""
        return all(
            later["age"] <= later["round"] - earlier["round"] - 1
            for earlier, later in pairwise(self.rows(client, "trained"))
        )


@pytest.fixture(scope="module")
def storm(cluster: Cluster) -> Storm:
    """Play a run through everything that can happen to a client, and the loss of the SuperLink."""
    seen = Storm()

    def note(event: str) -> None:
        seen.at[event] = cluster.last_round(RUN)

    start(
        cluster,
        RUN,
        ROUNDS,
        AOI_ASK_TIMEOUT=str(ASK),
        AOI_TRAIN_TIMEOUT=str(TRAIN),
        AOI_POLICY="markov-increasing",
        AOI_MAX_AGE="3",
        AOI_LOCAL_EPOCHS="50",  # about a second, in which a client can be killed
        AOI_MAX_EMPTY_ROUNDS="0",
    )
    cluster.await_round(RUN, 1)
    at = [cluster.client_of(number) for number in range(4)]
    cluster.await_(lambda: cluster.trained(RUN, MID_TRAIN), "an update of the first client")

    cluster.inside(MID_WRITE, "sh", "-c", FALL)
    if not NEWEST:
        cluster.kill_process(at[MID_WRITE], CLIENT_APP)  # the next one loads what will kill it
    cluster.await_(lambda: cluster.restarts(at[MID_WRITE]) > 0, "the fall of a client", 0.5)
    cluster.await_(lambda: cluster.is_training(at[MID_TRAIN]), "a client in training", 0.5)
    back = [cluster.crash_client(at[MID_TRAIN])]
    note("killed mid-train")
    cluster.await_(lambda: cluster.is_idle(at[IDLE]), "an idle client", 0.5)
    back.append(cluster.crash_client(at[IDLE]))

    note("stopped")
    cluster.signal(at[ABSENT], signal.SIGSTOP)
    time.sleep(AWAY)
    cluster.signal(at[ABSENT], signal.SIGCONT)
    network = f"{cluster.project}_fleet"
    note("cut off")
    cluster.docker("network", "disconnect", network, at[ABSENT])
    time.sleep(AWAY)
    cluster.docker("network", "connect", "--alias", "client", network, at[ABSENT])
    for is_back in back:
        cluster.await_(is_back, "a client that was killed, connected again", 0.5)
    note("all back")
    cluster.crash(cluster.container("superlink"))
    seen.status = cluster.await_end()
    seen.superlink_restarts = cluster.restarts(cluster.container("superlink"))
    seen.log, seen.clients_log, seen.ledger = cluster.logs("submit"), cluster.logs("client"), cluster.ledger(RUN)
    return seen


def test_a_client_killed_mid_train_is_back_and_its_age_goes_on(storm: Storm) -> None:
    at = storm.at["killed mid-train"]
    lost = storm.rows(MID_TRAIN, "late", "failed", "trained", after=at)[0]
    assert lost["round"] <= at + 2 and lost["outcome"] != "trained", lost
    assert storm.rows(MID_TRAIN, "trained", after=storm.at["all back"]), storm.log
    assert storm.went_on(MID_TRAIN)


def test_a_client_killed_mid_write_returns_and_its_age_goes_on(storm: Storm) -> None:
    assert storm.rows(MID_WRITE, "trained", after=storm.at["all back"]), storm.log
    assert storm.went_on(MID_WRITE) and "is corrupt" not in storm.clients_log


def test_a_client_killed_idle_returns_and_its_age_goes_on(storm: Storm) -> None:
    assert storm.rows(IDLE, "trained", after=storm.at["all back"]), storm.log
    assert storm.went_on(IDLE)


@pytest.mark.parametrize("event", ["stopped", "cut off"])
def test_a_round_closes_without_an_absent_client_that_returns(storm: Storm, event: str) -> None:
    late = [row["round"] for row in storm.rows(ABSENT, "late", after=storm.at[event])]
    assert late and late[0] <= storm.at[event] + 2, storm.log
    (closed,) = (row for row in storm.ledger["rounds"] if row["round"] == late[0])
    assert closed["seconds"] < AWAY
    assert storm.rows(ABSENT, "trained", after=storm.at["all back"]), storm.log


def test_the_run_outlives_the_superlink(storm: Storm) -> None:
    at = storm.at["all back"]  # when it was killed
    assert at < ROUNDS and storm.superlink_restarts == 1
    assert len([r for r in storm.ledger["rounds"] if r["round"] > at]) == ROUNDS - at


def test_the_run_completes_without_a_gap_or_a_repeated_round(storm: Storm) -> None:
    assert storm.status == 0, storm.log
    assert [r["round"] for r in storm.ledger["rounds"]] == list(range(1, ROUNDS + 1))
    once = Counter((r["round"], r["client"]) for r in storm.ledger["participations"])
    assert set(once.values()) == {1}
    assert storm.ledger["run"]["status"] == "completed"
