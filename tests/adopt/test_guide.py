"""What docs/adopt.md says beyond its changes: a table of what was played, and a policy of one's own that works."""

import re
from dataclasses import fields

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvgM

from aoi_fl.protocol.own_rule import OwnRule
from aoi_fl.science.load import measure
from aoi_fl.science.selection import Population, everyone
from aoi_fl.science.simulate import simulate
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.ledger import read_run
from aoi_fl.strategies import AgeAwareStrategy, RoundOutcome, SelectorPolicy
from aoi_fl.strategies.policy import ClientOutcome
from tests.adopt.adoption import CLIENT, FEDAVG, GUIDE, changes, section
from tests.adopt.table import ROWS
from tests.fakes import ToyApp, zeros
from tests.processes import ROOT

SIZES, ROUNDS = (10, 20, 30, 40, 50, 60), 28


def block(beginning):
    """Return the guide's Python that begins so."""
    (found,) = re.findall(rf"```python\n({beginning}.*?)```", GUIDE, re.DOTALL)
    return found


@pytest.fixture(scope="module")
def code():
    """Return the guide's example of a selector."""
    return block("from dataclasses")


def play(strategy, folder, rounds):
    """Run rounds of clients that add one to the model; return the model, and each client's rounds."""
    app = ToyApp(examples=SIZES.__getitem__, declares=lambda client: {"num-examples": SIZES[client]})
    result = strategy.start(LocalGrid(app, {"runs-dir": str(folder)}, 6), zeros(), rounds)
    times = [[round_ for kind, round_, who in app.sent if (kind, who) == ("train", client)] for client in range(6)]
    return result.arrays["w"].numpy(), times


def test_the_readme_shows_the_changes_of_the_guide():
    assert changes((ROOT / "README.md").read_text()) == section(FEDAVG) + CLIENT


def test_the_table_names_each_app_that_is_played_under_its_chapter():
    lines = re.findall(r"^\| (.*) \| (.*) \|$", GUIDE, re.MULTILINE)[1:]
    listed = {name: chapter for chapter, names in lines for name in names.split(", ")}
    assert listed == {name: row.chapter for name, row in ROWS.items()} and len(ROWS) >= 12


@pytest.mark.parametrize("kind", [Population, RoundOutcome, ClientOutcome])
def test_the_fields_that_own_code_reads_are_listed(kind):
    (paragraph,) = re.findall(rf"^`{kind.__name__}`(?:s with| has) .*?$\n(?:.+\n)*", GUIDE, re.MULTILINE)
    assert {f.name for f in fields(kind)} <= set(re.findall(r"`(\w+)`", paragraph))


def test_the_guides_commands_know_the_module(code, aoi, tmp_path):
    (tmp_path / "waiting.py").write_text(code)
    (commands,) = re.findall(r"```bash\n(aoi run --policy python.*?)```", GUIDE, re.DOTALL)
    for command in commands.strip().splitlines():
        _, *words = command.partition(" --clients")[0].split()
        words += ["--run-name", "own"] if words[0] == "run" else []
        status, out, err = aoi(*words, *["--clients", "6", "--per-round", "2", "--rounds", "3"])
        assert status == 0, out + err
    about = read_run(tmp_path / "runs" / "own" / "ledger.sqlite")["policy"]
    assert about == {"kind": "python:waiting:MostWaiting", "per_round": 2}


def test_the_rule_of_ones_own_takes_part_as_often_as_wanted():
    defined = {"__name__": "guide"}
    exec(block("import numpy as np\n\n\nclass Impatient"), defined)
    n, k, rounds = 200, 30, 300
    rule = OwnRule(defined["Impatient"](n, k), "python:guide:Impatient", n, k)
    population = everyone(np.ones(n, np.int64))
    metrics = measure(simulate(rule, population, rounds, 1))
    assert 0.5 * k < metrics.round_mean < 1.5 * k and metrics.interval_variance < (1 - k / n) / (k / n) ** 2


def test_the_selector_of_ones_own_plays_with_any_aggregation(code, tmp_path):
    defined = {"__name__": "guide"}
    exec(code, defined)
    policy = SelectorPolicy(defined["MostWaiting"](3), 3)
    own = AgeAwareStrategy(policy, aggregation=FedAvgM(), fraction_evaluate=0.0)
    model, times = play(own, tmp_path, ROUNDS)
    np.testing.assert_allclose(model, ROUNDS, rtol=1e-6)
    counts = [len(rounds) for rounds in times]
    assert sum(counts) == 3 * ROUNDS and counts == sorted(counts) and 0 < counts[0] < counts[5]


def test_the_policy_of_ones_own_ends_the_run(tmp_path):
    defined = {"__name__": "guide"}
    exec(block("import numpy as np\n\nfrom aoi_fl.strategies import Plan"), defined)
    own = AgeAwareStrategy(defined["UntilTrained"](6), fraction_evaluate=0.0)
    _, times = play(own, tmp_path, 5)
    assert times == [[1]] * 6 and own.complete == "each client has trained"
