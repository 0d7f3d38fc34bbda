"""What a run survives: clients and SuperLink really killed, stopped and cut off; a test says what holds of one event.

One run carries most of the tests: clients and SuperLink are hurt one after the other.
"""

import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, start

STORM, ALONE = "storm", "alone"
ROUNDS, ASK, TRAIN = 14, 20, 30  # the deadlines in seconds


@dataclass
class Storm:
    """The round that was the last recorded one when each thing happened, and what the ledger holds at the end."""

    at: dict[str, int] = field(default_factory=dict)
    status: int = -1
    log: str = ""
    ledger: dict[str, Any] = field(default_factory=dict)

    def trained(self, client: int, after: int = 0) -> list[dict[str, Any]]:
        """Return the participations of a client that count, after a round."""
        rows = self.ledger["participations"]
        return [r for r in rows if r["client"] == client and r["outcome"] == "trained" and r["round"] > after]


@pytest.fixture(scope="module")
def storm(cluster: Cluster) -> Storm:
    """Play a run through everything that can happen to a client, and the loss of the SuperLink."""
    seen = Storm()
    start(
        cluster,
        STORM,
        ROUNDS,
        AOI_ASK_TIMEOUT=str(ASK),
        AOI_TRAIN_TIMEOUT=str(TRAIN),
        AOI_POLICY="markov-increasing",
        AOI_MAX_AGE="3",
    )
    cluster.await_round(STORM, 1)
    at = [cluster.client_of(number) for number in range(4)]

    cluster.await_(lambda: cluster.is_training(at[0]), 120, "client 0 in training")
    cluster.crash(at[0])
    seen.at["killed mid-train"] = cluster.last_round(STORM)
    cluster.await_(lambda: cluster.is_idle(at[1]), 60, "client 1 idle")
    cluster.crash(at[1])
    seen.at["killed between rounds"] = cluster.last_round(STORM)
    for container in at[:2]:
        cluster.await_(lambda c=container: cluster.is_connected(c), 150, f"{container} connected again")
    seen.at["back"] = cluster.last_round(STORM)

    network = f"{cluster.project}_fleet"
    cluster.signal(at[2], signal.SIGSTOP)
    cluster.docker("network", "disconnect", network, at[3])
    begun = time.monotonic()
    seen.at["stopped"] = seen.at["cut off"] = cluster.last_round(STORM)
    time.sleep(30)
    seen.at["30 s later"] = cluster.last_round(STORM)
    cluster.signal(at[2], signal.SIGCONT)
    cluster.docker("network", "connect", "--alias", "client", network, at[3])
    assert time.monotonic() - begun < 60

    cluster.await_round(STORM, seen.at["30 s later"] + 2)
    cluster.crash(cluster.container("superlink"))
    seen.at["superlink killed"] = cluster.last_round(STORM)
    seen.status = cluster.await_end(400)
    seen.log, seen.ledger = cluster.logs("submit"), cluster.ledger(STORM)
    return seen


def test_a_client_killed_mid_train_is_back_and_its_age_goes_on(storm: Storm) -> None:
    before = [r["round"] for r in storm.trained(0) if r["round"] <= storm.at["killed mid-train"]]
    later = storm.trained(0, after=storm.at["killed mid-train"])
    assert later, storm.log
    if before:
        assert later[0]["age"] == later[0]["round"] - before[-1] - 1


def test_a_client_killed_between_rounds_is_back_and_its_age_goes_on(storm: Storm) -> None:
    trained = storm.trained(1)
    at = storm.at["killed between rounds"]
    assert any(r["round"] > at for r in trained), storm.log
    for earlier, later in pairwise(trained):
        assert later["age"] <= later["round"] - earlier["round"] - 1


@pytest.mark.parametrize(("client", "event"), [(2, "stopped"), (3, "cut off")])
def test_a_client_that_is_away_for_30_s_holds_no_round_up_and_is_back(storm: Storm, client: int, event: str) -> None:
    at = storm.at[event]
    during = [r for r in storm.ledger["rounds"] if r["round"] > at and r["round"] <= at + 2]
    assert all(r["seconds"] < ASK + TRAIN + 15 for r in during), during
    assert storm.trained(client, after=storm.at["30 s later"]), storm.log


def test_the_run_outlives_the_superlink(storm: Storm) -> None:
    at = storm.at["superlink killed"]
    assert at < ROUNDS and "the SuperLink is back" in storm.log
    assert len([r for r in storm.ledger["rounds"] if r["round"] > at]) == ROUNDS - at


def test_after_all_that_the_run_completes_without_a_gap_and_no_round_twice(storm: Storm) -> None:
    assert storm.status == 0, storm.log
    assert [r["round"] for r in storm.ledger["rounds"]] == list(range(1, ROUNDS + 1))
    once = Counter((r["round"], r["client"]) for r in storm.ledger["participations"])
    assert set(once.values()) == {1}
    assert storm.ledger["run"]["status"] == "completed"


def test_when_three_of_four_die_for_good_rounds_go_on_with_one_and_with_none_the_run_ends(cluster: Cluster) -> None:
    start(cluster, ALONE, 60, AOI_POLICY="random", AOI_TRAIN_TIMEOUT="12", AOI_MAX_EMPTY_ROUNDS="2")
    cluster.await_round(ALONE, 1)
    at = [cluster.client_of(number) for number in range(4)]
    cluster.docker("kill", *at[:3])  # which also keeps Docker from starting them again
    died = cluster.last_round(ALONE)
    cluster.await_(
        lambda: any(r["round"] > died + 1 and r["client"] == 3 for r in cluster.ledger(ALONE)["participations"]),
        180,
        "a round of the last client",
    )
    cluster.docker("kill", at[3])
    assert cluster.await_end() == 1
    assert cluster.ledger(ALONE)["run"]["status"] == "stopped"
    assert "was stopped" in cluster.logs("submit")
