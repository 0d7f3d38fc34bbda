"""The doors of a new policy: its module and its row."""

import importlib.util
import json
import sys
from itertools import takewhile

from aoi_fl.config.policies import REGISTRY, PolicyRow
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read_run
from tests.strategies.test_own_policy import run, trained

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


def test_a_decentralised_policy_has_two_doors(aoi, tmp_path, monkeypatch):
    """Its module and its row: the run follows the simulation up to the first forced client."""
    path = tmp_path / "coin.py"
    path.write_text(COIN)
    spec = importlib.util.spec_from_file_location("aoi_fl.science.coin", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, spec.name, module)
    keys = REGISTRY["markov-increasing"].keys - {"max-age", "exponent"}
    row = {"maker": "own:by_keys", "keys": keys, "rates": "known", "who": "some", "weight": "equal", "source": "us"}
    monkeypatch.setitem(REGISTRY, "coin", PolicyRow("coin", "science.coin:Coin", **row))
    shape = {"num-clients": 8, "clients-per-round": 4, "num-server-rounds": 6, "coordination": "reserve"}
    folder = run("coin", tmp_path, weights="unbiased", **shape)
    command = "simulate --policy coin --clients 8 --per-round 4 --rounds 6 --seed 3 --trace --json"
    status, out, errors = aoi(*command.split())
    assert status == 0, errors
    found = list(takewhile(lambda clients: clients is not None, trained(folder, 6)))
    assert len(found) >= 3 and found == json.loads(out)["selections"][: len(found)]
    assert read_run(folder / LEDGER)["policy"]["kind"] == "coin"
