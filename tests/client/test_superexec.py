"""A message's process: forked from one that has the libraries, with the app's own modules, and alone in its fall."""

import pytest

from aoi_fl.lab.benchmarks.superlink import OURS, deployment

pytestmark = pytest.mark.slow

APP = """
[project]
name = "told"
version = "1.0.0"
description = "Tells where it runs"
license = "Apache-2.0"
dependencies = []

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "test"

[tool.flwr.app.components]
serverapp = "told_server:app"
clientapp = "client.told:app"

[tool.flwr.app.config]
out = ""
"""
# A package of the name that this project has too: the app's own must be loaded.
CLIENT = """
import os, sys
loaded = "torch" in sys.modules
import client
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()

@app.train()
def train(message, context):
    if message.content["ask"]["fall"]:
        raise ValueError("as asked")
    import torch
    said = {"process": os.getpid(), "parent": os.getppid(), "torch": loaded, "file": client.__file__}
    said["drawn"] = torch.rand(1).item()
    return Message(RecordDict({"said": ConfigRecord(said)}), reply_to=message)
"""
SERVER = """
import json, time
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.2)
    found = []
    for fall in (False, True, False):
        message = Message(RecordDict({"ask": ConfigRecord({"fall": fall})}), nodes[0], "train")
        for reply in grid.send_and_receive([message], timeout=60):
            found.append(reply.error.reason if reply.has_error() else dict(reply.content["said"]))
    out = Path(context.run_config["out"])
    out.with_suffix(".part").write_text(json.dumps(found))
    out.with_suffix(".part").rename(out)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a client of a real deployment said of its processes, asked three times."""
    app = tmp_path_factory.mktemp("app")
    (app / "client").mkdir()
    (app / "pyproject.toml").write_text(APP)
    (app / "told_server.py").write_text(SERVER)
    (app / "client" / "__init__.py").write_text("")
    (app / "client" / "told.py").write_text(CLIENT)
    with deployment([OURS]) as submit:
        return submit(app, "")


def test_every_message_has_its_own_process_with_torch_loaded(told):
    first, _, third = told
    assert first["process"] != third["process"] and first["parent"] == third["parent"] != first["process"]
    assert first["torch"] and third["torch"]
    for each in (first, third):
        assert "/apps/" in each["file"], each["file"]
    assert first["drawn"] != third["drawn"]


def test_a_process_that_raises_leaves_the_next_message_alone(told):
    assert "as asked" in told[1] and isinstance(told[2], dict)
