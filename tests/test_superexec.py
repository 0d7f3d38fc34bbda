"""A message's process: forked from one that has the libraries, with the app's own modules, and alone in its fall."""

import inspect
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
from flwr.supercore.superexec import run_superexec

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


@contextmanager
def process(*command, **options):
    running = subprocess.Popen(command, **options)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()


def _listens(address):
    host, port = address.split(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


def _await(condition, seconds, log):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.2)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a client of a real deployment said of its processes, asked three times."""
    home = tmp_path_factory.mktemp("home")
    app, out = home / "app", home / "out.json"
    (app / "client").mkdir(parents=True)
    (app / "pyproject.toml").write_text(APP)
    (app / "told_server.py").write_text(SERVER)
    (app / "client" / "__init__.py").write_text("")
    (app / "client" / "told.py").write_text(CLIENT)
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        apps, fleet, control, runtime = (f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)
    (home / "config.toml").write_text(f'[superlink.told]\naddress = "{control}"\ninsecure = true\n')
    environment = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
    }
    log = open(home / "log", "w")  # noqa: SIM115
    options = {"env": environment, "stdout": log, "stderr": subprocess.STDOUT}
    links = ["--serverappio-api-address", apps, "--fleet-api-address", fleet, "--control-api-address", control]
    superlink = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation", *links]
    node = ["--insecure", "--superlink", fleet, "--clientappio-api-address", runtime]
    with log, process(*superlink, **options), process(sys.executable, "-m", "client.supernode", *node, **options):
        _await(lambda: _listens(control), 60, home / "log")
        submit = ["flwr", "run", str(app), "told", "--run-config", f'out="{out}"']
        subprocess.run(submit, env=environment, capture_output=True, timeout=120, check=True)
        _await(out.exists, 120, home / "log")
    return json.loads(out.read_text())


def test_every_message_has_a_process_of_its_own_with_torch_loaded_and_the_apps_own_modules(told):
    first, _, third = told
    assert first["process"] != third["process"] and first["parent"] == third["parent"] != first["process"]
    assert first["torch"] and third["torch"]
    for each in (first, third):
        assert "/apps/" in each["file"], each["file"]
    assert first["drawn"] != third["drawn"]


def test_a_process_that_raises_leaves_the_next_message_alone(told):
    assert "as asked" in told[1] and isinstance(told[2], dict)


def test_flowers_superexec_is_where_this_puts_its_executor_and_its_waits():
    source = inspect.getsource(run_superexec)
    assert set(re.findall(r"time\.(\w+\(.*?\))", source)) == {"sleep(1)"}
    assert len(re.findall(r"executor = get_executor\(", source)) == 1


@pytest.mark.parametrize("broken", ["raise OSError('libtorch.so is missing')", "import os; os.abort()"])
def test_a_torch_that_is_there_and_broken_does_not_silence_the_client(tmp_path, broken):
    """The process to fork from dies of it; messages that need no torch are answered nevertheless."""
    (tmp_path / "torch.py").write_text(broken)
    code = f"""
from types import SimpleNamespace
from client import superexec
superexec._ANSWER = "open({str(tmp_path / "answered")!r}, 'w').close()"
spec = SimpleNamespace(root_certificates_path=None, runtime_api_address="", token="", insecure=True, parent_pid=1,
                       runtime_dependency_install=False)
executor = superexec.Forking()
print([executor.launch(spec).status.value for _ in range(2)])
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "['accepted', 'accepted']" in done.stdout and (tmp_path / "answered").exists(), done.stderr
