"""Strangers knock while a run goes on; then its ServerApp is killed, then everything at once, and it is resumed."""

import os
import signal
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, python, start

RUN, ROUNDS = "calm", 7

KEY = python("""
from pathlib import Path
from docker.pki import make_client_key
make_client_key(Path("/tmp/key"), Path("/tmp/key.pub"))
""")
SUPERNODE = (
    "flower-supernode --superlink superlink:9092 --root-certificates /pki/trust/ca.crt "
    "--auth-supernode-private-key {key} --node-config 'name=\"mallory\" partition-id=0'"
)
PLAIN = "flower-supernode --superlink superlink:9092 --insecure --node-config 'name=\"mallory\" partition-id=0'"
# A node that shows another's public key and signs with its own private one.
IMPERSONATE = python("""
from pathlib import Path
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.client.grpc_rere_client.connection import grpc_request_response
from flwr.supercore.retry import RetryInvoker, exponential
own = load_ssh_private_key(Path("/tmp/key").read_bytes(), None)
other = load_ssh_public_key(next(Path("/enrolment").glob("*.pub")).read_bytes())
retry = RetryInvoker(wait_gen_factory=exponential, recoverable_exceptions=(), max_tries=1, max_time=10)
with grpc_request_response(
    "superlink:9092", False, retry, root_certificates=Path("/pki/trust/ca.crt").read_bytes(),
    authentication_keys=(own, other),
):
    print("SuperNode ID: let in")
""")
FOREIGN = python("""
from pathlib import Path
import docker.client, docker.pki
docker.pki.make_all(Path("/tmp/pki"))
docker.client.TRUST = Path("/tmp/pki/trust/ca.crt")
docker.client.main()
""")
EXPIRED = python("""
from pathlib import Path
from docker.pki import make_all
make_all(Path("/pki"), ("expired",), server_days=-1)
""") + (
    "exec flower-superlink --ssl-ca-certfile /pki/trust/ca.crt --ssl-certfile /pki/server/server.crt "
    "--ssl-keyfile /pki/server/server.key --enable-supernode-auth --isolation process"
)
LATE = (
    python("""
import socket, time
while True:
    try:
        socket.create_connection(("expired", 9092), 1).close()
        break
    except OSError:
        time.sleep(0.2)
""")
    + "AOI_SUPERLINK=expired:9092 exec python -m docker.client"
)


@dataclass
class Strangers:
    """What became of everyone who tried to get in while the run went on: exit status (None: still trying), log.

    ``noticed`` is the ledger when they were gone. ``at`` holds the round that was the last recorded one when the
    ServerApp was killed and when everything was, ``status`` how the run ended after each; ``ledger`` is its ledger in
    the end, ``whole`` that of the same run played in one process, ``models`` both models.
    """

    ends: dict[str, tuple[int | None, str]]
    noticed: dict[str, Any]
    at: list[int]
    status: list[int]
    log: str
    ledger: dict[str, Any]
    whole: dict[str, Any]
    models: set[str]


