"""Who is not let in while a run goes on; then its clients die one after the other, until there are none."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.cluster import FIRST, NEWEST, Cluster, python, start

RUN = "open"

KEY = python("""
from pathlib import Path
from aoi_fl.docker.pki import make_client_key
make_client_key(Path("/tmp/key"), Path("/tmp/key.pub"))
""")
# Ours, which ends when it is refused; Flower's own may hang in that case (client/supernode.py).
SUPERNODE = (
    "python -m aoi_fl.client.supernode --superlink superlink:9092 --root-certificates /pki/trust/ca.crt "
    "--auth-supernode-private-key {key} --node-config 'name=\"mallory\" partition-id=0'"
)


def laid_down(key: str) -> str:
    """Return a shell command that writes a private key down."""
    return f"umask 077; cat > /tmp/key <<'END'\n{key}END\n"


PLAIN = "flower-supernode --superlink superlink:9092 --insecure --node-config 'name=\"mallory\" partition-id=0'"
# A node that shows another's public key and signs with its own private one.
CONNECT = (
    """
from flwr.supernode.fleet_http_connection import http_request_response as request_response
more = {"max_retries": 0, "max_wait_time": 10}
"""
    if NEWEST
    else """
from flwr.client.grpc_rere_client.connection import grpc_request_response as request_response
from flwr.supercore.retry import RetryInvoker, exponential
more = {"retry_invoker": RetryInvoker(exponential, (), max_tries=1, max_time=10)}
"""
)
IMPERSONATE = python(
    CONNECT
    + """
from pathlib import Path
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
own = load_ssh_private_key(Path("/tmp/key").read_bytes(), None)
other = load_ssh_public_key(next(Path("/enrolment").glob("*.pub")).read_bytes())
with request_response(
    "superlink:9092", False, root_certificates=Path("/pki/trust/ca.crt").read_bytes(),
    authentication_keys=(own, other), **more,
):
    print("SuperNode ID: let in")
"""
)
FOREIGN = python("""
from pathlib import Path
import aoi_fl.docker.client, aoi_fl.docker.pki
aoi_fl.docker.pki.make_all(Path("/tmp/pki"))
aoi_fl.docker.client.TRUST = Path("/tmp/pki/trust/ca.crt")
aoi_fl.docker.client.main()
""")
EXPIRED = python("""
from pathlib import Path
from aoi_fl.docker.pki import make_all
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
    + "AOI_SUPERLINK=expired:9092 exec python -m aoi_fl.docker.client"
)


RIGHTS = """
from pathlib import Path
for path in Path("/proc").glob("[0-9]*"):
    if "aoi_fl.client.supernode" in (path / "cmdline").read_text().split("\\0"):
        about = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines())
        print(*set(about["Uid"].split()), int(about["CapEff"], 16))
"""


@dataclass
class Strangers:
    """What became of everyone who tried to get in: exit status (None: still trying), log; the ledger when they left."""

    ends: dict[str, tuple[int | None, str]]
    ledger: dict[str, Any]
    key: str  # of client-0, which lies in its container alone


@pytest.fixture(scope="module")
def strangers(cluster: Cluster) -> Strangers:
    """Begin a run that would go on for long, and let strangers knock."""
    every_client: dict[str, Any] = {"AOI_POLICY": "random", "AOI_CLIENTS_PER_ROUND": "4"}
    start(cluster, RUN, 500, AOI_TRAIN_TIMEOUT="45", AOI_MAX_EMPTY_ROUNDS="2", **every_client)
    cluster.await_round(RUN, 1)
    trust = "trust:/pki/trust:ro"
    key = cluster.inside(0, "cat", "/keys/0/key")
    knocks = {
        "unregistered": (KEY + SUPERNODE.format(key="/tmp/key"), (trust,)),
        "twice": (laid_down(key) + SUPERNODE.format(key="/tmp/key"), (trust,)),
        "impostor": (KEY + IMPERSONATE, (trust, "enrolment:/enrolment:ro")),
        "plaintext": (PLAIN, ()),
        "foreign": (FOREIGN, ()),
        "expired": (EXPIRED, ("authority:/pki/authority:ro", trust, "server-expired:/pki/server")),
        "late": (LATE, (trust,)),
    }
    try:
        names = {n: cluster.intruder(n, "sh", "-c", code, mounts=mounts) for n, (code, mounts) in knocks.items()}
        done = ("unregistered", "twice", "impostor", "foreign", "late")
        cluster.await_(lambda: all(cluster.exit_status(names[n]) is not None for n in done), "the strangers' end")
        ends = {n: (cluster.exit_status(c), cluster.docker("logs", c)) for n, c in names.items()}
    finally:
        cluster.dismiss()
        cluster.docker("volume", "rm", f"{cluster.project}_server-expired", check=False)
    return Strangers(ends, cluster.ledger(RUN), key)


