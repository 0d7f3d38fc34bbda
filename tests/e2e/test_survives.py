"""What a run survives: clients and SuperLink really killed, stopped and cut off; a test says what holds of one event.

One run carries most of the tests: clients and SuperLink are hurt one after the other.
"""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, start

STORM, KILLED = "storm", "killed"
ROUNDS, ASK, TRAIN, AWAY = 20, 20, 30, 30  # rounds; the deadlines and an absence in seconds


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
    back = [cluster.crash_client(at[0])]
    seen.at["killed mid-train"] = cluster.last_round(STORM)
    cluster.await_(lambda: cluster.is_idle(at[1]), 60, "client 1 idle")
    back.append(cluster.crash_client(at[1]))
    seen.at["killed between rounds"] = cluster.last_round(STORM)

    # The SuperLink takes the dead for connected for about a minute; meanwhile the other two are away, one at a time.
    seen.at["stopped"] = cluster.last_round(STORM)
    cluster.signal(at[2], signal.SIGSTOP)
    time.sleep(AWAY)
    cluster.signal(at[2], signal.SIGCONT)
    network = f"{cluster.project}_fleet"
    seen.at["cut off"] = cluster.last_round(STORM)
    cluster.docker("network", "disconnect", network, at[3])
    time.sleep(AWAY)
    cluster.docker("network", "connect", "--alias", "client", network, at[3])
    for number, is_back in enumerate(back):
        cluster.await_(is_back, 200, f"client {number}, connected again")
    seen.at["all back"] = cluster.last_round(STORM)

    cluster.await_round(STORM, seen.at["all back"] + 2)
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
    assert storm.trained(client, after=storm.at["all back"]), storm.log


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


# The server killed, and everything ----------------------------------------------------------------------------------

KILLED_ROUNDS = 6


@dataclass
class Killed:
    """A run whose ServerApp was killed, and later everything at once, resumed each time.

    ``at`` holds the round that was the last recorded one each time, ``status`` how the run ended then; ``ledger`` is
    its ledger in the end, ``whole`` that of the same run played in one process, ``models`` the sums of both models.
    """

    at: list[int]
    status: list[int]
    log: str
    ledger: dict[str, Any]
    whole: dict[str, Any]
    models: set[str]


@pytest.fixture(scope="module")
def killed(cluster: Cluster) -> Killed:
    """Play a run through both."""
    at, status = [], []
    # A late answer is an answer less: whoever compares selections must wait for a slow machine.
    start(cluster, KILLED, KILLED_ROUNDS, AOI_ASK_TIMEOUT="180", AOI_TRAIN_TIMEOUT="300")
    cluster.await_round(KILLED, 1)
    os.kill(cluster.process(cluster.container("superexec"), "flwr-serverapp"), signal.SIGKILL)
    at.append(cluster.last_round(KILLED))
    status.append(cluster.await_end())

    start(cluster, KILLED, KILLED_ROUNDS, AOI_RESUME="true")
    cluster.await_round(KILLED, at[0] + 2)
    for service in ("submit", "superexec", "superlink"):
        cluster.crash(cluster.container(service))
    back = {container: cluster.crash_client(container) for container in cluster.containers("client")}
    at.append(cluster.last_round(KILLED))
    server = cluster.container("superexec")  # plays the same run in one process while the clients come back
    cluster.await_(lambda: "running" in cluster.docker("inspect", "-f", "{{.State.Status}}", server), 30, "the server")
    keys = (f"num-server-rounds={KILLED_ROUNDS}", "num-clients=4", "clients-per-round=2", "run-name=whole")
    cluster.docker("exec", server, "aoi", "run", *(part for key in (*keys, "runs-dir=/runs") for part in ("-c", key)))
    for container, is_back in back.items():
        cluster.await_(is_back, 200, f"{container}, connected again")
    start(cluster, KILLED, KILLED_ROUNDS, AOI_RESUME="true")
    status.append(cluster.await_end())

    sums = cluster.docker("exec", server, "sha256sum", *(f"/runs/{run}/model.safetensors" for run in (KILLED, "whole")))
    models = set(sums.split()[::2])
    return Killed(at, status, cluster.logs("submit"), cluster.ledger(KILLED), cluster.ledger("whole"), models)


def test_a_run_whose_server_app_was_killed_ends_as_failed_and_resumes(killed: Killed) -> None:
    assert killed.status[0] == 1 and killed.at[0] < killed.at[1]
    assert [row["round"] for row in killed.ledger["rounds"]] == list(range(1, KILLED_ROUNDS + 1))


def test_after_everything_was_killed_the_run_resumes_and_equals_one_that_was_not(killed: Killed) -> None:
    assert killed.at[1] < KILLED_ROUNDS and killed.status[1] == 0, killed.log
    assert [p for p in killed.ledger["participations"] if p["outcome"] != "trained"] == [], killed.log
    assert _selections(killed.ledger) == _selections(killed.whole)
    assert len(killed.models) == 1


def _selections(ledger: dict[str, Any]) -> list[tuple[int, int]]:
    return [(r["round"], r["client"]) for r in ledger["participations"] if r["outcome"] == "trained"]
