"""The two apps by the names that `flwr run` starts them by."""

import tomllib

import pytest

from tests.processes import ROOT, python

APPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["components"]
# Flower's simulation looks for the ClientApp while a thread imports the ServerApp: at its worst, when that thread has
# just entered aoi_fl into the table of modules, and has not run it.
AMID_IMPORT = """
import sys
from importlib.util import find_spec, module_from_spec
from flwr.supercore.object_ref import load_app, validate
spec = find_spec("aoi_fl")
sys.modules["aoi_fl"] = module_from_spec(spec)
print(validate({app!r}, project_dir={root!r}))
spec.loader.exec_module(sys.modules["aoi_fl"])
print(type(load_app({app!r}, RuntimeError, {root!r})).__module__)
"""


@pytest.mark.parametrize("kind", APPS)
def test_an_app_is_found_while_another_thread_imports_the_other(kind):
    valid, module = python("-c", AMID_IMPORT.format(app=APPS[kind], root=str(ROOT))).stdout.splitlines()
    assert valid == "(True, None)"
    assert module.startswith(("aoi_fl.client", "flwr.serverapp"))
