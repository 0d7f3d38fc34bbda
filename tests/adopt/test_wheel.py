"""One name is installed, so this project gets on with whatever else is."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest

import aoi_fl
from tests.adopt.installation import ROOT

MEET_US = """
import aoi_fl.client, aoi_fl.server.ledger, aoi_fl.strategies
strategy = aoi_fl.strategies.MarkovParticipation.optimal(clients=10, per_round=3)
assert aoi_fl.client.ClientApp() and strategy.parameters()["clients"] == 10
"""
NAMES = """
import importlib.util, json
print(json.dumps([name for name in {names!r} if importlib.util.find_spec(name)]))
"""


def rooms():
    """Return the names of the folders that a checkout shows as aoi_fl.<room>."""
    return {path.name for path in (ROOT / "typings" / "aoi_fl").iterdir() if path.is_symlink() and path.is_dir()}


def test_the_version_is_one():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == aoi_fl.__version__


@pytest.fixture(scope="module")
def files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_one_name(files):
    assert {file.split("/")[0] for file in files} == {"aoi_fl", f"aoi_fl-{aoi_fl.__version__}.dist-info"}
    inside = {file.split("/")[1] for file in files if file.startswith("aoi_fl/") and file.count("/") > 1}
    # docker/ is a room of the checkout alone: its programs are copied into images, beside compose.yaml.
    assert inside == rooms() - {"docker"}


def test_every_module_and_template_of_a_room_is_in_the_wheel(files):
    for room in rooms() - {"docker"}:
        for path in [*(ROOT / room).rglob("*.py"), *(ROOT / room).rglob("templates/*")]:
            shipped = not path.is_relative_to(ROOT / "lab" / "benchmarks")
            assert (f"aoi_fl/{path.relative_to(ROOT)}" in files) == shipped


@pytest.mark.parametrize("how", ["from_wheel", pytest.param("from_checkout", marks=pytest.mark.slow)])
def test_an_installation_shows_one_name(how, request, tmp_path):
    environment = request.getfixturevalue(how)
    others = rooms() | {"typings"}  # jax-privacy brings its own tests and docs
    done = environment.run(MEET_US + NAMES.format(names=sorted(others | {"aoi_fl"})), tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["aoi_fl"]


@pytest.mark.slow
def test_a_page_of_a_foreign_app_needs_neither_torch_nor_ray(wheel, tmp_path):
    shutil.copytree(ROOT / "tests" / "apps" / "quickstart_numpy", tmp_path / "app")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--dest", tmp_path / "wheels", f"{wheel}[report]"], check=True)
    assert sum(path.stat().st_size for path in (tmp_path / "wheels").iterdir()) < 150e6
    python = tmp_path / "venv" / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, tmp_path / "venv"], check=True)
    local = ["--no-index", "--find-links", tmp_path / "wheels", f"{wheel}[report]"]
    subprocess.run([*uv, "pip", "install", "--python", python, *local], check=True)
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    played = subprocess.run([python.with_name("aoi"), "play", "app"], cwd=tmp_path, env=clean, capture_output=True)
    assert played.returncode == 0, played.stderr
    assert (tmp_path / "runs" / "quickstart-numpy" / "report.html").is_file()
    lacking = "import importlib.util as u; assert not any(map(u.find_spec, ('torch', 'ray', 'matplotlib')))"
    subprocess.run([python, "-c", lacking], check=True, env=clean)
    serving = "import aoi_fl.report.site as site; site.application(None)"
    subprocess.run([python, "-c", serving], check=True, env=clean, cwd=tmp_path)
