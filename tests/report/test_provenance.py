"""What a page says of where its numbers come from is enough to get them again."""

import shlex

import pytest

from aoi_fl.cli.keys import pairs
from aoi_fl.config.presets import PRESET
from aoi_fl.config.run import RunConfig
from aoi_fl.report.provenance import command, provenance
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.summary import configuration, sentence


def run(config, started=1_700_000_000.0):
    return RecordedRun("mine", {"config": config}, [], [{"round": 1, "started": started}], [])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"policy": "random", "num-clients": 20, "clients-per-round": 4, "learning-rate": 0.3},
        {"dataset": "csv:patients.csv", "target": "outcome", "client-column": "hospital", "num-clients": 40},
        {"dataset": "parquet:p.parquet", "target": "y", "policy": "python:mine:Select", "model": "python:net:make"},
        {"privacy": "banded", "delta": 1e-3, "num-clients": 40, "max-age": 12},
        {"coordination": "poll", "weights": "equal", "policy": "systematic", "clients-per-round": 30},
    ],
)
def test_the_command_has_the_given_keys_and_no_others(given):
    of_the_machine = {"runs-dir": "/srv/runs", "run-name": "mine", "data-dir": "/srv/data"}
    own = RunConfig.parse({"preset": PRESET, **given, **of_the_machine})
    words = shlex.split(command(run(own.flat())))
    assert words[:2] == ["aoi", "run"]
    assert {key: str(value) for key, value in given.items()} == pairs(words[3::2])
    assert command(run(RunConfig.parse({"preset": "papers"}).flat())) == "aoi run -c preset=papers"


def test_paths_are_not_shown_and_a_foreign_run_has_no_command():
    given = {
        "preset": PRESET,
        "dataset": "npz:/home/me/my data.npz",
        "clients-file": "/home/me/c.csv",
        "policy": "wics",
        "clock": "/home/me/behave.pkl,~/me/capacity.pkl",
    }
    own = RunConfig.parse(given).flat()
    keys = "-c clients-file=c.csv -c clock=behave.pkl,capacity.pkl -c 'dataset=npz:my data.npz' -c policy=wics"
    assert command(run(own)) == f"aoi run {keys}"
    _, (_, same) = configuration([run(own)])
    assert "my data.npz" in sentence(run(own)) and not any("me/" in text for text in (sentence(run(own)), str(same)))
    assert command(run(own | {"clients-per-round": 2})) == command(run(own))  # of a cluster
    assert command(run({"num-server-rounds": 9})) == command(run({"policy": "random", "colour": "red"})) == ""
    columns, rows = provenance([run(own | {"seed": 4}), run({}, None)])
    assert rows[0][:4] == ["mine", "2023-11-14 22:13", "4", "npz:my data.npz, partition iid, sizes equal"]
    assert rows[1] == ["mine", "", "", "", ""] and len(columns) == 5
