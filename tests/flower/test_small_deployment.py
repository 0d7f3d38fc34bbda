"""A SuperLink and two SuperNodes on this machine, ours and Flower's, by the transport of whichever version is there."""

import os
import time
from pathlib import Path
from shutil import copytree

import pytest

from aoi_fl.flower.versions import FLOWER
from benchmarks.base import Skipped
from benchmarks.superlink import FLOWERS, OURS, deployment

APP = Path(__file__).parents[1] / "apps" / "deployed"


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
def test_flowers_list_of_runs_shows_a_failed_serverapp(tmp_path):
    app = copytree(APP, tmp_path / "app")
    server = "from flwr.serverapp import ServerApp\n\napp = ServerApp()\n\n\n@app.main()\ndef main(grid, context):\n"
    (app / "deployed_app" / "server.py").write_text(f'{server}    raise RuntimeError("out of luck")\n')
    with deployment([]) as submit:
        begun = time.monotonic()
        with pytest.raises(Skipped, match="finished:failed"):
            submit(app, f'runs-dir="{tmp_path}"')
        assert time.monotonic() - begun < 300  # on a busy machine; a deployment has twice as long
