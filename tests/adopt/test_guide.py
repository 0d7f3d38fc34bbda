"""What docs/adopt.md says beyond its changes: a table of what was played, and a policy of one's own that works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvgM

from aoi_fl.client import ClientApp
from aoi_fl.engine.local import LocalGrid
from aoi_fl.server.ledger import read_run
from tests.adopt.adoption import CLIENT, FEDAVG, GUIDE, changes, section
from tests.adopt.installation import ROOT
from tests.adopt.table import ROWS

KNOWN = """
import sys
from aoi_fl.cli.main import main

for line in (
    "simulate --policy most-waiting --clients 6 --per-round 2 --rounds 3",
    "init my-app --policy most-waiting",
    "run --policy most-waiting --clients 6 --per-round 2 --rounds 3 --run-name own",
):
    sys.argv = ["aoi", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
"""
SIZES, ROUNDS = (10, 20, 30, 40, 50, 60), 28


@pytest.fixture(scope="module")
def code() -> str:
    """Return the guide's example of a policy."""
    (found,) = re.findall(r"```python\n(from dataclasses.*?)```", GUIDE, re.DOTALL)
    return found


def test_the_readme_shows_the_changes_of_the_guide():
    assert changes((ROOT / "README.md").read_text()) == section(FEDAVG) + CLIENT


def test_each_row_of_the_table_names_the_test_that_plays_it():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| .*$", GUIDE, re.MULTILINE)
    ]
    assert [row[0] for row in rows[1:]] == list(ROWS) and len(ROWS) >= 12
    for name, chapter, _, _, played in rows[1:]:
        assert ROWS[name].chapter == chapter
        file, words = re.fullmatch(r"`(test_\w+\.py) -k (\S+)`", played).groups()
        assert words in name and (Path(__file__).parent / file).is_file()


def test_the_policy_of_ones_own_has_twenty_lines(code):
    assert len([line for line in code.splitlines() if line]) <= 20


def test_a_module_and_a_row_make_it_known_to_every_command(code, tmp_path):
    (row,) = re.findall(r"```python\n(Policy\(.*?)\n```", GUIDE, re.DOTALL)
    for name in ("aoi_fl", "cli", "client", "engine", "flower", "learning", "report", "science", "server", "strategies",
                 "wire"):  # fmt: skip
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "strategies" / "selection" / "waiting.py").write_text(code)
    table = tmp_path / "strategies" / "registry.py"
    before, end, after = table.read_text().partition(")  # fmt: skip\n\nREGISTRY")
    table.write_text(f"{before}{row},\n{end}{after}")
    done = subprocess.run(
        [sys.executable, "-c", KNOWN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "most-waiting: 6 clients, 2 a round" in done.stdout and "3 rounds" in done.stdout
    assert "MostWaiting(per_round" in (tmp_path / "my-app" / "my_app" / "server_app.py").read_text()
    assert read_run(tmp_path / "runs" / "own" / "ledger.sqlite")["policy"] == {"kind": "MostWaiting", "per_round": 2}


def test_the_policy_of_ones_own_plays_with_any_aggregation(code, tmp_path):
    defined: dict = {"__name__": "guide"}
    exec(code, defined)
    app = ClientApp()

    @app.introduce()
    def introduce(context, ask):
        return {"num-examples": SIZES[context.node_config["partition-id"]]}

    @app.train()
    def train(message, context):
        w = message.content["arrays"]["w"].numpy() + 1
        metrics = MetricRecord({"num-examples": SIZES[context.node_config["partition-id"]]})
        content = RecordDict({"arrays": ArrayRecord({"w": Array(w)}), "metrics": metrics})
        with (tmp_path / f"{context.node_config['partition-id']}.json").open("a") as file:
            file.write(f"{message.content['config']['server-round']}\n")
        return Message(content, reply_to=message)

    own = defined["MostWaiting"](3, aggregation=FedAvgM(), fraction_evaluate=0.0)
    result = own.start(LocalGrid(app, {"runs-dir": str(tmp_path)}, 6), ArrayRecord({"w": Array(np.zeros(2))}), ROUNDS)
    np.testing.assert_allclose(result.arrays["w"].numpy(), ROUNDS)
    times = [[json.loads(line) for line in (tmp_path / f"{i}.json").open()] for i in range(6)]
    counts = [len(rounds) for rounds in times]
    assert sum(counts) == 3 * ROUNDS and counts == sorted(counts) and 0 < counts[0] < counts[5]
