"""The newest Flower over HTTP: one run that starts, loses a client, grows, is stopped and goes on; and strangers."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster import NEWEST, Cluster, python, start
from tests.e2e.test_strangers import KEY, SUPERNODE

pytestmark = pytest.mark.skipif(not NEWEST, reason="these are the cluster's tests in short, for AOI_E2E_FLOWER=newest")
RUN = "http"
SETTINGS = {
    "AOI_NUM_CLIENTS": "2",
    "AOI_POLICY": "random",
    "AOI_CLIENTS_PER_ROUND": "2",
    "AOI_SPARE": "1",
    "AOI_TRAIN_TIMEOUT": "90",  # a killed client's round waits for so long
}
# What a client's network must not reach: keys and runs. A call of a client's without a signature is refused too.
KNOCK = python("""
import ssl, urllib.error, urllib.request
trust = ssl.create_default_context(cafile="/pki/trust/ca.crt")
for path in ("control/list-nodes", "runtime/get-nodes", "fleet/pull-messages"):
    head = {"content-type": "application/protobuf", "accept": "application/protobuf"}
    request = urllib.request.Request(f"https://superlink:9092/v1/{path}", b"", head, method="POST")
    try:
        print(path, urllib.request.urlopen(request, timeout=20, context=trust).status)
    except urllib.error.HTTPError as error:
        print(path, error.code)
""")


@dataclass
class Played:
    """The last rounds when something happened, the ledger in the end, and what became of the strangers."""

    at: dict[str, int]
    stop: int
    ledger: dict[str, Any]
    flower: str
    unregistered: tuple[int | None, str]
    knocked: dict[str, int]
    killed: str  # the log of the client that was killed


@pytest.fixture(scope="module")
def played(cluster: Cluster) -> Played:
    """Play the run."""
    at = {}
    start(cluster, RUN, 500, scale=2, **SETTINGS)
    cluster.await_round(RUN, 2)
    mounts = ("trust:/pki/trust:ro",)
    stranger = cluster.intruder("unregistered", "sh", "-c", KEY + SUPERNODE.format(key="/tmp/key"), mounts=mounts)
    knocking = cluster.intruder("knocking", "sh", "-c", KNOCK, mounts=mounts)
    start(cluster, RUN, 500, scale=3, **SETTINGS)
    cluster.await_(lambda: cluster.trained(RUN, 2), "the newcomer's update")
    at["killed"] = cluster.last_round(RUN)
    victim = cluster.client_of(0)
    cluster.crash(victim)
    cluster.await_(lambda: cluster.trained(RUN, 0, after=at["killed"] + 1), "the killed client's update")
    strangers = (stranger, knocking)
    cluster.await_(lambda: all(cluster.exit_status(s) is not None for s in strangers), "the strangers' end")
    ends = [(cluster.exit_status(s), cluster.docker("logs", s)) for s in strangers]
    stop, _ = cluster.operate("docker compose run --rm --no-deps submit runs stop RUN", RUN=RUN)
    at["stopped"] = cluster.last_round(RUN)
    cluster.compose("run", "-d", "--no-deps", "submit", "runs", "resume", RUN)
    cluster.await_round(RUN, at["stopped"] + 1)
    log = cluster.docker("logs", victim)
    flower = cluster.docker("exec", cluster.container("superlink"), "flower-superlink", "--version").split()[-1]
    knocked = {path: int(status) for path, status in (line.split() for line in ends[1][1].splitlines())}
    return Played(at, stop, cluster.ledger(RUN), flower, ends[0], knocked, log)


def test_clients_have_the_names_of_their_keys(played: Played) -> None:
    assert tuple(map(int, played.flower.split(".")[:2])) >= (1, 42)
    assert {row["client"]: row["name"] for row in played.ledger["clients"]} == {i: f"client-{i}" for i in range(3)}


def test_a_killed_client_ends_its_former_session_and_is_not_refused(played: Played) -> None:
    assert played.killed.count("SuperNode ID") == 2 and "this SuperNode ends" not in played.killed


def test_rounds_go_on_without_a_killed_client_that_returns(played: Played) -> None:
    rounds = [row["round"] for row in played.ledger["rounds"]]
    assert rounds == list(range(1, len(rounds) + 1))
    mine = [row for row in played.ledger["participations"] if row["client"] == 0]
    assert any(row["outcome"] == "trained" and row["round"] > played.at["killed"] + 1 for row in mine)
    assert all(row["trained"] >= 1 for row in played.ledger["rounds"])


def test_a_stopped_run_resumes_after_its_last_round(played: Played) -> None:
    assert played.stop == 0 and max(row["round"] for row in played.ledger["rounds"]) > played.at["stopped"]


def test_strangers_reach_neither_commands_nor_the_run(played: Played) -> None:
    status, log = played.unregistered
    assert status and "SuperNode ID" not in log
    assert played.knocked == {"control/list-nodes": 403, "runtime/get-nodes": 403, "fleet/pull-messages": 401}