def test_a_client_without_a_registered_key_is_refused(strangers: Strangers) -> None:
    status, log = strangers.ends["unregistered"]
    assert status and "SuperNode ID" not in log


# "twice" has a key that is online, and "late" meets an expired certificate.
@pytest.mark.parametrize(("who", "reason"), [("twice", ""), ("foreign", "authority"), ("late", "expired")])
def test_a_stranger_ends_with_the_reason(strangers: Strangers, who: str, reason: str) -> None:
    status, log = strangers.ends[who]
    assert status and reason in log and "SuperNode ID" not in log


def test_a_client_with_the_public_key_of_another_is_refused(strangers: Strangers) -> None:
    status, log = strangers.ends["impostor"]
    assert status and ("401" if NEWEST else "UNAUTHENTICATED") in log and "let in" not in log


def test_a_client_container_sees_its_own_key_only(cluster: Cluster, strangers: Strangers) -> None:
    look = "import pathlib; print(*pathlib.Path('/').glob('[ck][le]*s/**/key*'))"
    keys = {n: cluster.inside(n, "python", "-c", look).split() for n in range(4)}
    assert strangers.key and keys == {n: [f"/keys/{n}/key"] for n in range(4)}


def test_a_client_container_reads_no_run(cluster: Cluster) -> None:
    look = "import pathlib; print(*(p for d in ('runs', 'dealt') for p in pathlib.Path('/', d).rglob('[ln]*')))"
    assert [cluster.inside(n, "python", "-c", look).split() for n in range(4)] == [[]] * 4


def test_a_client_container_reads_its_own_files_only_and_enrols_nothing(cluster: Cluster, strangers: Strangers) -> None:
    find, enrol = ("find", "/clients", "/keys", "-type", "f"), "touch /enrolment/mallory.pub || echo refused"
    for number in range(4):
        seen = cluster.inside(number, *find, "-readable", check=False).splitlines()
        readable = [line for line in seen if line.startswith("/")]
        assert {line.split("/")[2] for line in readable} == {str(number)}
        assert f"/clients/{number}/state/{RUN}/client-{number}.json" in readable
        root = cluster.docker("exec", cluster.client_of(number), *find[:2], *find[3:], check=False)
        assert not [line for line in root.splitlines() if line.startswith("/")]  # what docker exec begins as
        assert "refused" in cluster.inside(number, "sh", "-c", enrol).splitlines()
        rights = cluster.inside(number, "python", "-c", RIGHTS).splitlines()
        assert strangers and rights and set(rights) == {f"{FIRST + number} 0"}


def test_plain_text_to_the_tls_port_gets_nowhere(strangers: Strangers) -> None:
    _, log = strangers.ends["plaintext"]
    assert "SuperNode ID" not in log and (NEWEST or "Connection attempt failed" in log)


def test_the_run_does_not_notice_the_strangers(strangers: Strangers) -> None:
    assert {row["client"]: row["name"] for row in strangers.ledger["clients"]} == {i: f"client-{i}" for i in range(4)}
    # The containers of seven strangers start meanwhile, which can hold a client up on a small machine.
    ends = {row["outcome"] for row in strangers.ledger["participations"]}
    assert "trained" in ends and ends <= {"trained", "late"}


def test_rounds_go_on_with_one_client_and_end_without_any(cluster: Cluster, strangers: Strangers) -> None:
    at = [cluster.client_of(number) for number in range(4)]
    cluster.docker("kill", *at[:3])  # which also keeps Docker from starting them again
    died = cluster.last_round(RUN)
    cluster.await_(lambda: any(r > died + 1 for r in _rounds_of_client_3(cluster)), "a round of the last client")
    cluster.docker("kill", at[3])
    assert cluster.await_end() == 1  # with nobody there, each of the two empty rounds waits for somebody
    ledger = cluster.ledger(RUN)
    assert ledger["run"]["status"] == "stopped"
    assert [row["empty"] for row in ledger["rounds"][-2:]] == [1, 1]


def test_a_client_whose_key_was_revoked_is_refused(cluster: Cluster, strangers: Strangers) -> None:
    nodes = ("run", "--rm", "--no-deps", "submit", "nodes")
    assert "client-0" in cluster.compose(*nodes) and strangers.ledger
    cluster.compose(*nodes, "revoke", "client-0")
    command = laid_down(strangers.key) + SUPERNODE.format(key="/tmp/key")
    again = cluster.intruder("revoked", "sh", "-c", command, mounts=("trust:/pki/trust:ro",))
    cluster.await_(lambda: cluster.exit_status(again) is not None, "the refusal")
    assert cluster.exit_status(again) and "SuperNode ID" not in cluster.docker("logs", again)
    assert "client-0 revoked" in cluster.compose(*nodes)


def _rounds_of_client_3(cluster: Cluster) -> list[int]:
    parts = cluster.ledger(RUN)["participations"]
    return [p["round"] for p in parts if p["client"] == 3 and p["outcome"] == "trained"]
