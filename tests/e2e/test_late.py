"""A client that is held up: rounds go on without it, models too without a barrier, and its update counts later."""

import signal

from tests.e2e.cluster import Cluster, start

GOES_ON = True
RUN, ROUNDS = "late", 12
HELD, MODELS, MEANWHILE = 1, 30, 5


def test_a_late_update_counts_and_no_round_waits_for_it(cluster: Cluster) -> None:
    start(
        cluster,
        RUN,
        ROUNDS,
        AOI_POLICY="random",
        AOI_CLIENTS_PER_ROUND="4",
        AOI_LOCAL_EPOCHS="100",  # about two seconds, in which a client can be held up
        AOI_TRAIN_TIMEOUT="25",
        AOI_LATE_ROUNDS="8",
    )
    # On a busy machine its first training may outlast round 1, and would be the one that is held up.
    cluster.await_(lambda: cluster.trained(RUN, 1), "an update of client-1")
    slow = cluster.client_of(1)
    cluster.await_(lambda: cluster.hold_up(slow), "a client in training", 0.5)
    stopped = cluster.last_round(RUN) + 1
    cluster.await_round(RUN, stopped + 1)  # and not for a minute, after which the SuperLink takes it for dead
    cluster.signal(slow, signal.SIGCONT)
    assert cluster.await_end() == 0, cluster.logs("submit")

    ledger = cluster.ledger(RUN)
    assert [row["round"] for row in ledger["rounds"]] == list(range(1, ROUNDS + 1))
    columns = ("round", "outcome", "rounds_late")
    mine = [tuple(row[key] for key in columns) for row in ledger["participations"] if row["name"] == "client-1"]
    came = [(round_, late) for round_, outcome, late in mine if outcome == "trained" and late and round_ >= stopped]
    assert came, f"stopped in {stopped}: {mine}"  # the first: on a busy machine others may follow
    asked = came[0][0] - came[0][1]
    assert asked in (stopped, stopped + 1), f"stopped in {stopped}: {mine}"  # + 1: its answer was on its way just then
    assert not [row for row in mine if asked <= row[0] < came[0][0]]  # asked for nothing else meanwhile
    assert {row["outcome"] for row in ledger["participations"]} <= {"trained", "late"}, cluster.logs("submit")


def test_a_client_that_is_held_up_holds_no_model_back(cluster: Cluster) -> None:
    start(
        cluster,
        "free",
        MODELS,
        AOI_POLICY="random",
        AOI_CLIENTS_PER_ROUND="4",
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
    assert [row["trained"] for row in ledger["rounds"]] == [2] * MODELS, cluster.logs("submit")
    assert {row["at_work"] for row in ledger["rounds"]} == {4}
    trained = [part for part in ledger["participations"] if part["outcome"] == "trained"]
    assert {part["client"] for part in trained} == {0, 1, 2, 3}
    assert max(part["rounds_late"] for part in trained if part["client"] == HELD) >= MEANWHILE
