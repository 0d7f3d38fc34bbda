"""A device with docker/gate.yaml: it trains for an honest run; a hostile app finds no key, no state and no address.

The same app in an ordinary container of the cluster shows that the probes of the app work.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aoi_fl.learning.data import load
from tests.e2e.cluster import ROOT, Cluster, start

DEVICE, APP, GROUP = 1234, 1235, 1236  # accounts of the client and of the app, and their group


@pytest.fixture(scope="module")
def device(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A run of one client of the cluster and of a device in its sandbox, whose files belong to its account."""
    place = tmp_path_factory.mktemp("device")
    folder = place / "pi-3"
    two: dict[str, Any] = {"AOI_NUM_CLIENTS": "2", "AOI_CLIENTS_PER_ROUND": "2", "AOI_POLICY": "random"}
    start(cluster, "honest", 3, scale=1, **two)
    cluster.compose("cp", "superlink:/pki/trust/ca.crt", str(place / "ca.crt"))
    new = ["--name", "pi-3", "--superlink", "superlink:9092", "--ca", str(place / "ca.crt"), "--dir", str(folder)]
    subprocess.run([Path(sys.executable).with_name("aoi"), "enroll", *new], check=True, stdout=subprocess.DEVNULL)
    digits = load("digits", place)
    np.savez(folder / "data/train.npz", x=digits.train_x[:200, 0], y=digits.train_y[:200])
    for name in ("state", "app", "run"):
        (folder / name).mkdir(mode=0o770)
        (folder / name).chmod(0o770)
    for path in (place, *place.rglob("*")):
        os.chown(path, DEVICE, GROUP)
    (place / "network.json").write_text(
        json.dumps({"networks": {"default": {"external": True, "name": f"{cluster.project}_fleet"}}})
    )
    made = Cluster(
        f"{cluster.project}-device",
        AOI_IMAGE=cluster.environment["AOI_IMAGE"],
        AOI_DEVICE=str(folder),
        AOI_DEVICE_USER=f"{DEVICE}:{GROUP}",
        AOI_APP_USER=f"{APP}:{GROUP}",
        COMPOSE_FILE=f"docker/device.yaml:docker/gate.yaml:{place / 'network.json'}",
    )
    try:
        cluster.compose("cp", str(folder / "pi-3.pub"), "submit:/enrolment/pi-3.pub")
        made.compose("up", "-d", "--no-build", timeout=180)
        yield made
    finally:
        print(made.compose("logs", "--no-color", "--tail", "60", check=False))
        made.down()


def test_an_honest_run_trains_in_the_sandbox(cluster: Cluster, device: Cluster) -> None:
    assert cluster.await_end() == 0, cluster.logs("submit") + device.compose("logs", "--no-color")
    ledger = cluster.ledger("honest")
    (mine,) = (row["client"] for row in ledger["clients"] if row["name"] == "pi-3")
    trained = [row["round"] for row in ledger["participations"] if (row["client"], row["outcome"]) == (mine, "trained")]
    assert trained == [1, 2, 3]


def test_a_hostile_app_finds_no_secret_and_no_way_out_of_the_sandbox(cluster: Cluster, device: Cluster) -> None:
    settings: dict[str, Any] = {"AOI_APP": str(ROOT / "tests/apps/snooping"), "AOI_RUN_NAME": "snooping"}
    cluster.compose("up", "-d", "--no-build", "--scale", "client=1", timeout=180, **settings)
    assert cluster.await_end() == 0, cluster.logs("submit")
    said = cluster.docker("exec", cluster.container("page"), "cat", "/runs/snooping.json")
    found = {row["user"]: row for row in json.loads(said)}
    assert len(found) == 2
    guarded = found.pop(APP)
    (open_,) = found.values()
    assert open_["secrets"] >= 1 and open_["reached"] >= 2, "the probes of the app do not work"
    assert (guarded["secrets"], guarded["reached"], guarded["writable"], guarded["readable"]) == (0, 0, 0, 1)
