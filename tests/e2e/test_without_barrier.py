"""Of five clients one has a tenth of the speed: without a barrier the server makes three times the models."""

from statistics import median
from typing import Any

from tests.e2e.cluster import Cluster, start

SLOW, CORES = 1, "0.05"  # a tenth of what the four others have of two cores
_KEYS = {
    "AOI_POLICY": "random",
    "AOI_NUM_CLIENTS": "5",
    "AOI_CLIENTS_PER_ROUND": "5",
    "AOI_LOCAL_EPOCHS": "100",
    "AOI_TRAIN_TIMEOUT": "240",
}


def models_a_minute(ledger: dict[str, Any]) -> float:
    """Return the rate of a run after its first round, in which programs start."""
    started = [row["started"] for row in ledger["rounds"]][1:]
    return 60 * (len(started) - 1) / (started[-1] - started[0])


def played(cluster: Cluster, run: str, rounds: int, **settings: str) -> dict[str, Any]:
    start(cluster, run, rounds, scale=5, **_KEYS, **settings)
    cluster.await_(lambda: len(cluster.containers("client")) == 5, 120, "five clients")
    cluster.await_(lambda: any(cluster.name_of(c) == f"client-{SLOW}" for c in cluster.containers("client")), 120, "it")
    cluster.docker("update", "--cpus", CORES, cluster.client_of(SLOW))
    assert cluster.await_end(1200) == 0, cluster.logs("submit")
    return cluster.ledger(run)


def test_a_slow_client_holds_no_model_back(cluster: Cluster) -> None:
    barrier = played(cluster, "barrier", 4)
    free = played(cluster, "free", 24, AOI_BUFFER="2", AOI_LATE_ROUNDS="60")

    assert [row["trained"] for row in free["rounds"]] == [2] * 24, cluster.logs("submit")
    assert {row["at_work"] for row in free["rounds"]} == {5}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for part in barrier["participations"]:
        assert part["outcome"] == "trained", part
        seconds[part["client"] == SLOW].append(part["seconds"])
    assert median(seconds[True]) > 3 * median(seconds[False]), seconds  # else nothing was to be gained
    stale = {part["client"]: part["rounds_late"] for part in free["participations"] if part["outcome"] == "trained"}
    assert set(stale) >= {0, 2, 3, 4} and max(stale.values()) >= 1, stale
    assert models_a_minute(free) >= 3 * models_a_minute(barrier), (models_a_minute(free), models_a_minute(barrier))
