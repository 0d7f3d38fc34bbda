"""The manifests of Kubernetes start what compose.yaml starts, with no more rights (.ci/manifests checks their form)."""

import shlex

import pytest
import yaml

from aoi_fl.docker import settings
from tests.processes import ROOT

MANIFESTS = ROOT / "deploy/kubernetes"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
COMPOSE.pop("backup")  # a cluster of Kubernetes has its own snapshots of volumes
OBJECTS = [
    part
    for path in MANIFESTS.glob("*.yaml")
    for part in yaml.safe_load_all(path.read_text())
    if part["kind"] != "Kustomization"
]
PODS = {
    part["metadata"]["name"]: part["spec"]["template"]["spec"] for part in OBJECTS if "template" in part.get("spec", {})
}
CONTAINERS = {c["name"]: c for pod in PODS.values() for c in (*pod["containers"], *pod.get("initContainers", ()))}


def words(command):
    """Return a command's words, ``--key=value`` as two."""
    parts = shlex.split(command) if isinstance(command, str) else command
    return [word for part in parts for word in part.split("=", 1)]


@pytest.mark.parametrize("name", COMPOSE)
def test_a_pod_runs_what_its_service_runs(name):
    theirs = words(COMPOSE[name].get("entrypoint") or COMPOSE[name]["command"])
    if name == "superlink":  # a pod has one address; who reaches which port, network.yaml says
        theirs = [word.replace("superlink-control:", "0.0.0.0:") for word in theirs]
    assert words(CONTAINERS[name]["command"]) == theirs


@pytest.mark.parametrize("name", COMPOSE)
def test_a_pod_sees_what_its_service_sees(name):
    own = ["/keys"] if name == "client" else []  # in Compose it is the container's, and here it outlives a restart
    found = {m["mountPath"]: m.get("readOnly", False) for m in CONTAINERS[name]["volumeMounts"]}
    mounts = {path: read_only for path, read_only in found.items() if path not in own}
    assert len(found) == len(mounts) + len(own)
    project = ".:/project:ro"  # a host's folder with .env, which a pod does not have
    volumes = [v.rsplit(":/", 1)[1] for v in COMPOSE[name].get("volumes", ()) if v != project]
    assert mounts == {"/" + v.removesuffix(":ro"): v.endswith(":ro") for v in volumes}
    memory = COMPOSE[name]["mem_limit"].split(":-")[-1].strip("}")
    assert CONTAINERS[name]["resources"]["limits"]["memory"].lower() == memory + "i"


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_has_no_rights(pod):
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 49999
    assert not pod["automountServiceAccountToken"]
    for container in pod["containers"]:
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_clients_key_lies_in_a_volume_of_its_pod_alone():
    volumes = {v["name"]: v for v in PODS["client"]["volumes"]}
    (mount,) = [m for m in CONTAINERS["client"]["volumeMounts"] if m["mountPath"] == "/keys"]
    assert volumes[mount["name"]] == {"name": mount["name"], "emptyDir": {}}


def test_all_files_are_listed_and_the_run_keys_are_known():
    listed = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    assert set(listed["resources"]) == {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    (run,) = listed["configMapGenerator"]
    keys = dict(pair.split("=") for pair in run["literals"])
    settings.from_environment(keys, settings.defaults(ROOT / "pyproject.toml"))
    (clients,) = [part for part in OBJECTS if part["kind"] == "Deployment" and part["metadata"]["name"] == "client"]
    assert clients["spec"]["replicas"] == int(keys["AOI_NUM_CLIENTS"])
    assert clients["spec"]["strategy"] == {"type": "Recreate"}  # else an update makes a surplus client


def test_network_policies_open_the_needed_ports_only():
    policies = [part["spec"] for part in OBJECTS if part["kind"] == "NetworkPolicy"]
    reached = {
        port["port"]: (policy["podSelector"]["matchLabels"]["app"], rule.get("from"))
        for policy in policies
        for rule in policy.get("ingress", ())
        for port in rule["ports"]
    }
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert reached == {
        8050: ("page", [monitoring]),
        9091: ("superlink", [{"podSelector": {"matchLabels": {"app": "superexec"}}}]),
        9092: ("superlink", None),
        9093: ("superlink", [{"podSelector": {"matchLabels": {"app": "submit"}}}]),
    }
    pods = [part["spec"]["template"]["metadata"] for part in OBJECTS if "template" in part.get("spec", {})]
    asking = [pod for pod in pods if pod.get("annotations", {}).get("prometheus.io/scrape") == "true"]
    assert asking and all(
        reached[int(pod["annotations"]["prometheus.io/port"])][0] == pod["labels"]["app"] for pod in asking
    )
