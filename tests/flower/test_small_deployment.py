"""A SuperLink and two SuperNodes on this machine, ours and Flower's, by the transport of whichever version is there."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from aoi_fl.client.device.reach import split_address
from aoi_fl.client.device.registration import registration
from aoi_fl.docker.nodes import read_pems
from aoi_fl.docker.pki import make_client_key
from aoi_fl.flower.versions import FLOWER, OVER_GRPC
from aoi_fl.lab.benchmarks.fleet.link import failure, superlink
from aoi_fl.lab.benchmarks.superlink import FLOWERS, OURS, deployment, started
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read
from tests.processes import ROOT

APP = ROOT / "tests/apps/deployed"


def children() -> set[str]:
    """Return the processes that this one has started and that live."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


@pytest.mark.slow
def test_two_rounds_with_our_supernode_and_flowers_own(tmp_path):
    before = children()
    with deployment([OURS, FLOWERS]) as submit:
        said = submit(APP, f'runs-dir="{tmp_path}"')
    assert said["flower"] == FLOWER and said["uploads"]
    assert said["rounds"] == [{"client-0": "trained", "client-1": "trained"}] * 2
    assert said["error"] < 0.02  # after one round it is ten times that
    assert {path.name for path in (tmp_path / "deployed" / "clients").iterdir()} >= {"client-0.json", "client-1.json"}
    assert children() == before


@pytest.mark.slow
def test_clients_of_a_deployment_have_the_shares_of_a_simulation(aoi, tmp_path):
    keys = {"num-clients": 3, "clients-per-round": 3, "num-server-rounds": 1, "partition": "dirichlet:0.6"}
    keys |= {"policy": "random", "model": "lr", "local-epochs": 1, "run-name": "shares"}
    with started([OURS] * 3) as running:
        settings = " ".join(f"{k}={json.dumps(v)}" for k, v in keys.items())
        run = running.submit(ROOT, f'{settings} runs-dir="{tmp_path / "cluster"}"')
        deadline = time.monotonic() + 600
        while not (end := running.end_of(run)) and time.monotonic() < deadline:
            time.sleep(1)
    ledger = tmp_path / "cluster" / "shares" / LEDGER
    assert ledger.is_file(), end
    assert aoi("run", *(f"-c{k}={v}" for k, v in keys.items()))[0] == 0
    alone = tmp_path / "runs" / "shares" / LEDGER
    shares = [{row["name"]: row["examples"] for row in read(path, "clients")} for path in (ledger, alone)]
    assert shares[0] == shares[1] and len(set(shares[0].values())) == 3
    losses = [read(path, "rounds")[0]["test_loss"] for path in (ledger, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)  # not the counts only: the same examples


@pytest.mark.slow
@pytest.mark.skipif(OVER_GRPC, reason="over gRPC the tests of the fleet and of the cluster do this")
def test_registered_supernodes_train_over_https(tmp_path):
    """As docker/http.yaml starts it: TLS, keys, a ServerApp outside; the SuperLink knows the clients' names."""
    with superlink() as link:
        control = link.control
        for i, name in enumerate(("anna", "ben", "eve")):
            make_client_key(tmp_path / name, tmp_path / f"{name}.pub")
            if name != "eve":
                control.register(read_pems(tmp_path / f"{name}.pub")[0] + b"\n", name)
            link.start_supernode(tmp_path / name, f"partition-id={i} num-partitions=3")
        run, out = link.submit(APP, f'out="{tmp_path / "out"}"'), tmp_path / "out"
        until = time.monotonic() + 300  # on a busy machine
        while not out.exists():
            assert time.monotonic() < until and not failure(control, run), f"{failure(control, run)} {link.log_tail()}"
            time.sleep(3)
        said = json.loads(out.read_text())
        online = [node for node in control.nodes() if node.status == "online"]
    assert said["rounds"] == [{"anna": "trained", "ben": "trained"}] * 2
    assert len(online) == 2  # eve's key is not registered


@pytest.mark.slow
@pytest.mark.skipif(OVER_GRPC, reason="tests/client/test_doctor.py does this over gRPC")
def test_the_doctor_tries_a_key_over_https(tmp_path, monkeypatch):
    from flwr.supernode import node_auth_http_interceptor as signing

    make_client_key(tmp_path / "key", tmp_path / "key.pub")
    private = load_ssh_private_key((tmp_path / "key").read_bytes(), None)
    with superlink() as link:
        host, port = split_address(link.fleet)

        def found():
            finding = registration(host, port, link.authority, private)
            return finding.check, finding.status

        assert found() == ("registration", "fail")
        link.control.register(read_pems(tmp_path / "key.pub")[0] + b"\n", "anna")
        for _ in range(2):  # the second time shows that the first one left
            assert found() == ("registration", "ok")
        late = datetime.now(UTC) - timedelta(seconds=400)
        monkeypatch.setattr(signing, "now", lambda: late)
        assert found() == ("clocks", "fail")
    assert found() == ("registration", "fail")
