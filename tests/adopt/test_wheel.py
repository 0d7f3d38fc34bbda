"""One name is installed, so this project gets on with whatever else is."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

import pytest

import aoi_fl
from tests.processes import ROOT

UV = [sys.executable, "-m", "uv", "--quiet"]
# Without what would let another copy of this project in.
CLEAN = {key: v for key, v in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}

MEET_US = """
import aoi_fl.client, aoi_fl.server.ledger, aoi_fl.strategies
strategy = aoi_fl.strategies.MarkovParticipation.optimal(clients=10, per_round=3)
assert aoi_fl.client.ClientApp() and strategy.parameters()["clients"] == 10
"""
NAMES = """
import importlib.util, json
print(json.dumps([name for name in {names!r} if importlib.util.find_spec(name)]))
"""


def environment(folder, *what):
    """Make a virtual environment, install wheels or folders as uv's options say, and return its Python."""
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*UV, "venv", "--python", sys.executable, folder / "venv"], check=True)
    subprocess.run([*UV, "pip", "install", "--python", python, *what], check=True)
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, as ``uv pip install .`` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([*UV, "build", "--wheel", "--out-dir", folder, ROOT], check=True)
    (made,) = folder.glob("aoi_fl-*.whl")
    return made


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
        for path in [file for kind in ("*.py", "templates/*", "rows/*") for file in (ROOT / room).rglob(kind)]:
            shipped = not path.is_relative_to(ROOT / "lab" / "benchmarks")
            assert (f"aoi_fl/{path.relative_to(ROOT)}" in files) == shipped


def test_no_module_of_the_wheel_imports_the_benchmarks(files):
    sources = [ROOT / file.removeprefix("aoi_fl/") for file in files if file.startswith("aoi_fl/lab/")]
    assert sources and not [path for path in sources if "aoi_fl.lab.benchmarks" in path.read_text("utf-8")]


@pytest.mark.parametrize("editable", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_installation_shows_one_name(editable, wheel, tmp_path):
    python = environment(tmp_path, "--no-deps", *(["--editable", ROOT] if editable else [wheel]))
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    # It finds this environment's libraries; an editable installation there is out of sight, as a path file is not read.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    others = rooms() | {"typings"}  # other packages bring tests and docs
    code = MEET_US + NAMES.format(names=sorted(others | {"aoi_fl"}))
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=CLEAN, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["aoi_fl"]


@pytest.mark.slow
def test_a_page_of_a_foreign_app_needs_neither_torch_nor_ray(wheel, tmp_path):
    shutil.copytree(ROOT / "tests" / "apps" / "quickstart_numpy", tmp_path / "app")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "--dest", tmp_path / "wheels", f"{wheel}[report]"], check=True)
    python = environment(tmp_path, "--no-index", "--find-links", tmp_path / "wheels", f"{wheel}[report]")
    played = subprocess.run([python.with_name("aoi"), "play", "app"], cwd=tmp_path, env=CLEAN, capture_output=True)
    assert played.returncode == 0, played.stderr
    assert (tmp_path / "runs" / "quickstart-numpy" / "report.html").is_file()
    lacking = "import importlib.util as u; assert not any(map(u.find_spec, ('torch', 'ray', 'matplotlib')))"
    subprocess.run([python, "-c", lacking], check=True, env=CLEAN)
    serving = "import aoi_fl.report.site as site; site.application(None)"
    subprocess.run([python, "-c", serving], check=True, env=CLEAN, cwd=tmp_path)
