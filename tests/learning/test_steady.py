"""The default task is steady: after its first round no round costs more than five points of test accuracy."""

from itertools import pairwise

import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.server.app import app as server_app
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.server.ledger import read


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("clients", "per_round", "policy", "seed"), [(4, 2, "random", 2), (100, 15, "markov-optimal", 1)]
)
def test_no_round_falls_by_more_than_five_points(clients, per_round, policy, seed, tmp_path):
    keys = {"num-clients": clients, "clients-per-round": per_round, "policy": policy, "seed": seed}
    values = RunConfig.parse(keys | {"runs-dir": str(tmp_path), "run-name": "r"}).flat()
    run_local(server_app, client_app, values, nodes=clients)
    accuracy = [row["test_accuracy"] for row in read(tmp_path / "r" / "ledger.sqlite", "rounds")]
    assert max(before - after for before, after in pairwise(accuracy)) <= 0.05
    assert accuracy[-1] > 0.92
