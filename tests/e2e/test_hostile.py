"""A client that answers nonsense: another program, under a key that is registered, in the place of ours."""

from typing import Any

import pytest

from tests.e2e.cluster import Cluster, python, start

RUN = "hostile"
# What the program sends in each round, and what the server says of it. In the last round it behaves.
LIES = {
    1: ("NaN", "holds NaN or Inf"),
    2: ("Inf", "holds NaN or Inf"),
    3: ("wrong shapes", "the model's is float32 of shape"),
    4: ("10^12 examples", "num-examples is 1000000000000, not a whole number"),
    5: ("a string for a number", "age is 'seven', not of type int"),
    6: ("an array far larger than the model", "bytes, the model's has"),
    7: ("another client's name", "it calls itself 'client-0', which is not its name"),
}
ROUNDS = len(LIES) + 1
LARGE = 25_000_000  # values: 100 MB

# Flower's own client program, with the reply changed on its way out.
_LIE = f"""
import sys
if any("flwr-clientapp" in word for word in sys.orig_argv):
    import numpy as np
    from flwr.app import Array, ArrayRecord
    from flwr.supernode.runtime import run_clientapp

    honest = run_clientapp.push_message

    def push_message(stub, message, context):
        if message.metadata.message_type == "train":
            lie(message.content, int(message.metadata.group_id))
        honest(stub, message, context)

    def lie(content, round_):
        arrays, metrics, answer = content["arrays"], content["metrics"], content["aoi"]
        name = next(iter(arrays))
        value = arrays[name].numpy()
        value.flags.writeable or (value := value.copy())
        if round_ == 1:
            value.flat[0] = np.nan
        elif round_ == 2:
            value.flat[-1] = np.inf
        elif round_ == 3:
            value = value[:1]
        elif round_ == 4:
            metrics["num-examples"] = 10**12
        elif round_ == 5:
            answer["age"] = "seven"
        elif round_ == 6:
            value = np.zeros({LARGE}, np.float32)
        elif round_ == 7:
            answer["name"] = "client-0"
        content["arrays"] = ArrayRecord({{k: Array(value) if k == name else a for k, a in arrays.items()}})

    run_clientapp.push_message = push_message
"""
LIAR = (
    python(f"""
from pathlib import Path
Path("/tmp/liar").mkdir()
Path("/tmp/liar/sitecustomize.py").write_text({_LIE!r})
""")
    + "PYTHONPATH=/tmp/liar exec python -m docker.client"
)
VOLUMES = ("trust:/pki/trust:ro", "clients:/clients", "enrolment:/enrolment", "runs:/runs:ro", "data:/data:ro")


@pytest.fixture(scope="module")
def ledger(cluster: Cluster) -> dict[str, Any]:
    """Return the ledger of a run of three honest clients and the liar."""
    cluster.compose("up", "-d", "--no-build", "--scale", "client=3", "client", timeout=120, AOI_NUM_CLIENTS="4")
    liar = cluster.intruder("liar", "sh", "-c", LIAR, mounts=VOLUMES)
    try:
        start(cluster, RUN, ROUNDS, scale=3, AOI_POLICY="random", AOI_CLIENTS_PER_ROUND="4")
        assert cluster.await_end() == 0, cluster.logs("submit") + cluster.docker("logs", liar)
        return cluster.ledger(RUN) | {"liar": cluster.name_of(liar)}
    finally:
        cluster.docker("rm", "--force", liar)


@pytest.mark.parametrize("round_", LIES, ids=[what for what, _ in LIES.values()])
def test_a_lie_is_dropped_and_named_with_the_reason(ledger: dict[str, Any], round_: int) -> None:
    _, reason = LIES[round_]
    (part,) = (p for p in ledger["participations"] if p["round"] == round_ and p["name"] == ledger["liar"])
    assert part["outcome"] == "refused" and reason in part["reason"]


def test_the_run_goes_on_with_the_others_and_takes_the_liar_when_it_behaves(ledger: dict[str, Any]) -> None:
    assert [row["trained"] for row in ledger["rounds"]] == [3] * len(LIES) + [4]
    assert ledger["run"]["status"] == "completed"
