"""Without a barrier the others' models go on while one of five clients is held up, and its late update counts."""

from tests.e2e.cluster import Cluster, start

HELD, ROUNDS, MEANWHILE = 1, 30, 5


def test_a_client_that_is_held_up_holds_no_model_back(cluster: Cluster) -> None:
    start(
        cluster,
        "free",
        ROUNDS,
        scale=5,
        AOI_POLICY="random",
        AOI_NUM_CLIENTS="5",
        AOI_CLIENTS_PER_ROUND="5",
        AOI_LOCAL_EPOCHS="20",
        AOI_BUFFER="2",
        AOI_LATE_ROUNDS="60",
    )
    cluster.await_round("free", 1)
    held = cluster.client_of(HELD)
    cluster.docker("pause", held)
    paused_in = cluster.last_round("free")
    cluster.await_round("free", paused_in + MEANWHILE + 1)
    cluster.docker("unpause", held)
    assert cluster.await_end() == 0, cluster.logs("submit")

    ledger = cluster.ledger("free")
    assert [row["trained"] for row in ledger["rounds"]] == [2] * ROUNDS, cluster.logs("submit")
    assert {row["at_work"] for row in ledger["rounds"]} == {5}
    trained = [part for part in ledger["participations"] if part["outcome"] == "trained"]
    assert {part["client"] for part in trained} == {0, 1, 2, 3, 4}
    assert max(part["rounds_late"] for part in trained if part["client"] == HELD) >= MEANWHILE
