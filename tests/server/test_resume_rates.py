"""Rates that were given are those of the whole run, whatever becomes of the file that they were given in."""

import pytest

from aoi_fl.config.run import RunConfig
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.science.errors import ResumeError
from aoi_fl.server.app import play
from aoi_fl.server.folder import RATES_FILE
from aoi_fl.server.resume import recorded_run
from aoi_fl.server.terms import rates_of, write_rates
from tests.fakes import ScriptedGrid
from tests.ledgers import rounds_of
from tests.server.interrupted import BASE, assert_same, resume_here, run_here

N, CUT = BASE["num-clients"], 5
OFTEN, SELDOM = 0.6, 0.225  # 4 · 0.6 + 16 · 0.225 = 6
RATES = {f"client-{i}": OFTEN if i % 5 == 0 else SELDOM for i in reversed(range(N))}
OTHERS = {name: OFTEN if name in list(RATES)[:4] else SELDOM for name in RATES}


def write(path, rates):
    path.write_text("name,size,rate\n" + "".join(f"{name},7,{rate}\n" for name, rate in rates.items()))


def begin(policy, folder, name):
    """Return the keys of a run whose rates are given in a file of its own."""
    write(folder / f"{name}.csv", RATES)
    given = {"policy": policy, "rates": "given", "clients-file": str(folder / f"{name}.csv")}
    return RunConfig.parse(BASE | given | {"runs-dir": str(folder), "run-name": name}).flat()


def broken_off(values):
    with pytest.raises(KeyboardInterrupt):
        play(ScriptedGrid(client_app, values, N, cut=CUT), RunConfig.parse(values))


@pytest.mark.parametrize(("policy", "what"), [("systematic", "gone"), ("markov-optimal", "changed")])
def test_a_run_goes_on_by_the_rates_that_it_was_begun_with(policy, what, tmp_path):
    whole = run_here(begin(policy, tmp_path, "whole"))
    broken_off(begin(policy, tmp_path, "cut"))
    file = tmp_path / "cut.csv"
    if what == "gone":
        file.unlink()
    else:
        write(file, OTHERS)
    assert len(rounds_of(tmp_path / "cut")) == CUT - 1
    resume_here(tmp_path / "cut")
    assert_same(tmp_path / "cut", whole)
    assert recorded_run(tmp_path / "cut")["policy"]["rates"] == [RATES[f"client-{i}"] for i in range(N)]


def test_a_copy_that_somebody_has_spoilt_is_named(tmp_path):
    broken_off(begin("markov-optimal", tmp_path, "cut"))
    (tmp_path / "cut" / RATES_FILE).write_text("rate\n" + "0.4\n" * N)
    with pytest.raises(ResumeError, match=r"rates\.csv .* the file has"):
        resume_here(tmp_path / "cut")


@pytest.mark.parametrize(
    "rates", [[0.1, 1 / 3, 1.0, 17 / 30], {" a": 0.1, ' "b", with\nall': 1 / 3, "c": 1.0, "d": 17 / 30}]
)
def test_rates_are_read_as_they_were_written(rates, tmp_path):
    write_rates(tmp_path / RATES_FILE, rates)
    values = {"num-clients": 4, "clients-per-round": 2, "rates": "given", "clients-file": "nowhere.csv"}
    config = RunConfig.parse(values | {"resume": True, "run-name": tmp_path.name})
    found = rates_of(config, tmp_path)
    assert found == rates and list(found) == list(rates)
