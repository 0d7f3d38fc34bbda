"""What an operator does with a cluster: scale a run that is going, queue, list, log, stop, resume; a wrong ``.env``."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import NEWEST, ROOT, Cluster, start

RUN, NEXT = "operated", "next"
SETTINGS: dict[str, Any] = {
    "AOI_NUM_CLIENTS": "2",
    "AOI_POLICY": "random",
    "AOI_CLIENTS_PER_ROUND": "2",
    "AOI_SPARE": "1",
}


@dataclass
class Operated:
    """Exit statuses of the operator's commands by name, the lists in between, and the ledgers."""

    status: dict[str, int]
    lists: dict[str, dict[str, dict[str, Any]]]
    scaled: dict[str, Any]
    stopped: dict[str, Any]
    next_status: int
    next_ledger: dict[str, Any]
    resumed_round: int
    server_log: str
    metrics: str
    page_names: set[str]
    page_health: str
    touched: set[str]


@pytest.fixture(scope="module")
def operated(cluster: Cluster) -> Operated:
    """Operate two runs."""
    status, lists = {}, {}

    def operate(name: str, command: str, run: str) -> None:
        status[name], _ = cluster.operate(f"docker compose run --rm --no-deps submit runs {command} RUN", RUN=run)

    start(cluster, RUN, 500, scale=2, **SETTINGS)
    cluster.await_round(RUN, 1)
    queued = {**SETTINGS, "AOI_RUN_NAME": NEXT, "AOI_NUM_SERVER_ROUNDS": "1"}
    waiter = f"{cluster.project}-waiter"
    cluster.compose("run", "-d", "--no-deps", "--name", waiter, "submit", "runs", "queue", **queued)
    services = {service: cluster.identity(service) for service in ("superlink", "superexec", "page", "client")}
    start(cluster, RUN, 500, scale=4, **SETTINGS)  # submit goes on, as its settings are the same

    def joined() -> bool:
        ledger = cluster.ledger(RUN)
        refused = ledger.get("run", {}).get("nodes", {}).get("refused", [])
        return any("client-3" in why for why in refused) and cluster.trained(RUN, 2)

    cluster.await_(joined, "a newcomer with a share, and one without")
    scaled = cluster.ledger(RUN)
    metrics = cluster.page("metrics")
    lists["going"] = cluster.listed()
    operate("log of a run that has not begun", "log", NEXT)
    operate("log", "log", RUN)
    operate("stop", "stop", RUN)
    touched = {service for service, before in services.items() if cluster.identity(service) != before}
    stopped = cluster.ledger(RUN)
    operate("stop twice", "stop", RUN)
    next_status = cluster.await_end(submit=waiter)
    lists["stopped"] = cluster.listed()
    operate("resume a complete run", "resume", NEXT)
    last = cluster.last_round(RUN)
    cluster.compose("run", "-d", "--no-deps", "submit", "runs", "resume", RUN)
    cluster.await_round(RUN, last + 1)
    shown = cluster.page("list")
    return Operated(
        status,
        lists,
        scaled,
        stopped,
        next_status,
        cluster.ledger(NEXT),
        cluster.last_round(RUN),
        cluster.docker("logs", cluster.container("superexec")),
        metrics,
        {name for name in (RUN, NEXT) if name in shown},
        cluster.docker("inspect", "-f", "{{.State.Health.Status}}", cluster.container("page")).strip(),
        touched,
    )


def test_a_newcomer_gets_a_spare_share_or_is_refused_aloud(operated: Operated) -> None:
    assert {row["client"] for row in operated.scaled["clients"]} == {0, 1, 2}
    nodes = operated.scaled["run"]["nodes"]
    assert nodes["connected"] == 4 and len(nodes["refused"]) == 1 and "client-3" in nodes["refused"][0]
    found = dict(re.findall(r"^aoi_clients_(connected|expected|refused) (\S+)$", operated.metrics, re.MULTILINE))
    assert {name: float(value) for name, value in found.items()} == {"connected": 4, "expected": 2, "refused": 1}


