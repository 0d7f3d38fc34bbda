"""The doors of a new policy: its module and its row."""

import importlib.util
import sys

from aoi_fl.config.policies import REGISTRY, PolicyRow
from tests.strategies.test_own_policy import decides_as_simulated

COIN = """
import numpy as np
from aoi_fl.science.rule import ParticipationRule


class Coin(ParticipationRule):
    def __init__(self, clients, per_round):
        self.clients, self.per_round = clients, per_round

    def first_age(self, round_, u):
        return np.floor(3 * u).astype(np.int64)

    def participates(self, clocks, round_, u):
        return u < np.minimum(1.0, (clocks.ages(round_) + 1) * self.per_round / (3 * self.clients))

    def long_run_rates(self):
        return np.full(self.clients, self.per_round / self.clients)
"""


def test_a_decentralised_policy_has_two_doors(aoi, tmp_path, monkeypatch):
    """Its module and its row."""
    path = tmp_path / "coin.py"
    path.write_text(COIN)
    spec = importlib.util.spec_from_file_location("aoi_fl.science.coin", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, spec.name, module)
    keys = REGISTRY["markov-increasing"].keys - {"max-age", "exponent"}
    row = {"maker": "own:by_keys", "keys": keys, "rates": "known", "who": "some", "weight": "equal", "source": "us"}
    monkeypatch.setitem(REGISTRY, "coin", PolicyRow("coin", "science.coin:Coin", **row))
    decides_as_simulated("coin", "reserve", aoi, tmp_path)
