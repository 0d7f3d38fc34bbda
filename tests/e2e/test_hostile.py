"""Clients that answer nonsense: another program, under a key that is registered, in the place of ours."""

from typing import Any

import pytest

from tests.e2e.cluster import CLIENT_APP, Cluster, python, start

RUN = "hostile"
# What the program sends, and the fact in the ledger's reason. Two clients work through the list, then they behave.
LIES = {
    "NaN": "NaN",
    "Inf": "Inf",
    "wrong shapes": "shape",
    "10^12 examples": "1000000000000",
    "a string for a number": "'seven'",
    "an array far larger than the model": "bytes",
    "another client's name": "'{other}'",
    "no metrics": "0 metric records",
}
LIARS = 2
ROUNDS = len(LIES) // LIARS + 1
LARGE = 25_000_000  # values: 100 MB

# The process that Flower's client program is forked from, with the reply changed on its way out.
_LIE = f"""
import os, sys
if any("{CLIENT_APP}" in word for word in sys.orig_argv):
    import numpy as np
    from flwr.app import Array, ArrayRecord
    from flwr.supernode.runtime import run_clientapp

    lies, honest = {list(LIES)!r}, run_clientapp.push_message

    def push_message(stub, message, context):
        turn = {LIARS} * (int(message.metadata.group_id) - 1) + int(os.environ["LIAR"])
        if message.metadata.message_type == "train" and turn < len(lies):
            lie(lies[turn], message.content)
        honest(stub, message, context)

    def lie(which, content):
        name, first = next(iter(content["arrays"].items()))
        value = first.numpy().copy()
        match which:
            case "NaN": value.flat[0] = np.nan
            case "Inf": value.flat[-1] = np.inf
            case "wrong shapes": value = value[:1]
            case "10^12 examples": content["metrics"]["num-examples"] = 10**12
            case "a string for a number": content["aoi"]["age"] = "seven"
            case "an array far larger than the model": value = np.zeros({LARGE}, np.float32)
            case "another client's name":
                own = content["aoi"]["name"]
                content["aoi"]["name"] = "client-1" if own == "client-0" else "client-0"
            case "no metrics": del content["metrics"]
        content["arrays"][name] = Array(value)

    run_clientapp.push_message = push_message
"""
LIAR = python(f"""
from pathlib import Path
Path("/tmp/liar").mkdir()
Path("/tmp/liar/sitecustomize.py").write_text({_LIE!r})
""")
START = "LIAR={number} PYTHONPATH=/tmp/liar exec python -m aoi_fl.docker.client"
VOLUMES = ("trust:/pki/trust:ro", "clients:/clients", "enrolment:/enrolment", "dealt:/dealt:ro", "data:/data:ro")


@pytest.fixture(scope="module")
def ledger(cluster: Cluster) -> dict[str, Any]:
    """Return the ledger of a run of two honest clients and two liars, and the liars' names."""
    cluster.compose("up", "-d", "--no-build", "--scale", "client=2", "client", timeout=120)
    commands = [LIAR + START.format(number=i) for i in range(LIARS)]
    liars = [cluster.intruder(f"liar-{i}", "sh", "-c", c, mounts=VOLUMES) for i, c in enumerate(commands)]
    try:
        start(
            cluster,
            RUN,
            ROUNDS,
            scale=2,
            AOI_POLICY="random",
            AOI_CLIENTS_PER_ROUND="4",
            AOI_PACKING="none",
        )
        assert cluster.await_end() == 0, cluster.logs("submit")
        return cluster.ledger(RUN) | {"liars": [cluster.name_of(liar) for liar in liars]}
    finally:
        cluster.docker("rm", "--force", *liars)


@pytest.mark.parametrize(("turn", "lie"), list(enumerate(LIES)), ids=list(LIES))
def test_a_lie_is_dropped_and_named_with_the_reason(ledger: dict[str, Any], turn: int, lie: str) -> None:
    round_, name = turn // LIARS + 1, ledger["liars"][turn % LIARS]
    (part,) = (p for p in ledger["participations"] if p["round"] == round_ and p["name"] == name)
    other = "client-1" if name == "client-0" else "client-0"
    assert part["outcome"] == "refused" and LIES[lie].format(other=other) in part["reason"]


def test_the_run_continues_and_takes_the_liars_when_they_behave(ledger: dict[str, Any]) -> None:
    assert [row["trained"] for row in ledger["rounds"]] == [2] * (ROUNDS - 1) + [4]
    assert ledger["run"]["status"] == "completed"


def test_the_servers_memory_limits_hold_under_a_huge_array(cluster: Cluster, ledger: dict[str, Any]) -> None:
    assert ledger and all(cluster.unharmed(cluster.container(service)) for service in ("superlink", "superexec"))
