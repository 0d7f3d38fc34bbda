"""Sensitivities by the table of clients, or by how fast their data go bad."""

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.engine.local_run import run_local
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.protocol.clients import read_clients_file, section5_instance
from aoi_fl.server.app import app as server_app

ROUNDS = 12
RUN = {
    "policy": "wics",
    "trains": "all",
    "mislabel-rate": 0.05,
    "staleness-rates": "own",
    "dataset": "digits",
    "model": "lr",
    "num-clients": 8,
    "num-server-rounds": ROUNDS,
    "local-steps": 2,
    "evaluate-every": 100,
    "seed": 4,
    "budget": 30.0,
    "run-name": "r",
}


def play(folder, **keys):
    values = RunConfig.parse(RUN | {"runs-dir": str(folder)} | keys).flat()
    run_local(server_app, client_app, values, nodes=values["num-clients"])
    return folder / "r"


def test_the_table_holds_staleness_rates_and_sensitivities(tmp_path):
    drawn = section5_instance(8, RUN["seed"])
    assert 0 < drawn.staleness.min() < drawn.staleness.max() <= 2
    table = read_clients_file(play(tmp_path / "own", sensitivities="staleness") / "clients.csv")
    np.testing.assert_allclose(table.staleness, drawn.staleness)
    np.testing.assert_allclose(table.sensitivities, drawn.sizes / drawn.sizes.mean() * drawn.staleness)
    alike = read_clients_file(play(tmp_path / "alike", **{"staleness-rates": "equal"}) / "clients.csv")
    assert (alike.staleness == 1).all()
    np.testing.assert_allclose(alike.sensitivities, drawn.sensitivities)


def test_sensitivities_by_the_bound_are_those_of_equation_10(tmp_path):
    """φ_i = α_i σ_i² βNT/2 as printed, with α_i from the appendix, up to what all have in common."""
    drawn, eta, tau, mu = section5_instance(8, RUN["seed"]), 0.05, 10, 1.0
    found = read_clients_file(
        play(tmp_path, sensitivities="bound", **{"local-steps": tau, "learning-rate": eta}) / "clients.csv"
    ).sensitivities
    s = drawn.sizes / drawn.sizes.sum()
    alpha = eta * s / mu + 8 * eta * (tau**2 * eta + 2 * (tau - 1) ** 2 / mu) * s**2
    assert (found / (alpha * drawn.staleness)).std() < 1e-12 * found.mean() / (alpha * drawn.staleness).mean()
    assert found.mean() == pytest.approx(1)
