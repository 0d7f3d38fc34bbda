"""``docker compose up``: a run from nothing to its end, its page, and more clients than were configured."""

import json
from typing import Any

from tests.e2e.cluster import Cluster, start

IMAGE = "aoi-e2e-up:cpu"  # which there is not: `up` alone has to build it, from the layers that are there


def test_up_alone_runs_every_scaled_client_and_shows_the_run(cluster: Cluster) -> None:
    settings: dict[str, Any] = {
        "AOI_IMAGE": IMAGE,
        "AOI_RUN_NAME": "eight",
        "AOI_NUM_SERVER_ROUNDS": "2",
        "AOI_POLICY": "random",
        "AOI_CLIENTS_PER_ROUND": "8",
    }
    cluster.docker("rmi", "--force", settings["AOI_IMAGE"], check=False)
    cluster.compose("up", "-d", "--scale", "client=8", timeout=600, **settings)
    cluster.await_round("eight", 1)
    assert "eight" in json.loads(cluster.page("run/eight/content"))["title"]
    assert cluster.await_end() == 0, cluster.logs("submit")
    ledger = cluster.ledger("eight")
    assert {row["client"]: row["name"] for row in ledger["clients"]} == {i: f"client-{i}" for i in range(8)}
    assert {row["examples"] for row in ledger["clients"]} <= {187, 188}  # 1500 digits, dealt to eight
    assert {row["trained"] for row in ledger["rounds"]} == {8}
    assert [row["round"] for row in ledger["rounds"]] == [1, 2] and ledger["run"]["status"] == "completed"


def test_replaced_and_restarted_clients_all_train_at_once(cluster: Cluster) -> None:
    """The SuperLink lists a killed session for a minute; a restarted client ends its own, a replaced one cannot."""
    cluster.docker("kill", *cluster.containers("client"))
    cluster.docker("rm", cluster.container("client", 1), cluster.container("client", 2))  # and their keys
    start(cluster, "again", 1, AOI_IMAGE=IMAGE, AOI_POLICY="random", AOI_CLIENTS_PER_ROUND="4")
    assert cluster.await_end() == 0, cluster.logs("submit")
    ledger = cluster.ledger("again")
    assert {row["client"]: row["name"] for row in ledger["clients"]} == {i: f"client-{i}" for i in range(4)}
    assert [row["trained"] for row in ledger["rounds"]] == [4]


def test_memory_limits_hold_and_nothing_runs_as_root(cluster: Cluster) -> None:
    assert all(cluster.unharmed(cluster.container(service)) for service in ("superlink", "superexec"))
    name = cluster.containers("client")[0]
    limit = cluster.docker("inspect", "-f", "{{.HostConfig.Memory}}", name)
    assert int(limit) == 768 * 2**20
    for service in ("superlink", "superexec", "page"):
        assert cluster.docker("exec", cluster.container(service), "id", "-u").strip() == "49999"


def test_overlays_are_valid_and_the_gpu_one_reserves_devices(cluster: Cluster) -> None:
    for overlay in ("docker/gpu.yaml", "docker/hosts.yaml", "docker/http.yaml"):
        text = cluster.compose("-f", "compose.yaml", "-f", overlay, "config", "--format", "json")
        services = json.loads(text)["services"]
        if overlay == "docker/gpu.yaml":
            (device,) = services["client"]["deploy"]["resources"]["reservations"]["devices"]
            assert device["driver"] == "nvidia" and device["capabilities"] == ["gpu"] and device["count"] == -1
            assert services["client"]["image"] != services["superlink"]["image"]
