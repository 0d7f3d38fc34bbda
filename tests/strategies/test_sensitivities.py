"""Whose age matters how much: by their table, by how fast their data go bad, or estimated while the run goes on."""

import numpy as np
import pytest

from aoi_fl.client.app import app as client_app
from aoi_fl.config.run import RunConfig
from aoi_fl.engine.local import LocalGrid
from aoi_fl.engine.local_run import run_local
from aoi_fl.protocol.clients import read_clients_file, section5_instance
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.estimate import SlopeEstimate
from aoi_fl.science.selection import Population
from aoi_fl.server.app import app as server_app
from aoi_fl.server.ledger import read, read_run
from aoi_fl.strategies import BudgetedRefresh
from tests.fakes import ToyApp, unchanged, zeros
from tests.refusals import refused

ROUNDS = 12
OWN = "mislabelled:0.05:0.9:own"
RUN = {
    "policy": "wics",
    "trains": "all",
    "staleness": OWN,
    "dataset": "digits",
    "model": "lr",
    "num-clients": 8,
    "num-server-rounds": ROUNDS,
    "local-work": "steps:2",
    "evaluate-every": 100,
    "seed": 4,
    "budget": 30.0,
    "run-name": "r",
}


def play(folder, **keys):
    values = RunConfig.parse(RUN | {"runs-dir": str(folder)} | keys).flat()
    run_local(server_app, client_app, values, nodes=values["num-clients"])
    return folder / "r"


def test_the_server_chooses_by_the_ledgers_estimate(tmp_path):
    folder = play(tmp_path, sensitivities="estimated")
    assert read_run(folder / "ledger.sqlite")["policy"]["sensitivities"] == "estimated"
    table = section5_instance(8, RUN["seed"])
    sizes = np.array([row["examples"] for row in read(folder / "ledger.sqlite", "clients")])
    rows = read(folder / "ledger.sqlite", "participations")
    slopes, ages, moved = SlopeEstimate.of(8), np.zeros(8, np.int64), False
    for t in range(1, ROUNDS + 1):
        took = [row for row in rows if row["round"] == t]
        phi = slopes.sensitivities(sizes)
        moved |= not np.allclose(phi, sizes / sizes.mean())
        there = Population(ages, sizes, np.ones(8, bool), table.payments, phi)
        chosen = BudgetedSelector(RUN["budget"], "whittle", RUN["seed"]).select(t, there).clients
        assert [row["client"] for row in took if row["refreshed"]] == sorted(chosen.tolist())
        ages = np.where(np.isin(np.arange(8), chosen), 0, ages + 1)
        slopes = slopes.after(np.arange(8), ages, np.array([row["loss"] for row in took]))
    assert moved  # else the declared or the first ones would do


def test_who_has_declared_no_size_counts_as_the_mean(tmp_path):
    app = ToyApp(unchanged, examples=4, loss=lambda c: 1.0 / (1 + c), declares=lambda client: {"payment": 10.0})
    grid = LocalGrid(app, {"runs-dir": str(tmp_path), "seed": 5, "num-clients": 4, "policy": "wics"}, 4)
    strategy = BudgetedRefresh(BudgetedSelector(40.0), 4, sensitivities="estimated", trains="all")
    result = strategy.start(grid, zeros(1), 3)
    assert len(result.train_metrics_clientapp) == 3


def test_the_table_holds_staleness_rates_and_sensitivities(tmp_path):
    drawn = section5_instance(8, RUN["seed"])
    assert 0 < drawn.staleness.min() < drawn.staleness.max() <= 2
    table = read_clients_file(play(tmp_path / "own", sensitivities="staleness") / "clients.csv")
    np.testing.assert_allclose(table.staleness, drawn.staleness)
    np.testing.assert_allclose(table.sensitivities, drawn.sizes / drawn.sizes.mean() * drawn.staleness)
    alike = read_clients_file(play(tmp_path / "alike", staleness="mislabelled") / "clients.csv")
    assert (alike.staleness == 1).all()
    np.testing.assert_allclose(alike.sensitivities, drawn.sensitivities)


def test_sensitivities_by_the_bound_are_those_of_equation_10(tmp_path):
    """φ_i = α_i σ_i² βNT/2 as printed, with α_i from the appendix, up to what all have in common."""
    drawn, eta, tau, mu = section5_instance(8, RUN["seed"]), 0.05, 10, 1.0
    found = read_clients_file(
        play(tmp_path, sensitivities="bound", **{"local-work": f"steps:{tau}", "learning-rate": eta}) / "clients.csv"
    ).sensitivities
    s = drawn.sizes / drawn.sizes.sum()
    alpha = eta * s / mu + 8 * eta * (tau**2 * eta + 2 * (tau - 1) ** 2 / mu) * s**2
    assert (found / (alpha * drawn.staleness)).std() < 1e-12 * found.mean() / (alpha * drawn.staleness).mean()
    assert found.mean() == pytest.approx(1)
    by_share = s * drawn.staleness
    assert np.ptp(found / by_share) > 0.5 * np.mean(found / by_share)  # which is another thing


def test_labels_go_wrong_at_each_client_s_own_rate(tmp_path):
    """Two clients alike but for their rates, whose only round is played with data of age 10."""
    file = tmp_path / "clients.csv"
    header = "name,size,payment,sensitivity,age,staleness"
    file.write_text(f"{header}\na,100,20,1,10,1e-9\nb,100,20,1,10,9\n")
    keys = {
        "clients-file": str(file),
        "num-clients": 2,
        "num-server-rounds": 1,
        "budget": 20.0,
        "local-work": "steps:200",
    }
    losses = {}
    for name in ("a", "b"):  # the other one is refreshed
        text = file.read_text()
        file.write_text(text.replace(f"{name},100,20", f"{name},100,21"))
        folder = play(tmp_path / name, **keys)
        losses |= {
            row["name"]: row["loss"] for row in read(folder / "ledger.sqlite", "participations") if not row["refreshed"]
        }
        file.write_text(text)
    assert losses["client-1"] > 1.5 * losses["client-0"]


def test_a_clients_table_without_staleness_rates_is_refused(tmp_path):
    file = tmp_path / "clients.csv"
    file.write_text("name,size,payment,sensitivity\na,100,20,1\nb,100,20,1\n")
    keys = {"clients-file": str(file), "num-clients": 2, "num-server-rounds": 1}
    with refused("line 1: columns"):
        play(tmp_path / "own", **keys)
    assert not (tmp_path / "own").exists()
    assert (
        read_clients_file(play(tmp_path / "alike", **keys, staleness="mislabelled") / "clients.csv").staleness == 1
    ).all()
