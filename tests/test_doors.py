"""The doors of docs/architecture.md: each is opened in a copy of the rooms, and what is added appears."""

import shutil

import numpy as np
import pytest

from aoi_fl.server.ledger import read_run
from tests.ledgers import parts_of
from tests.processes import ROOT
from tests.processes import python as run_python

ROOMS = ROOT / "typings/aoi_fl"
SELECTOR = '''
import numpy as np

from aoi_fl.science.selection import RandomSelector, evenly


class YoungestSelector(RandomSelector):
    """The k available clients with the smallest ages."""

    def select(self, round_, population):
        able = np.flatnonzero(population.available)
        return evenly(np.sort(able[np.argsort(population.ages[able], kind="stable")[: self.per_round]]))
'''
COMMAND = '''
def greet() -> None:
    """Greet."""
    print("good morning")
'''
# Door, file, the line before which it is opened, and what is added.
DOORS = {
    "policy": (
        "config/policies.py",
        "    PolicyRow(\n",
        '    PolicyRow("youngest", "science.youngest:YoungestSelector", "selector:YoungestFirst", frozenset(),'
        ' "k clients", "equal", "a test", arguments=("clients-per-round",)),\n',
    ),
    "key": ("config/groups.py", "    policy: str = key(", '    colour: str = key("red", "a colour")\n'),
    "name of a data set": ("config/task.py", '"mnist", ', '"kmnist", '),
    "data set": (
        "learning/data.py",
        '    "mnist": _Published(',
        '    "kmnist": _Published("KMNIST", "KMNIST/raw", _IDX, 10, (0.19,), (0.35,)),\n',
    ),
    "figure": (
        "report/figures.py",
        "        _intervals(overlaid),",
        '        Chart("blank", "A blank", "", [], {"height": 100}),\n',
    ),
    "command": (
        "cli/main.py",
        'app.command("serve")',
        'from aoi_fl.cli import greet\napp.command("greet")(greet.greet)\n',
    ),
}


@pytest.fixture
def python(tmp_path):
    """Return a function that runs Python on a copy of the rooms with every door open."""
    shutil.copytree(ROOMS, tmp_path / "aoi_fl", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "aoi_fl/science/youngest.py").write_text(SELECTOR)
    (tmp_path / "aoi_fl/cli/greet.py").write_text(COMMAND)
    for name, line, addition in DOORS.values():
        file = tmp_path / "aoi_fl" / name
        assert line in file.read_text(), line
        file.write_text(file.read_text().replace(line, addition + line, 1))

    return lambda *arguments: run_python(*arguments, cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout


@pytest.mark.slow
def test_a_policy_a_key_a_data_set_a_figure_and_a_command_are_added(python, tmp_path):
    raw = tmp_path / "KMNIST/raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 60), ("t10k", 20)):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            values = np.random.default_rng(count).integers(0, 10, shape).astype(np.uint8)
            header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
            (raw / f"{part}-{kind}-ubyte").write_bytes(header + values.tobytes())
    keys = ["dataset=kmnist", "data-dir=.", "model=lr", "colour=blue", "num-clients=4", "clients-per-round=2"]
    words = [word for key in (*keys, "num-server-rounds=5", "run-name=r") for word in ("-c", key)]
    python("-m", "aoi_fl.cli.start", "run", "--policy", "youngest", *words)
    python("-m", "aoi_fl.cli.start", "report", "runs/r")
    about = read_run(tmp_path / "runs/r/ledger.sqlite")
    assert about["status"] == "completed" and about["config"]["colour"] == "blue"
    chosen = [row["client"] for row in parts_of(tmp_path / "runs/r")]
    assert chosen == [0, 1] * 5  # the youngest remain the youngest
    assert "A blank" in (tmp_path / "runs/r/report.html").read_text()
    assert python("-m", "aoi_fl.cli.start", "greet") == "good morning\n"
    assert python("-c", "import aoi_fl.strategies as s; print(s.YoungestFirst.__name__)") == "YoungestFirst\n"
