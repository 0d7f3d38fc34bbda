"""A cluster runs somebody else's Flower app, and a device's container runs a client: both by their settings alone."""

import json
from typing import Any

from tests.e2e.cluster import ROOT, Cluster

GOES_ON = True


def test_a_stock_flower_app_runs_on_the_cluster(cluster: Cluster) -> None:
    """It waits for six clients."""
    settings: dict[str, Any] = {"AOI_APP": str(ROOT / "tests/apps/quickstart_numpy"), "AOI_RUN_NAME": "own"}
    cluster.compose("up", "-d", "--no-build", "--scale", "client=6", timeout=180, **settings)
    assert cluster.await_end() == 0, cluster.logs("submit")
    (state,) = (row["state"] for run, row in cluster.listed().items() if "own" in run)
    assert state == "completed"


def test_the_file_of_a_device_is_valid_and_gives_no_rights(cluster: Cluster, tmp_path: Any) -> None:
    (tmp_path / "superlink.env").write_text("SUPERLINK=fl.example.org:9092\n")
    text = cluster.compose(
        "-f", "docker/device.yaml", "config", "--format", "json", AOI_DEVICE=str(tmp_path), COMPOSE_FILE=""
    )
    (client,) = json.loads(text[text.index("{") :])["services"].values()
    assert client["cap_drop"] == ["ALL"] and client["read_only"] and "ports" not in client
    written = {mount["source"] for mount in client["volumes"] if not mount.get("read_only")}
    assert written == {str(tmp_path / "data"), str(tmp_path / "state")}
