"""The cluster's settings, certificates, slots and keys, without an engine."""

import fcntl
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.verification import PolicyBuilder, Store
from flwr.proto.control_pb2 import ListNodesResponse, RegisterNodeResponse
from flwr.proto.control_pb2_grpc import ControlServicer, add_ControlServicer_to_server
from flwr.proto.node_pb2 import NodeInfo

from aoi_fl.config.fields import variable
from aoi_fl.docker import arrivals, client, pki, settings, submit, users
from aoi_fl.docker.nodes import ClusterNodes, read_pems
from aoi_fl.flower.calls import CallError
from aoi_fl.flower.control import ControlApi, NodeState
from aoi_fl.science.errors import AoiError, NodesError
from aoi_fl.server.folder import DEALT, deal
from tests.processes import FORK, ROOT, python
from tests.refusals import refused

COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
FIXED = {"runs-dir", "data-dir", "model-dir"}  # the image's own folders; the volumes are AOI_RUNS and AOI_DATA


def test_the_example_names_only_variables_that_exist():
    known = {variable(key) for key in settings.defaults(ROOT / "pyproject.toml")} | settings.CLUSTER
    named = set(re.findall(r"^#?(AOI_\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    files = [ROOT / "compose.yaml", *(ROOT / "docker").glob("*.yaml")]
    used = {v for file in files for v in re.findall(r"\$\{(AOI_\w+)", file.read_text())}
    assert named and named | used <= known
    assert {"AOI_IMAGE", "AOI_CLIENT_PREFIX"} <= named and not {variable(key) for key in FIXED} & named


def test_variables_become_run_keys_and_empty_ones_none():
    known = {"clients-per-round": 15, "seed": 1}
    found = settings.from_environment({"AOI_CLIENTS_PER_ROUND": "3", "AOI_SEED": "", "PATH": "x"}, known)
    assert found == {"clients-per-round": "3"}


def test_no_port_is_published_beyond_this_machine_and_no_root():
    for name, service in COMPOSE["services"].items():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service["cap_drop"] == ["ALL"] and "privileged" not in service
        changes = {"client": ["CHOWN", "KILL", "SETGID", "SETUID"], "backup": ["DAC_READ_SEARCH", "SETGID", "SETUID"]}
        assert service.get("cap_add") == changes.get(name) and ("user" in service) == (name in changes)
        assert "mem_limit" in service and "restart" in service
        # `docker compose run` starts and recreates what its service depends on, whatever the shell's variables are.
        assert name not in ("submit", "page", "backup") or "depends_on" not in service
    assert "USER app" in (ROOT / "docker/Dockerfile").read_text()


MOUNTS = {name: [v.split(":")[0] for v in service.get("volumes", [])] for name, service in COMPOSE["services"].items()}


def services_with(volume):
    return {name for name, volumes in MOUNTS.items() if volume in volumes}


def test_clients_cannot_undo_the_operators_decisions():
    assert services_with("operator") == {"submit", "backup"}


def test_private_keys_are_mounted_only_where_they_are_needed():
    backup = COMPOSE["services"]["backup"]  # the operator starts it, and it has no network
    assert backup["network_mode"] == "none" and backup["profiles"] == ["operator"]
    assert services_with("authority") == {"init", "backup"}
    assert services_with("server") == {"init", "superlink", "backup"}
    assert services_with("clients") == {"client", "backup"}


def test_a_client_mounts_no_run(tmp_path):
    """The volume of runs has the ledger and the key of a private run's noise; a client gets a copy of what it reads."""
    run, dealt, state = tmp_path / "run", tmp_path / "dealt", tmp_path / "state"
    targets = {v.rsplit(":/", 1)[1].removesuffix(":ro") for v in COMPOSE["services"]["client"]["volumes"]}
    assert str(DEALT)[1:] in targets and not targets & {"runs", "operator", "pki/authority", "pki/superexec"}
    run.mkdir()
    dealt.mkdir()
    state.mkdir()
    for name in ("partition.npy", "ledger.sqlite", "noise.key", "noise.release"):
        (run / name).write_text(name)
    (dealt / "clients.csv").write_text("of an earlier run")
    deal(run, dealt)
    assert [path.name for path in dealt.iterdir()] == ["partition.npy"]
    (state / "partition.npy").symlink_to("/runs/.current/partition.npy")  # of a former version
    client.share(state)
    assert os.readlink(state / "partition.npy") == str(DEALT / "partition.npy")


def test_no_volume_holds_a_clients_private_key(tmp_path):
    """The folder of keys is the container's own: in no volume, and for one user alone."""
    targets = [v.split(":")[1] for v in COMPOSE["services"]["client"]["volumes"]]
    assert not any(client.KEYS.is_relative_to(target) for target in targets)
    own = {slot: client.own_folder(slot, tmp_path / f"container-{slot}") for slot in (0, 1)}
    for folder in own.values():
        pki.make_client_key(folder / "key", tmp_path / "public")
        first = (folder / "key").read_bytes()
        (tmp_path / "public").unlink()
        pki.make_client_key(folder / "key", tmp_path / "public")
        assert (folder / "key").read_bytes() == first  # it is made once, and its public half again
        assert load_ssh_private_key(first, None).public_key() == load_ssh_public_key((tmp_path / "public").read_bytes())
    assert {(f / "key").stat().st_mode & 0o777 for f in own.values()} == {0o600}
    assert {f.stat().st_mode & 0o777 for f in own.values()} == {0o700}


def test_certificates_are_made_once_and_renewed_when_needed(tmp_path):
    assert len(pki.make_all(tmp_path)) == 3
    assert pki.make_all(tmp_path) == []
    authority = (tmp_path / "trust/ca.crt").read_bytes()
    assert len(pki.make_all(tmp_path, ("192.0.2.7", "fl.example.org"))) == 1
    certificate = x509.load_pem_x509_certificate((tmp_path / "server/server.crt").read_bytes())
    trusting = PolicyBuilder().store(Store(x509.load_pem_x509_certificates(authority)))
    assert trusting.build_server_verifier(x509.DNSName("superlink")).verify(certificate, [])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["superlink", "superlink-control", "localhost", "fl.example.org"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "192.0.2.7"]
    pki.make_all(tmp_path, server_days=pki.RENEW_DAYS - 1)
    assert len(pki.make_all(tmp_path)) == 1
    renewed = x509.load_pem_x509_certificate((tmp_path / "server/server.crt").read_bytes())
    assert renewed.not_valid_after_utc - datetime.now(UTC) > timedelta(days=pki.RENEW_DAYS)
    assert (tmp_path / "trust/ca.crt").read_bytes() == authority
    for secret in ("authority/ca.key", "server/server.key", "superexec/secret"):
        assert (tmp_path / secret).stat().st_mode & 0o777 == 0o600


def hold(folder, told):
    told.send(client.claim(folder))
    os.execvp("sleep", ["sleep", "60"])  # as a client becomes the SuperNode


def test_replicas_take_the_lowest_slots_and_death_frees_one(tmp_path):
    with ExitStack() as stack:

        def replica():
            slot, told = FORK.Pipe(duplex=False)
            process = FORK.Process(target=hold, args=(tmp_path, told))
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
            assert slot.poll(60)
            return slot.recv(), process

        slots, replicas = zip(*(replica() for _ in range(3)), strict=True)
        assert slots == (0, 1, 2)
        replicas[1].kill()
        replicas[1].join()
        assert replica()[0] == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes its user")
def test_each_slot_belongs_to_a_user_that_reads_no_other():
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "clients"
        (folder / "0/state").mkdir(parents=True)  # of a version with one user for all
        (folder / "0/state/client-0.json").write_text("{}")
        for path in (Path(place), folder, *folder.rglob("*")):
            os.chown(path, users.APP, users.APP)
            path.chmod(path.stat().st_mode | 0o755 if path.is_dir() else 0o600)
        (secret := Path(place) / "secret").touch()
        with users.acting_as(users.APP), (folder / "0/lock").open("w") as running:
            (folder / "0/link").symlink_to(secret)
            assert (folder / "0/lock").stat().st_uid == users.APP
            fcntl.flock(running, fcntl.LOCK_EX)
            with users.acting_as(0):
                assert client.claim(folder, apart=True) == 1 and (folder / "0").stat().st_uid == users.APP
        assert client.claim(folder, apart=True) == 0
        owners = [path.stat().st_uid for path in (secret, folder / "0/state/client-0.json")]
        assert owners == [0, users.user_of(0, True)]
        assert [(folder / name).stat().st_mode & 0o777 for name in "01"] == [0o700] * 2
        reads = """
import os, sys
from aoi_fl.docker.users import become, user_of
become(user_of(int(sys.argv[2]), True))
for name in "01":
    try:
        print(os.listdir(f"{sys.argv[1]}/{name}/state" if name == "0" else f"{sys.argv[1]}/1"))
    except PermissionError:
        print("refused")
"""
        seen = [python("-c", reads, folder, slot).stdout for slot in "01"]
        assert seen == ["['client-0.json']\nrefused\n", "refused\n['lock']\n"]


@pytest.mark.parametrize(("slot", "expected"), [(0, "0"), (1, "1"), (2, "0")])
def test_clients_spread_over_the_gpus(tmp_path, monkeypatch, slot, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that it is put back afterwards
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    client.choose_gpu(slot, tmp_path)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    for device in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / device).touch()
    for each in (slot, slot + 1):  # what is chosen stays
        client.choose_gpu(each, tmp_path)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


class Registry:
    """Stands in for the SuperLink: knows the nodes that it is given, and the names of registered keys.

    It first lets so many questions about runs go unanswered.
    """

    def __init__(self, *nodes, silent=0):
        self.known, self.names, self.gone, self.silent = list(nodes), [], [], silent

    def runs(self):
        self.silent -= 1
        if self.silent >= 0:
            raise CallError("away")

    def nodes(self):
        return self.known

    def register(self, key, name):
        self.names.append(name)
        self.known.append(NodeState(len(self.names), key, "online"))

    def unregister(self, number):
        self.gone.append(number)


@pytest.fixture
def enrolment(tmp_path):
    """Return the clients of an enrolment at a registry, the operator's folder, and a function that makes a key."""
    (decisions := tmp_path / "operator").mkdir()

    def make(name, number=0):
        pki.make_client_key(tmp_path / f"{name}-{number}", public := tmp_path / "enrolment" / f"{name}.pub")
        return public.read_bytes()

    return ClusterNodes(Registry(), tmp_path / "enrolment", decisions), decisions, make


def test_a_key_is_registered_once_and_a_revoked_one_not_again(enrolment, tmp_path):
    nodes, decisions, make = enrolment
    make("client-0")
    (decisions / "client-1.revoked").write_bytes(make("client-1"))
    for _ in range(2):
        nodes.enrol()
    assert nodes.control.names == ["client-0"]
    assert [path.name for path in (tmp_path / "enrolment").glob("*.registered")] == ["client-0.registered"]
    key = make("client-1", 1)  # as a new container makes it
    nodes.enrol()
    assert nodes.control.names == ["client-0"]
    (decisions / "client-1.accepted").write_bytes(key)
    nodes.enrol()
    assert nodes.control.names == ["client-0", "client-1"]


def test_with_ask_each_new_key_waits_for_the_operator(enrolment, monkeypatch, capsys):
    nodes, decisions, make = enrolment
    monkeypatch.setenv("AOI_ENROL", "ask")
    for name in ("client-0", "client-1"):
        make(name)
    nodes.enrol()
    assert nodes.control.names == []
    nodes.accept(["client-1"])
    assert nodes.control.names == ["client-1"] and "client-1 is accepted" in capsys.readouterr().out
    replaced = make("client-1", 1)
    nodes.enrol()
    assert nodes.control.names == ["client-1"]
    with refused("client", "client-2"):
        nodes.accept(["client-2"])
    (decisions / "client-1.revoked").write_bytes(replaced)
    with refused("client", "client-1"):
        nodes.accept(["client-1"])


def test_pruning_unregisters_replaced_keys_of_absent_clients(enrolment, tmp_path):
    nodes, _, make = enrolment
    for number, (name, status) in enumerate({"a": "offline", "b": "offline", "c": "online"}.items()):
        make(name)
        key = read_pems(tmp_path / "enrolment" / f"{name}.pub")[0]
        nodes.control.known.append(NodeState(number, key, status))
    for name in "bc":
        make(name, 1)
    assert nodes.prune() == nodes.control.gone == [1]


def test_an_own_app_takes_its_own_keys(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.flwr.app.config]\nrounds = 3\nlearning-rate = 0.2\nloud = false\nnote = ""\n'
    )
    environment = {"AOI_ROUNDS": "5", "AOI_LEARNING_RATE": "1", "AOI_LOUD": "true", "AOI_NOTE": "7", "AOI_POLICY": "x"}
    keys = settings.own_keys(environment, tmp_path)
    assert keys == {"rounds": 5, "learning-rate": 1.0, "loud": True, "note": "7"}
    assert [type(value) for value in keys.values()] == [int, float, bool, str]
    for wrong in ({"AOI_ROUNDS": "many"}, {"AOI_ROUNDS": "2.5"}, {"AOI_LOUD": "1"}, {"AOI_LEARNING_RATE": "true"}):
        with refused(next(iter(wrong))):
            settings.own_keys(wrong, tmp_path)


def test_a_client_gets_its_own_data(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "DATA", tmp_path)
    own = tmp_path / "clients/client-1"
    own.mkdir(parents=True)
    (own / "train.npz").touch()
    assert settings.may_sleep({}) and not settings.may_sleep({"AOI_CLIENT_SLEEP": "false"})
    first, second = (client.node_config(slot, f"client-{slot}") for slot in (0, 1))
    assert f'data-dir="{tmp_path}"' in first and "data-file" not in first
    assert f'data-dir="{own}"' in second and f'data-file="{own / "train.npz"}"' in second


HARM = {
    "no key": lambda key, certificate: key.unlink(),
    "another key": lambda key, certificate: key.write_bytes(key.with_name("other.key").read_bytes()),
}


@pytest.mark.parametrize("harm", HARM)
def test_half_an_authority_is_refused_and_kept(tmp_path, harm):
    """A new authority would overwrite a restored key, and lock out each client that trusts the old one."""
    pki.make_all(tmp_path)
    key, certificate = tmp_path / "authority/ca.key", tmp_path / "trust/ca.crt"
    pki.make_all(tmp_path / "other")
    (tmp_path / "other/authority/ca.key").rename(key.with_name("other.key"))
    HARM[harm](key, certificate)
    before = {half: half.read_bytes() for half in (key, certificate) if half.exists()}
    with refused("authority"):
        pki.make_all(tmp_path)
    assert {half: half.read_bytes() for half in (key, certificate) if half.exists()} == before


class Superlink(ControlServicer):
    """Keeps keys, and takes those of Flower's kind only."""

    def __init__(self):
        self.keys = []

    def RegisterNode(self, request, context):
        if not isinstance(load_pem_public_key(request.public_key), ec.EllipticCurvePublicKey):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "The provided public key is not valid.")
        self.keys.append(request.public_key)
        return RegisterNodeResponse(node_id=len(self.keys))

    def ListNodes(self, request, context):
        known = enumerate(self.keys, 1)
        return ListNodesResponse(nodes_info=[NodeInfo(node_id=i, public_key=k, status="online") for i, k in known])


