"""Sensitivities by the table of clients, or by how fast their data go bad."""

import numpy as np
import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.protocol.clients import section5_instance
from aoi_fl.server.terms import client_table

DRAWN = section5_instance(8, 4)


def table(**keys):
    run = {
        "policy": "wics",
        "trains": "all",
        "mislabel-rate": 0.05,
        "staleness-rates": "own",
        "budget": 30.0,
        "seed": 4,
    }
    return client_table(RunConfig.parse(run | {"num-clients": 8, "local-steps": 2} | keys))


def test_the_table_holds_staleness_rates_and_sensitivities():
    assert 0 < DRAWN.staleness.min() < DRAWN.staleness.max() <= 2
    own, alike = table(sensitivities="staleness"), table(**{"staleness-rates": "equal"})
    np.testing.assert_allclose(own.staleness, DRAWN.staleness)
    np.testing.assert_allclose(own.sensitivities, DRAWN.sizes / DRAWN.sizes.mean() * DRAWN.staleness)
    assert (alike.staleness == 1).all()
    np.testing.assert_allclose(alike.sensitivities, DRAWN.sensitivities)


def test_sensitivities_by_the_bound_are_those_of_equation_10():
    """φ_i = α_i σ_i² βNT/2 as printed, with α_i from the appendix, up to what all have in common."""
    eta, tau, mu = 0.05, 10, 1.0
    found = table(sensitivities="bound", **{"local-steps": tau, "learning-rate": eta}).sensitivities
    s = DRAWN.sizes / DRAWN.sizes.sum()
    alpha = eta * s / mu + 8 * eta * (tau**2 * eta + 2 * (tau - 1) ** 2 / mu) * s**2
    assert (found / (alpha * DRAWN.staleness)).std() < 1e-12 * found.mean() / (alpha * DRAWN.staleness).mean()
    assert found.mean() == pytest.approx(1)
