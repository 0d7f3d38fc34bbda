"""Verdicts on how fast policies learn follow made-up curves with a known answer."""

import pytest

from aoi_fl.lab.experiments.harness.federation import complete_run
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.ledger import read


def test_a_run_that_stopped_as_its_model_diverged_is_a_result(tmp_path):
    lines = [f"{x},{1000 * x}.5" for x in range(60)]
    (tmp_path / "steep.csv").write_text("\n".join(["x,y", *lines]))
    values = {
        "dataset": f"csv:{tmp_path / 'steep.csv'}",
        "target": "y",
        "model": "lr",
        "num-clients": 4,
        "clients-per-round": 2,
        "learning-rate": 2.0,
        "runs-dir": str(tmp_path),
        "run-name": "run",
        "seed": 1,
        "policy": "random",
        "num-server-rounds": 30,
    }
    with pytest.raises(ConfigError) as refused:
        complete_run(values)
    assert refused.value.key == "run"
    rows = read(complete_run(values, stopped=True), "rounds")
    assert rows[-1]["trained"] == 0 and rows[-1]["round"] < 30
