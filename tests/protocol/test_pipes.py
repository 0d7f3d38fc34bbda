"""A pipe, a device or a folder in the place of a user's file is one error, and nothing waits."""

import os
from pathlib import Path

import pytest

from aoi_fl.cli.adopt import find
from aoi_fl.client.device import reach
from aoi_fl.client.device.enroll import read_node
from aoi_fl.client.device.move import unpack
from aoi_fl.client.supernode import node_config
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.simulated_time.traces import make_trace
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.learning.partition import read_index
from aoi_fl.protocol.clients import read_clients_file
from aoi_fl.protocol.files import digest
from aoi_fl.protocol.given_rates import read_rates
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.app import app as server_app
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.server.folder import is_played, only_player


def lock(path: Path) -> None:
    """Lock a run's folder, if :func:`is_played` cannot tell."""
    if is_played(path.parent) is None:
        with only_player(path.parent):
            pass


READS = {
    "clients.csv": read_clients_file,
    "rates.csv": lambda path: read_rates(path, 4),
    ".lock": lock,
    "node.toml": lambda path: read_node(path.parent),
    "app/node.toml": lambda path: node_config(str(path)),
    "ca.crt": lambda path: reach.check("127.0.0.1:9", path),
    "moved.tar": lambda path: unpack(path, path.parent / "new"),
    "pyproject.toml": lambda path: find(path.parent, {}),
    "trace.npz": lambda path: make_trace(str(path), 3, 1),
    "partition.npy": lambda path: read_index(path, 0),
    "data.npz": lambda path: digest([path]),
}


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("name", READS)
def test_what_is_no_file_is_refused_at_once(name, kind, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises((OSError, ValueError)):
        READS[name](path)


PATHS = {"too long": "x" * 300, "no text": "\ud83d", "its own": "loop", "no home": "~nobody-here/x"}
KEYS = {
    "runs-dir": {},
    "data-dir": {"dataset": "mnist"},
    "model-dir": {"model": "python:mine:Model"},
    "clients-file": {"policy": "wics"},
    "clock": {},
    "dataset": {"prefix": "npz:"},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", KEYS)
def test_a_path_that_the_system_does_not_take_is_refused(key, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    more = dict(KEYS[key])
    keys = {"num-clients": 2, "clients-per-round": 1, "num-server-rounds": 1, "runs-dir": str(tmp_path / "runs")} | more
    keys[key] = keys.pop("prefix", "") + (PATHS[path] if path == "no home" else str(tmp_path / PATHS[path]))
    if (key, path) != ("runs-dir", "no home"):  # a folder of that name
        with pytest.raises(ConfigError):
            run_local(server_app, client_app, RunConfig.parse(keys).flat(), nodes=2)
