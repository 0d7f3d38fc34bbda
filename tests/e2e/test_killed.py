"""A run whose ServerApp is killed, and later everything at once: it is resumed and equals one that was not hurt."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, start

RUN, ROUNDS = "killed", 8


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
    start(cluster, RUN, ROUNDS, AOI_ASK_TIMEOUT="180", AOI_TRAIN_TIMEOUT="300")
    cluster.await_round(RUN, 1)
    cluster.kill_process(cluster.container("superexec"), "flwr-serverapp")
    at.append(cluster.last_round(RUN))
    status.append(cluster.await_end())

    start(cluster, RUN, ROUNDS, AOI_RESUME="true")
    cluster.await_round(RUN, at[0] + 2)
    everyone = [cluster.container(service) for service in ("submit", "superexec", "superlink")]
    for container in everyone + cluster.containers("client"):
        cluster.crash(container)
    at.append(cluster.last_round(RUN))
    cluster.await_(lambda: not cluster.containers("submit"), "the end of submit, in Docker's list")
    start(cluster, RUN, ROUNDS, AOI_RESUME="true")  # at once: the SuperLink still lists clients that are gone

    server = cluster.container("superexec")  # plays the same run in one process while they come back
    cluster.await_(lambda: cluster.is_running(server), "the server's container")
    keys = (f"num-server-rounds={ROUNDS}", "num-clients=4", "clients-per-round=2", "run-name=whole")
    command = ("aoi", "run", *(part for key in (*keys, "runs-dir=/runs") for part in ("-c", key)))
    cluster.docker("exec", server, *command, timeout=420)
    status.append(cluster.await_end())
    files = (f"/runs/{run}/model.safetensors" for run in (RUN, "whole"))
    models = set(cluster.docker("exec", server, "sha256sum", *files, check=False).split()[::2])
    return Killed(at, status, cluster.logs("submit"), cluster.ledger(RUN), cluster.ledger("whole"), models)


def test_a_killed_server_app_fails_the_run_and_it_resumes(killed: Killed) -> None:
    assert killed.status[0] == 1 and killed.at[0] < killed.at[1]
    assert [row["round"] for row in killed.ledger["rounds"]] == list(range(1, ROUNDS + 1))


def test_a_run_resumed_after_a_total_crash_equals_a_whole_one(killed: Killed) -> None:
    assert killed.at[1] < ROUNDS and killed.status[1] == 0, killed.log
    assert [p for p in killed.ledger["participations"] if p["outcome"] != "trained"] == [], killed.log
    assert _selections(killed.ledger) == _selections(killed.whole)
    assert len(killed.models) == 1


def _selections(ledger: dict[str, Any]) -> list[tuple[int, int]]:
    return [(r["round"], r["client"]) for r in ledger["participations"] if r["outcome"] == "trained"]