def test_the_list_and_the_page_hold_every_run(operated: Operated) -> None:
    states = {name: {run: row["state"] for run, row in rows.items()} for name, rows in operated.lists.items()}
    assert states == {"going": {RUN: "running", NEXT: "queued"}, "stopped": {RUN: "stopped", NEXT: "completed"}}
    assert operated.page_names == {RUN, NEXT} and operated.page_health == "healthy"


def test_each_wrong_command_is_refused(operated: Operated) -> None:
    assert operated.status == {
        "log of a run that has not begun": 2,
        "log": 0,
        "stop": 0,
        "stop twice": 2,
        "resume a complete run": 2,
    }


def test_no_command_recreates_or_restarts_a_service(operated: Operated) -> None:
    assert operated.touched == set()


def test_a_stopped_run_gives_way_to_the_queue_and_resumes(operated: Operated) -> None:
    assert operated.stopped["run"]["status"] == "stopped"
    assert operated.next_status == 0 and operated.next_ledger["run"]["status"] == "completed"
    assert {row["trained"] for row in operated.next_ledger["rounds"]} == {2}
    assert operated.resumed_round > max(row["round"] for row in operated.stopped["rounds"])


@pytest.mark.skipif(NEWEST, reason="only the SuperExec of 1.34 shows these lines")
def test_the_superexec_logs_the_servers_lines_with_times(operated: Operated) -> None:
    stamped = re.findall(
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ +round +(\d+)", operated.server_log, re.MULTILINE
    )
    assert stamped[:2] == ["1", "2"]


def test_a_wrong_env_file_stops_the_start_before_the_superlink(cluster: Cluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # the container's user reads it
    (tmp_path / ".env").write_text("AOI_POLICY=randm\n")
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    project = f"{cluster.project}-wrong"
    command = [
        "docker",
        "compose",
        "-p",
        project,
        "-f",
        str(ROOT / "compose.yaml"),
        "--project-directory",
        str(tmp_path),
    ]
    port = str(int(cluster.environment["AOI_PAGE_PORT"]) + 100)  # the other cluster's page is up
    try:
        done = subprocess.run(
            [*command, "up", "-d", "--no-build"],
            env=cluster.environment | {"AOI_PAGE_PORT": port},
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode and "randm" in cluster.docker("logs", f"{project}-init-1")
        assert not cluster.is_running(f"{project}-superlink-1")
    finally:
        subprocess.run([*command, "down", "-v"], env=cluster.environment, capture_output=True, check=False, timeout=120)


def test_a_cluster_returns_from_its_backup(cluster: Cluster, operated: Operated, tmp_path: Path) -> None:
    authority = "import hashlib; print(hashlib.sha256(open('/pki/trust/ca.crt', 'rb').read()).hexdigest())"
    before = cluster.docker("exec", cluster.container("superlink"), "python", "-c", authority)
    save = "docker compose run --rm -T backup save > aoi.tgz"
    file = {"aoi.tgz": str(tmp_path / "aoi.tgz")}
    assert cluster.operate(save, **file)[0] == 2  # the clients run
    cluster.operate("docker compose run --rm --no-deps submit runs stop RUN", RUN=RUN)
    cluster.compose("down")
    status, printed = cluster.operate(save, **file)
    assert status == 0, printed
    cluster.down()
    restored = cluster.operate("docker compose run --rm -T backup restore < aoi.tgz", **file)
    assert restored[0] == 0, restored[1]
    assert cluster.operate("docker compose run --rm -T backup restore < aoi.tgz", **file)[0] == 2  # it is there
    start(cluster, "after", 1, scale=2, **SETTINGS)
    assert cluster.await_end() == 0, cluster.logs("submit")
    assert cluster.docker("exec", cluster.container("superlink"), "python", "-c", authority) == before
    # The two clients have made new keys, and nobody holds the old ones; the other two keys were not replaced.
    prune = "docker compose run --rm --no-deps submit nodes prune"
    assert [re.findall(r"^\d+", cluster.operate(prune)[1], re.MULTILINE) for _ in range(2)] == [["2"], ["0"]]
    assert cluster.ledger(NEXT)["run"] == operated.next_ledger["run"]
    assert cluster.operate("docker compose run --rm --no-deps submit runs rm RUN", RUN=NEXT)[0] == 0
    assert cluster.ledger(NEXT) == {}
