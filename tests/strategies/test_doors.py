"""The doors of a new built-in policy: its module and its row. Nothing else in the product names a policy."""

import ast
import importlib.util
import json
import re
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from aoi_fl import strategies
from aoi_fl.client.app import app as client_app
from aoi_fl.config.policies import POLICIES, REGISTRY, STRATEGIES, PolicyRow
from aoi_fl.config.run import RunConfig
from aoi_fl.engine.local_run import run_local
from aoi_fl.server.app import app as server_app
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read_run
from tests.strategies.test_own_policy import SELECTOR, trained

ROOT = Path(__file__).parents[2]
ROOMS = ("cli", "client", "config", "engine", "flower", "learning", "protocol", "report", "server", "strategies")
# Where a policy may be named: its row, the strategies with parameters of their own, and the kinds that ledgers hold.
HOMES = {
    "config/policies.py",
    "strategies/selection/markov.py",
    "strategies/selection/systematic.py",
    "report/theory.py",
    "strategies/__init__.py",
}
WORDS = {"random", "proportional", "abs", "maxpack", "wics"}  # of other meanings too; `maxpack` is an index
KEYS = {"num-clients": 8, "clients-per-round": 4, "num-server-rounds": 6, "model": "lr", "local-epochs": 1}
COIN = """
import numpy as np
from aoi_fl.science.rule import AgeRule


class Coin(AgeRule):
    def __init__(self, clients, per_round):
        self.clients, self.per_round = clients, per_round

    def first_age(self, round_, u):
        return np.floor(3 * u).astype(np.int64)

    def willingness(self, ages):
        return np.minimum(1.0, (ages + 1) * self.per_round / (3 * self.clients))

    def long_run_rates(self):
        return np.full(self.clients, self.per_round / self.clients)
"""


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Return a function that adds a policy by its two doors: a module of science, and a row."""

    def door(name, text, attribute, **row):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"aoi_fl.science.{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setitem(sys.modules, spec.name, module)
        made = PolicyRow(name, f"science.{name}:{attribute}", who="some clients", weight="equal", source="us", **row)
        monkeypatch.setitem(REGISTRY, name, made)
        monkeypatch.setitem(STRATEGIES, made.maker.partition(":")[2], name)

    return door


def played(policy, folder, **more):
    """Return the clients of each round of a run, up to the first round with a forced client."""
    values = KEYS | {"policy": policy, "runs-dir": str(folder), "run-name": "r", "seed": 3} | more
    run_local(server_app, client_app, RunConfig.parse(values).flat(), nodes=8)
    return list(takewhile(lambda clients: clients is not None, trained(folder / "r", 6)))


def simulated(aoi, policy):
    status, out, errors = aoi(
        *f"simulate --policy {policy} --clients 8 --per-round 4 --rounds 6 --seed 3 --trace --json".split()
    )
    assert status == 0, errors
    return json.loads(out)["selections"]


def test_central_policy_has_two_doors(add, aoi, tmp_path):
    row = {"maker": "selector:LowestSelection", "keys": frozenset(), "arguments": ("clients-per-round",)}
    add("lowest", SELECTOR, "Lowest", **row)
    assert played("lowest", tmp_path) == simulated(aoi, "lowest") == [[0, 1, 2, 3]] * 6
    assert read_run(tmp_path / "r" / LEDGER)["policy"] == {"kind": "LowestSelection", "per_round": 4}
    assert strategies.LowestSelection(3).policy.selector.per_round == 3
    status, _, errors = aoi("report", str(tmp_path / "r"))
    assert status == 0, errors


@pytest.mark.parametrize("coordination", ["poll", "broadcast", "reserve"])
def test_decentralised_policy_has_two_doors(coordination, add, aoi, tmp_path):
    add(
        "coin",
        COIN,
        "Coin",
        maker="own:by_keys",
        keys=REGISTRY["markov-increasing"].keys - {"max-age", "exponent"},
        rates="known",
    )
    found = played("coin", tmp_path, coordination=coordination, weights="unbiased")
    assert len(found) >= 3 and found == simulated(aoi, "coin")[: len(found)]
    assert read_run(tmp_path / "r" / LEDGER)["policy"]["kind"] == "coin"


def test_only_rows_and_own_modules_name_a_policy():
    """Every other text would be one more place to change for a new policy; prose of docstrings is free."""
    names = re.compile(rf"(?<![\w-])({'|'.join(sorted(set(POLICIES) - WORDS, key=len, reverse=True))})(?![\w-])")
    found = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in prose]
        for node in texts:
            if isinstance(node.value, str) and names.search(node.value):
                found.add(f"{path.relative_to(ROOT)}:{node.lineno} {node.value[:60]}")
    assert {place for place in found if place.partition(":")[0] not in HOMES} == set()
