"""The doctor against real files, real TLS servers and Flower's own Fleet API on 127.0.0.1."""

import datetime
import json
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from socketserver import ThreadingTCPServer
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from aoi_fl.client.device import checks, reach
from aoi_fl.client.device.registration import registration
from aoi_fl.docker.nodes import read_pems
from aoi_fl.docker.pki import make_all
from aoi_fl.flower import fleet as fleet_api
from tests.processes import python

PEM = serialization.Encoding.PEM


@pytest.fixture(scope="module")
def cluster(authority):
    """Return the certificate of an authority, and a server's certificate and private key."""
    return [(authority / name).read_bytes() for name in ("trust/ca.crt", "server/server.crt", "server/server.key")]


@contextmanager
def listening(answer):
    """Serve on 127.0.0.1, every connection in a thread; yields the port."""
    with ThreadingTCPServer(("127.0.0.1", 0), lambda client, *_: answer(client)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def tls(folder, certificate, key, protocol="h2", greet=lambda client: True):
    """Serve TLS on 127.0.0.1 to each client that ``greet`` lets in; yields the port."""
    (folder / "server.crt").write_bytes(certificate)
    (folder / "server.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.set_alpn_protocols([protocol])

    def shake(client):
        with suppress(OSError), client:
            if greet(client):
                with context.wrap_socket(client, server_side=True) as secure:
                    secure.recv(1)

    with listening(shake) as port:
        yield port


@pytest.mark.parametrize(("days", "own", "status"), [(397, True, "ok"), (-1, True, "fail"), (397, False, "fail")])
def test_a_certificate_is_of_the_authority_and_valid(tmp_path, cluster, days, own, status):
    make_all(tmp_path, server_days=days)
    trusted = (tmp_path / "trust/ca.crt").read_bytes() if own else cluster[0]
    with tls(tmp_path, *((tmp_path / f"server/server.{half}").read_bytes() for half in ("crt", "key"))) as port:
        assert reach.tls("127.0.0.1", port, trusted).status == status


@pytest.mark.parametrize("status", ["200 OK", "407 Proxy Authentication Required"])
def test_a_proxy_in_the_environment_is_named_and_used_as_by_grpc(status, tmp_path, monkeypatch, cluster):
    calls = []

    def greet(client):
        calls.append(client.recv(1000))
        client.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())
        return status.startswith("200")

    for name in ("grpc_proxy", "no_grpc_proxy", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    authority, *server = cluster
    with tls(tmp_path, *server, greet=greet) as port:
        monkeypatch.setenv("https_proxy", f"http://user:secret@127.0.0.1:{port}")
        first, second = reach.tcp("127.0.0.1", 9), reach.tls("127.0.0.1", 9, authority)
    assert "https_proxy" in first.found and "secret" not in first.found + first.remedy
    assert first.status == second.status == ("ok" if status == "200 OK" else "fail")
    assert len(calls) == 2 and b"\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n" in calls[0]
    assert all(call.startswith(b"CONNECT 127.0.0.1:9 ") for call in calls)
    monkeypatch.setenv("no_proxy", "example.org, 127.0.0.1")
    with tls(tmp_path, *server) as port:
        assert reach.tls("127.0.0.1", port, authority).status == "ok"


@pytest.mark.parametrize(
    "answer",
    [
        lambda client: client.sendall(b"\0\0\x06\4\0\0\0\0\0\0\5\0\0\x40\0"),  # plain text, as gRPC greets
        lambda client: client.close(),
        lambda client: time.sleep(2),
    ],
)
def test_another_server_is_no_superlink(monkeypatch, answer, cluster):
    monkeypatch.setattr(reach, "_PATIENCE", 0.3)
    with listening(answer) as port:
        assert reach.tls("127.0.0.1", port, cluster[0]).status == "fail"


def test_a_web_server_an_unknown_name_and_a_closed_port_are_no_superlink(tmp_path, cluster):
    with tls(tmp_path, *cluster[1:], protocol="http/1.1") as port:
        assert reach.tls("127.0.0.1", port, cluster[0]).status == "fail"
        assert reach.tcp("127.0.0.1", port).status == "ok"
    assert reach.tcp("no-such-host.invalid", 9092).status == reach.tcp("127.0.0.1", port).status == "fail"


# Flower's own Fleet API ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(cluster):
    """Flower's Fleet API over TLS with client authentication."""
    from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
    from flwr.server.superlink.fleet.grpc_rere.node_auth_server_interceptor import NodeAuthServerInterceptor
    from flwr.server.superlink.linkstate import LinkStateFactory
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.superlink.cli.flower_superlink import _run_fleet_api_grpc_rere
    from flwr.superlink.federation import NoOpFederationManager

    objects = ObjectStoreFactory()
    states = LinkStateFactory(":flwr-in-memory:", NoOpFederationManager(), objects)
    server = _run_fleet_api_grpc_rere(
        "127.0.0.1:0", states, objects, True, tuple(cluster), [NodeAuthServerInterceptor(states)]
    )

    def register(folder):
        states.state().create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, read_pems(folder / "pi-3.pub")[0] + b"\n", 30)

    port = int(server.bound_address.rpartition(":")[2])
    yield SimpleNamespace(port=port, register=register)
    server.stop(None)


@pytest.fixture
def made(fleet, enrol):
    """Return the enrolment of a client whose key the SuperLink does not know yet."""
    return enrol(superlink=f"127.0.0.1:{fleet.port}")


@pytest.mark.parametrize("ahead", [3.0, -100.0, 20.0, -400.0])
def test_a_wrong_clock_is_told(fleet, cluster, monkeypatch, ahead):
    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.now(tz) + datetime.timedelta(seconds=ahead)

    monkeypatch.setattr(fleet_api, "datetime", SimpleNamespace(datetime=Shifted, UTC=datetime.UTC))
    refused = "registration" if ahead in (3.0, -100.0) else "clocks"
    key = ec.generate_private_key(ec.SECP384R1())
    finding = registration("127.0.0.1", fleet.port, cluster[0], key)
    assert (finding.check, finding.status) == (refused, "fail")


@pytest.mark.parametrize(("ahead", "named"), [(-400.0, "clock"), (0.0, "key")])
def test_a_refused_client_ends_with_the_reason(fleet, made, ahead, named: str):
    """Flower alone ends "gracefully", with status 0."""
    code = f"""
import datetime
from flwr.client.grpc_rere_client import node_auth_client_interceptor as signing
right = signing.now
signing.now = lambda: right() + datetime.timedelta(seconds={ahead})
from aoi_fl.client import supernode
supernode.PAUSE = 0
supernode.main()
"""
    if ahead:
        fleet.register(made.folder)
    options = ["--superlink", made.superlink, "--root-certificates", made.folder / "ca.crt"]
    options += ["--auth-supernode-private-key", made.folder / "client.key", "--clientappio-api-address", "127.0.0.1:0"]
    done = python("-c", code, *options, status=1)
    (reason,) = [line for line in done.stderr.splitlines() if line.startswith("this SuperNode ends: ")]
    assert named in reason


def test_the_command_from_enrolment_to_health(fleet, made, monkeypatch, aoi):
    monkeypatch.setattr(checks, "torch", lambda: reach.Finding("torch", "ok", "tried elsewhere"))
    status, out, _ = aoi(f"doctor --dir {made.folder}")
    (line,) = [line for line in out.splitlines() if line.startswith("fail")]
    assert status == 1 and "registration" in line
    fleet.register(made.folder)
    for _ in range(2):  # the second time shows that the first one left
        status, out, err = aoi(f"doctor --dir {made.folder} --json")
        assert status == 0, out + err
    found = json.loads(out)
    assert found["healthy"]
    names = [check["check"] for check in found["checks"]]
    assert names[0] == "torch" and names[-3:] == ["network", "tls", "registration"]
    assert {check["check"] for check in found["checks"] if check["status"] == "warn"} <= {"data"}


# The device itself ---------------------------------------------------------------------------------------------------


def test_a_private_key_is_of_its_kind_and_for_its_account(tmp_path):
    path = tmp_path / "file"

    def key(private, mode=0o600):
        form = PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        path.write_bytes(private if isinstance(private, bytes) else private.private_bytes(*form))  # type: ignore
        path.chmod(mode)
        return checks.client_key(path)[1].status

    good = ec.generate_private_key(ec.SECP384R1())
    assert key(good) == "ok"
    assert {key(good, 0o640), key(ed25519.Ed25519PrivateKey.generate()), key(b"nonsense")} == {"fail"}
    path.unlink()
    assert checks.client_key(path)[1].status == "fail"


@pytest.mark.parametrize(
    ("module", "status", "said"),
    [
        ("__version__ = '9.9'\nclass cuda:\n    is_available = staticmethod(lambda: False)", "ok", "without CUDA"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "warn", "ended with -4"),
    ],
)
def test_torch_is_really_imported(tmp_path, monkeypatch, module, status, said):
    (tmp_path / "torch.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    finding = checks.torch()
    assert (finding.status, said in finding.found) == (status, True)


def test_a_folder_that_is_no_clients(tmp_path, monkeypatch, aoi):
    monkeypatch.setattr(checks, "torch", lambda: reach.Finding("torch", "ok", "tried elsewhere"))
    status, out, _ = aoi(f"doctor --dir {tmp_path} --json")
    failed = [check["check"] for check in json.loads(out)["checks"] if check["status"] == "fail"]
    assert status == 1 and failed == ["configuration", "key", "network"]