@pytest.fixture(scope="module")
def calm(cluster: Cluster) -> Strangers:
    """Play a few rounds while strangers knock, kill everything there is, and resume."""
    start(cluster, RUN, ROUNDS)
    cluster.await_round(RUN, 1)
    trust = "trust:/pki/trust:ro"
    knocks = {
        "unregistered": (KEY + SUPERNODE.format(key="/tmp/key"), (trust,)),
        "twice": (SUPERNODE.format(key="/clients/0/key"), (trust, "clients:/clients:ro")),
        "impostor": (KEY + IMPERSONATE, (trust, "enrolment:/enrolment:ro")),
        "plaintext": (PLAIN, ()),
        "foreign": (FOREIGN, ()),
        "expired": (EXPIRED, ("authority:/pki/authority:ro", trust, "server-expired:/pki/server")),
        "late": (LATE, (trust,)),
    }
    names = {n: cluster.intruder(n, "sh", "-c", code, mounts=mounts) for n, (code, mounts) in knocks.items()}
    done = ("unregistered", "twice", "impostor", "foreign", "late")
    cluster.await_(lambda: all(cluster.exit_status(names[n]) is not None for n in done), 90, "the strangers' end")
    ends = {n: (cluster.exit_status(c), cluster.docker("logs", c)) for n, c in names.items()}
    cluster.docker("rm", "--force", *names.values())
    cluster.docker("volume", "rm", f"{cluster.project}_server-expired")
    noticed = cluster.ledger(RUN)
    at, status = [], []
    cluster.await_round(RUN, 2)
    os.kill(cluster.process(cluster.container("superexec"), "flwr-serverapp"), signal.SIGKILL)
    at.append(cluster.last_round(RUN))
    status.append(cluster.await_end())

    start(cluster, RUN, ROUNDS, AOI_RESUME="true")
    cluster.await_round(RUN, at[0] + 2)
    everyone = [cluster.container(service) for service in ("submit", "superexec", "superlink")]
    for container in everyone + cluster.containers("client"):
        cluster.crash(container)
    at.append(cluster.last_round(RUN))
    for container in cluster.containers("client"):
        cluster.await_(lambda c=container: cluster.is_connected(c), 180, f"{container} connected again")
    start(cluster, RUN, ROUNDS, AOI_RESUME="true")
    status.append(cluster.await_end())
    keys = (f"num-server-rounds={ROUNDS}", "num-clients=4", "clients-per-round=2", "run-name=whole")
    arguments = [part for key in (*keys, "runs-dir=/runs") for part in ("-c", key)]
    cluster.docker("exec", cluster.container("superexec"), "aoi", "run", *arguments)
    sums = cluster.docker(
        "exec", cluster.container("superexec"), "sha256sum", *(f"/runs/{r}/model.safetensors" for r in (RUN, "whole"))
    )
    models = set(sums.split()[::2])
    whole = cluster.ledger("whole")
    return Strangers(ends, noticed, at, status, cluster.logs("submit"), cluster.ledger(RUN), whole, models)


def test_a_client_without_a_registered_key_is_refused(calm: Strangers) -> None:
    status, log = calm.ends["unregistered"]
    assert status and "Failed to activate SuperNode" in log and "SuperNode ID" not in log


def test_a_client_that_shows_the_public_key_of_another_is_refused(calm: Strangers) -> None:
    status, log = calm.ends["impostor"]
    assert status and "UNAUTHENTICATED" in log and "let in" not in log


def test_a_second_process_under_a_key_that_is_online_is_refused(calm: Strangers) -> None:
    status, log = calm.ends["twice"]
    assert status and "Failed to activate SuperNode" in log and "SuperNode ID" not in log


def test_plain_text_to_the_tls_port_gets_nowhere(calm: Strangers) -> None:
    _, log = calm.ends["plaintext"]
    assert "Connection attempt failed" in log and "SuperNode ID" not in log


def test_a_client_that_trusts_another_authority_does_not_connect_and_says_why(calm: Strangers) -> None:
    status, log = calm.ends["foreign"]
    assert status and "certificate is not from the authority that this client trusts" in log


def test_a_client_does_not_connect_to_an_expired_certificate_and_says_why(calm: Strangers) -> None:
    status, log = calm.ends["late"]
    assert status and "certificate has expired" in log


def test_the_run_does_not_notice_the_strangers(calm: Strangers) -> None:
    assert [row["name"] for row in calm.noticed["clients"]] == [f"client-{i}" for i in range(4)]
    assert {row["outcome"] for row in calm.noticed["participations"]} == {"trained"}


def test_a_run_whose_server_app_was_killed_ends_as_failed_and_resumes(calm: Strangers) -> None:
    at = calm.at[0]
    assert calm.status[0] == 1 and at < calm.at[1]
    assert [row["round"] for row in calm.ledger["rounds"]] == list(range(1, ROUNDS + 1))


def test_after_everything_was_killed_the_run_resumes_and_equals_one_that_was_not(calm: Strangers) -> None:
    assert calm.at[1] < ROUNDS and calm.status[1] == 0, calm.log
    assert _selections(calm.ledger) == _selections(calm.whole)
    assert len(calm.models) == 1


def _selections(ledger: dict[str, Any]) -> list[tuple[int, int]]:
    return [(r["round"], r["client"]) for r in ledger["participations"] if r["outcome"] == "trained"]
