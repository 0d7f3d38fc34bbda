"""An app whose root modules have the names of our rooms: they are its own, whatever is installed beside it.

Each test is a failure of the days when our rooms were installed under their own names.
"""

import shutil
from pathlib import Path

import pytest

from tests.adopt.adoption import FEDAVG, adopt, outcome
from tests.adopt.installation import ROOT

CLASSIC = ROOT / "tests" / "apps" / "classic"
NODES = 10
ROOMS = ("client", "server", "strategies", "learning")
# The app's modules, its folders with an __init__, and without: then they are the last that Python looks for.
STOCK = [("from_wheel", "modules"), pytest.param("from_checkout", "folders", marks=pytest.mark.slow)]
ADOPTED = [
    ("from_wheel", "folders"),
    *(
        pytest.param(*one, marks=pytest.mark.slow)
        for one in (("from_checkout", "folders"), ("from_wheel", "packages"), ("from_checkout", "modules"))
    ),
]

LOCALLY = """
import importlib, sys
sys.path.insert(0, {app!r})  # as Flower does
load = lambda reference: getattr(importlib.import_module(reference), "app")
from aoi_fl.engine.local_run import run_local
run_local(load({server!r}), load({client!r}), {{"rounds": 4}}, nodes={nodes})
"""


class App:
    """A copy of the classic app, in one of the layouts."""

    def __init__(self, folder, layout):
        self.folder = Path(shutil.copytree(CLASSIC, folder, ignore=shutil.ignore_patterns("__pycache__")))
        self.server, self.client = self.folder / "server.py", self.folder / "client.py"
        if layout == "modules":
            return
        project = self.folder / "pyproject.toml"
        project.write_text(project.read_text().replace(':app"', '.app:app"'))
        self.server, self.client = (self._into_folder(path) for path in (self.server, self.client))
        for room in ROOMS:
            init = self.folder / room / "__init__.py"
            init.touch() if layout == "packages" else init.unlink(missing_ok=True)

    def _into_folder(self, module):
        module.with_suffix("").mkdir()
        return module.rename(module.with_suffix("") / "app.py")

    def play(self, environment):
        """Play the app in an environment and return its result."""
        server, client = (
            ".".join(path.relative_to(self.folder).with_suffix("").parts) for path in (self.server, self.client)
        )
        code = LOCALLY.format(app=str(self.folder), server=server, client=client, nodes=NODES)
        done = environment.run(code, self.folder.parent)
        assert done.returncode == 0, done.stdout + done.stderr
        return outcome(done.stdout)


def check(result, strategy, folder=None):
    """The app's own modules played, and it learnt."""
    assert result["strategy"] == strategy and result["error"] < 0.01
    if folder is not None:
        assert all(Path(file).is_relative_to(folder) for file in result["files"])


@pytest.mark.parametrize(("installed", "layout"), STOCK)
def test_a_stock_app_that_never_mentions_us_goes_on_working(installed, layout, request, tmp_path):
    app = App(tmp_path / "app", layout)
    check(app.play(request.getfixturevalue(installed)), "FedAvg", app.folder)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("installed", "layout"), ADOPTED)
def test_an_adopted_project_keeps_its_apps(installed, layout, request, tmp_path):
    app = App(tmp_path / "app", layout)
    adopt(app.folder, FEDAVG)
    check(app.play(request.getfixturevalue(installed)), "MarkovParticipation", app.folder)
    (run,) = (tmp_path / "runs").iterdir()
    assert len(list((run / "clients").glob("*.json"))) == NODES
