"""What a cluster survives: real containers of the real image, really killed, stopped, cut off and lied to.

Two runs carry most of the tests. While `calm` goes on, strangers try to get in; during `storm` clients and SuperLink
are hurt one after the other. Each test says what must hold of one event.
"""

import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.cluster import Cluster

CALM, STORM, ALONE = "calm", "storm", "alone"
CALM_ROUNDS = 6


def python(code: str) -> str:
    """Return a shell command that runs a piece of Python."""
    return f"python - <<'END'\n{code}\nEND\n"


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


def start(cluster: Cluster, run: str, rounds: int, **settings: str) -> None:
    """Submit a run; the cluster is started with it, or goes on."""
    keys = {"AOI_RUN_NAME": run, "AOI_NUM_SERVER_ROUNDS": str(rounds), "AOI_NUM_CLIENTS": "4"} | settings
    cluster.compose("up", "-d", "--no-build", timeout=180, **keys)


# Strangers -----------------------------------------------------------------------------------------------------------


@dataclass
class Strangers:
    """What became of everyone who tried to get in while the run went on: exit status (None: still trying), log.

    ``noticed`` is the ledger when they were gone; ``status`` and ``ledger`` are those of the run after everything was
    killed and the run resumed; ``whole`` is the ledger of the same run played in one process, ``models`` both models.
    """

    ends: dict[str, tuple[int | None, str]]
    noticed: dict[str, Any]
    at: int
    status: int
    log: str
    ledger: dict[str, Any]
    whole: dict[str, Any]
    models: set[str]


@pytest.fixture(scope="module")
def calm(cluster: Cluster) -> Strangers:
    """Play a few rounds while strangers knock, kill everything there is, and resume."""
    start(cluster, CALM, CALM_ROUNDS)
    cluster.await_round(CALM, 1)
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
    cluster.await_round(CALM, 3)
    noticed = cluster.ledger(CALM)
    everyone = [cluster.container(service) for service in ("submit", "superexec", "superlink")]
    for container in everyone + cluster.containers("client"):
        cluster.crash(container)
    at = cluster.last_round(CALM)
    for container in cluster.containers("client"):
        cluster.await_(lambda c=container: cluster.is_connected(c), 180, f"{container} connected again")
    start(cluster, CALM, CALM_ROUNDS, AOI_RESUME="true", AOI_JOIN_TIMEOUT="180")
    status = cluster.await_end()
    keys = (f"num-server-rounds={CALM_ROUNDS}", "num-clients=4", "clients-per-round=2", "run-name=whole")
    arguments = [part for key in (*keys, "runs-dir=/runs") for part in ("-c", key)]
    cluster.docker("exec", cluster.container("superexec"), "aoi", "run", *arguments)
    sums = cluster.docker(
        "exec", cluster.container("superexec"), "sha256sum", *(f"/runs/{r}/model.safetensors" for r in (CALM, "whole"))
    )
    models = set(sums.split()[::2])
    whole = cluster.ledger("whole")
    return Strangers(ends, noticed, at, status, cluster.logs("submit"), cluster.ledger(CALM), whole, models)


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


def test_after_everything_was_killed_the_run_resumes_and_equals_one_that_was_not(calm: Strangers) -> None:
    assert calm.at < CALM_ROUNDS and calm.status == 0, calm.log
    assert [row["round"] for row in calm.ledger["rounds"]] == list(range(1, CALM_ROUNDS + 1))
    assert _selections(calm.ledger) == _selections(calm.whole)
    assert len(calm.models) == 1


def _selections(ledger: dict[str, Any]) -> list[tuple[int, int]]:
    return [(r["round"], r["client"]) for r in ledger["participations"] if r["outcome"] == "trained"]


# Crashes -------------------------------------------------------------------------------------------------------------

ROUNDS, ASK, TRAIN = 14, 20, 30  # the deadlines in seconds


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
    cluster.crash(at[0])
    seen.at["killed mid-train"] = cluster.last_round(STORM)
    cluster.await_(lambda: cluster.is_idle(at[1]), 60, "client 1 idle")
    cluster.crash(at[1])
    seen.at["killed between rounds"] = cluster.last_round(STORM)
    for container in at[:2]:
        cluster.await_(lambda c=container: cluster.is_connected(c), 150, f"{container} connected again")
    seen.at["back"] = cluster.last_round(STORM)

    network = f"{cluster.project}_fleet"
    cluster.signal(at[2], signal.SIGSTOP)
    cluster.docker("network", "disconnect", network, at[3])
    begun = time.monotonic()
    seen.at["stopped"] = seen.at["cut off"] = cluster.last_round(STORM)
    time.sleep(30)
    seen.at["30 s later"] = cluster.last_round(STORM)
    cluster.signal(at[2], signal.SIGCONT)
    cluster.docker("network", "connect", "--alias", "client", network, at[3])
    assert time.monotonic() - begun < 60

    cluster.await_round(STORM, seen.at["30 s later"] + 2)
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
    assert storm.trained(client, after=storm.at["30 s later"]), storm.log


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


def test_when_three_of_four_die_for_good_rounds_go_on_with_one_and_with_none_the_run_ends(cluster: Cluster) -> None:
    start(cluster, ALONE, 60, AOI_POLICY="random", AOI_TRAIN_TIMEOUT="12", AOI_MAX_EMPTY_ROUNDS="2")
    cluster.await_round(ALONE, 1)
    at = [cluster.client_of(number) for number in range(4)]
    cluster.docker("kill", *at[:3])  # which also keeps Docker from starting them again
    died = cluster.last_round(ALONE)
    cluster.await_(
        lambda: any(r["round"] > died + 1 and r["client"] == 3 for r in cluster.ledger(ALONE)["participations"]),
        180,
        "a round of the last client",
    )
    cluster.docker("kill", at[3])
    assert cluster.await_end() == 1
    assert cluster.ledger(ALONE)["run"]["status"] == "stopped"
    assert "was stopped" in cluster.logs("submit")