@pytest.fixture
def superlink(tmp_path):
    """Serve over TLS, and connect to it."""
    pki.make_all(tmp_path / "pki")
    server = grpc.server(ThreadPoolExecutor(2))
    add_ControlServicer_to_server(Superlink(), server)
    mine = [(tmp_path / f"pki/server/server.{part}").read_bytes() for part in ("key", "crt")]
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([mine]))
    server.start()
    control = ControlApi(f"127.0.0.1:{port}", (tmp_path / "pki/trust/ca.crt").read_bytes())
    yield server, ClusterNodes(control, tmp_path / "enrolment", tmp_path / "operator")
    server.stop(None).wait()


def lay_down(enrolment):
    """Lay down a key that Flower does not take, one that is torn, and one that is good; return the torn one whole."""
    enrolment.mkdir()
    foreign = ed25519.Ed25519PrivateKey.generate().public_key()
    (enrolment / "a.pub").write_bytes(foreign.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    for name in ("b", "c"):
        pki.make_client_key(enrolment / name, enrolment / f"{name}.pub")
    whole = (enrolment / "b.pub").read_bytes()
    (enrolment / "b.pub").write_bytes(whole[:40])
    return whole


def test_a_bad_key_is_named_once_and_delays_no_other(superlink, tmp_path, capsys):
    server, nodes = superlink
    whole = lay_down(folder := tmp_path / "enrolment")
    nodes.enrol()
    refused, torn, enrolled = capsys.readouterr().out.splitlines()
    assert "'a.pub'" in refused and "(The provided public key is not valid.)" in refused
    assert "'b.pub'" in torn and enrolled == "c is enrolled"
    (folder / "b.pub").write_bytes(whole)
    nodes.enrol()
    assert capsys.readouterr().out == "b is enrolled\n"
    server.stop(None).wait()
    with pytest.raises(CallError):  # away, and not refused
        nodes.enrol()


def test_links_and_pipes_in_the_enrolment_are_not_followed(enrolment, tmp_path, capsys):
    nodes, _, make = enrolment
    folder, ledger = tmp_path / "enrolment", tmp_path / "ledger.sqlite"
    ledger.write_text("a run")
    make("a")
    (folder / "a.registered").symlink_to(ledger)
    os.mkfifo(folder / "b.pub")
    (folder / "c.pub").symlink_to(ledger)
    (folder / "d.pub").write_bytes(b"x" * 10_001)
    for _ in range(2):
        nodes.enrol()
    enrolled, *passed_over = capsys.readouterr().out.splitlines()
    assert enrolled == "a is enrolled" and len(passed_over) == 3
    assert all(
        f"'{name}.pub'" in said and "it is not a file of" in said for name, said in zip("bcd", passed_over, strict=True)
    )
    assert ledger.read_text() == "a run" and not (folder / "a.registered").is_symlink()
    assert (folder / "a.registered").read_bytes() == (folder / "a.pub").read_bytes()


def test_lost_keys_are_registered_again_but_no_revoked_one(enrolment, tmp_path, capsys):
    folder, (nodes, decisions, make) = tmp_path / "enrolment", enrolment
    for name in ("lost", "known", "revoked"):
        (folder / f"{name}.registered").write_bytes(make(name))
    (folder / "revoked.registered").rename(decisions / "revoked.revoked")
    (folder / "broken.registered").mkdir()
    nodes.register("known")
    nodes.forget_lost()
    nodes.enrol()
    assert capsys.readouterr().out == "lost is enrolled\n"
    assert [nodes.standing(name)[0] for name in ("lost", "known", "revoked")] == ["online", "online", "revoked"]


def test_a_client_with_a_replaced_key_counts_once(enrolment, tmp_path):
    nodes, _, make = enrolment
    for container in range(3):  # each in the place of the one before it
        make("client-0", container)
        nodes.enrol()
    pki.make_client_key(tmp_path / "other", tmp_path / "elsewhere/other.pub")
    ClusterNodes(nodes.control, tmp_path / "elsewhere").register("other")
    assert len(nodes.online()) == 4  # the SuperLink lists the sessions of the containers that are gone
    assert nodes.connected() == {"client-0", "4"}
    make("client-0")  # the first container is back
    nodes.enrol()
    assert nodes.connected() == {"client-0", "4"}


def test_the_list_of_clients_survives_a_torn_key(superlink, tmp_path, monkeypatch, capsys):
    server, nodes = superlink
    monkeypatch.setattr(submit, "connect", lambda *wait: nodes.control)
    monkeypatch.setattr(submit, "ClusterNodes", lambda control: nodes)
    lay_down(tmp_path / "enrolment")
    nodes.register("c")
    assert command(monkeypatch, "nodes") == 0
    refused_key, torn, good = capsys.readouterr().out.splitlines()
    assert refused_key.startswith("a asks") and good.startswith("c online") and "'b.pub'" in torn
    assert command(monkeypatch, "nodes", "revoke", "cc") == 2
    server.stop(None).wait()
    assert command(monkeypatch, "nodes", "revoke", "c") == 2
    assert not (tmp_path / "operator/c.revoked").exists()


def command(monkeypatch, *arguments):
    """Return the status of a command of the operator."""
    monkeypatch.setattr(sys, "argv", ["submit", *arguments])
    with pytest.raises(SystemExit) as end:
        submit.main()
    return int(str(end.value.code))


def test_a_restarting_superlink_is_awaited_and_lost_keys_forgotten(monkeypatch, tmp_path):
    monkeypatch.setattr(arrivals, "LOOK", 0.01)
    (tmp_path / "lost.registered").touch()
    arrivals.await_superlink(ClusterNodes(there := Registry(silent=2), tmp_path), 30)
    assert there.silent == -1 and not [*tmp_path.iterdir()]
    with pytest.raises(AoiError, match=r"the SuperLink has not answered for 0\.1 s \(AOI_JOIN_TIMEOUT\)"):
        arrivals.await_superlink(ClusterNodes(Registry(silent=10**9)), 0.1)


def test_a_run_waits_for_its_first_client_containers_however_late_these_start(monkeypatch):
    monkeypatch.setattr(arrivals, "LOOK", 0.002)
    monkeypatch.setattr(arrivals, "CALM", 0.01)
    counts = [0] * 50 + [1, 3]
    monkeypatch.setattr(arrivals, "replicas", lambda: counts.pop(0) if len(counts) > 1 else counts[0])
    assert arrivals.await_replicas(30) == 3
    monkeypatch.setattr(arrivals, "replicas", lambda: 0)
    with pytest.raises(NodesError, match="AOI_NUM_CLIENTS"):
        arrivals.await_replicas(0.05)


def test_a_new_run_waits_for_all_and_a_resumed_one_for_some(monkeypatch, tmp_path):
    monkeypatch.setattr(arrivals, "LOOK", 0.01)
    nodes = ClusterNodes(Registry(NodeState(1, b"1", "online"), NodeState(2, b"2", "online")), tmp_path)
    arrivals.await_clients(nodes, 2, least=2, seconds=30)
    arrivals.await_clients(nodes, 4, least=1, seconds=0.1)
    (tmp_path / "client-9.pub").touch()
    with pytest.raises(NodesError, match="client-9"):
        arrivals.await_clients(nodes, 4, least=4, seconds=0.1)
