"""docs/privacy.md: its example as an app of its own, its plan, and its table by the account."""

import re

import pytest

from aoi_fl.lab.privacy.amplification import amplified
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.privacy.account import Account
from aoi_fl.science.privacy.bounds import min_separation
from aoi_fl.science.selection import RandomSelector
from aoi_fl.science.systematic import SystematicPolicy
from aoi_fl.server.engine.local_run import run_local
from tests.processes import ROOT

PAGE = (ROOT / "docs/privacy.md").read_text()
POLICIES = {
    "random": RandomSelector(15, 1),
    "markov-optimal": MarkovPolicy.optimal(100, 15),
    "systematic": SystematicPolicy.equal(100, 15, "random"),
}


@pytest.mark.slow
def test_the_example_runs_in_its_own_app_with_the_noise_and_epsilon_of_the_plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        exec(block, names)
    plan = re.search(r"noise-multiplier=([\d.]+)", PAGE)
    run_local(names["server_app"], names["client_app"], {"clients": 300, "per-round": 10, "rounds": 200}, nodes=300)
    shown = capsys.readouterr().out
    noise, epsilon, *model = map(float, re.findall(r"-?\d+\.\d+", shown.partition("noise multiplier")[2]))
    account = Account(min_separation(MarkovPolicy.optimal(3000, 100)), 200, float(plan[1]), bands=30)
    assert noise == float(plan[1])
    assert 7.99 < epsilon == account.epsilon(1e-4) <= 8
    assert model == pytest.approx([1, -2], abs=0.7)


@pytest.mark.slow
def test_the_costs_are_those_of_the_account():
    rows = re.findall(r"^\| (amplified: )?(`.*), (white|six bands) \| ([\d. |]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 7
    for hidden, names, noise, cells in rows:
        for name in re.findall(r"`([\w-]+)`", names):
            kept, bands = min_separation(POLICIES[name], 100), 6 if noise == "six bands" else 1
            unit = Account(kept, 100, 1.0, bands).error
            columns = zip((20, 11.7, 6, 3.5), cells.split(" | "), strict=True)
            for error, cell in list(columns)[2 if hidden else 0 : 3 if hidden else 4]:
                account = Account(kept, 100, error / unit, bands)
                epsilon = amplified(POLICIES[name], 100, account, 1e-3) if hidden else account.epsilon(1e-3)
                assert epsilon == pytest.approx(float(cell), rel=0.004)
