"""A client that is held up in mid-training: rounds go on without it, and its update counts when it comes."""

import signal

from tests.e2e.cluster import Cluster, start

RUN, ROUNDS = "late", 12


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
    cluster.await_(lambda: cluster.trained(RUN, 1), 420, "an update of client-1")
    slow = cluster.client_of(1)
    cluster.await_(lambda: cluster.hold_up(slow), 120, "a client in training", 0.5)
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
