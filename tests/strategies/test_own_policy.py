"""A policy from the user's own module: in a run, a simulation, the arena and the report; and what is refused."""

import json

import numpy as np
import pytest

from aoi_fl import science
from aoi_fl.client.state import ClientState
from aoi_fl.client.step import ClientMemory, Request, step
from aoi_fl.config.policies import REGISTRY, PolicyRow
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.experiments.studies.entrants import own_keys
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science.selection import Population
from aoi_fl.server.app import app as server_app
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read, read_run
from aoi_fl.strategies import Policy, PolicyTraits, RoundOptions
from aoi_fl.strategies.guarded import guarded
from aoi_fl.strategies.selection.own import make_own
from tests.refusals import refused

SELECTOR = """
import numpy as np
from aoi_fl.science.selection import evenly


class Lowest:
    def __init__(self, per_round, seed):
        self.per_round = per_round

    def select(self, round_, population):
        return evenly(np.flatnonzero(population.available)[: self.per_round])
"""
POLICY = """
import numpy as np
from aoi_fl.strategies import Plan, Policy, PolicyTraits


class Turns(Policy):
    def __init__(self, clients, seed):
        self.traits, self.clients = PolicyTraits(clients), clients

    def plan(self, view):
        return Plan(np.array([view.round % self.clients]), np.ones(1))
"""
BASE = {
    "num-clients": 4,
    "clients-per-round": 2,
    "num-server-rounds": 4,
    "model": "lr",
    "local-epochs": 1,
    "seed": 3,
}


@pytest.fixture
def lay(tmp_path, monkeypatch):
    """Return a function that writes a module of a name of its own and returns the policy's name and folder."""
    monkeypatch.chdir(tmp_path)

    def write(text, name, module):
        (tmp_path / f"{module}.py").write_text(text)
        return f"python:{module}:{name}"

    return write


def run(policy, folder, **more):
    values = BASE | {"policy": policy, "model-dir": str(folder), "runs-dir": str(folder), "run-name": "r"} | more
    run_local(server_app, client_app, RunConfig.parse(values).flat(), nodes=values["num-clients"])
    return folder / "r"


@pytest.mark.parametrize(
    ("text", "attribute", "wanted"), [(SELECTOR, "Lowest", [[0, 1]] * 4), (POLICY, "Turns", [[1], [2], [3], [0]])]
)
def test_a_policy_of_ones_own_runs(text, attribute, wanted, lay, tmp_path):
    name = lay(text, attribute, f"own_{attribute}")
    folder = run(name, tmp_path)
    assert trained(folder, 4) == wanted
    about = read_run(folder / LEDGER)
    assert about["policy"]["kind"] in (name, attribute) and about["status"] == "completed"
    assert len(about["policy_source"]) == 64


def test_selector_of_ones_own_enters_the_arena():
    assert own_keys("python:mine:Lowest:weights=size", ()) == {"policy": "python:mine:Lowest", "weights": "size"}
    with refused("policies", "python:mine", "python:MODULE:NAME"):
        own_keys("python:mine", ())


@pytest.mark.parametrize("policy", ["python:mine", "python::Lowest", "python:mi-ne:Lowest", "lowest"])
def test_name_of_another_form_is_refused(policy):
    with refused("policy", policy, "python:MODULE:NAME"):
        RunConfig.parse({"policy": policy})


RULE = """
import numpy as np


class Impatient:
    def __init__(self, clients, per_round):
        self.clients, self.per_round = clients, per_round

    def first_age(self, round_, uniforms):
        return np.floor(3 * uniforms).astype(np.int64)

    def participates(self, ages, round_, uniforms):
        return uniforms < np.minimum(1.0, (ages + 1) * self.per_round / (3 * self.clients))

    def rates(self):
        return np.full(self.clients, self.per_round / self.clients)
"""


def trained(folder, rounds):
    """Return the clients that trained by their own decision, by round; None for a round with a forced one."""
    forced = {row["round"] for row in read(folder / LEDGER, "rounds") if row["forced"]}
    parts = read(folder / LEDGER, "participations")
    chosen = [sorted(p["client"] for p in parts if p["round"] == round_) for round_ in range(1, rounds + 1)]
    return [None if round_ in forced else who for round_, who in enumerate(chosen, 1)]


def decides_as_simulated(name, wire, aoi, folder):
    """Check a run against the simulator, which knows no forced client: up to there they agree."""
    rounds = 8
    more = {"num-clients": 8, "clients-per-round": 4, "num-server-rounds": rounds, "coordination": wire}
    folder = run(name, folder, **more)
    shape = f"--clients 8 --per-round 4 --rounds {rounds} --seed 3 --trace --json --weights unbiased".split()
    status, out, errors = aoi("simulate", "--policy", name, *shape)
    assert status == 0, errors
    found, wanted = trained(folder, rounds), json.loads(out)["selections"]
    until = found.index(None) if None in found else rounds
    assert until >= 3 and found[:until] == wanted[:until]
    assert read_run(folder / LEDGER)["policy"]["kind"] == name


@pytest.mark.parametrize("wire", ["poll", "broadcast", "reserve"])
def test_rule_of_ones_own_decides_as_simulated(wire, lay, aoi, tmp_path):
    decides_as_simulated(lay(RULE, "Impatient", f"own_rule_{wire}"), wire, aoi, tmp_path)


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


def test_a_rule_with_a_row_decides_as_simulated(lay, aoi, tmp_path, monkeypatch):
    lay(COIN, "Coin", "coin")
    monkeypatch.setattr(science, "__path__", [*science.__path__, str(tmp_path)])
    keys = REGISTRY["markov-increasing"].keys - {"max-age", "exponent"}
    row = PolicyRow("coin", "science.coin:Coin", "own:by_keys", keys, "some", "equal", "us", rates="known")
    monkeypatch.setitem(REGISTRY, "coin", row)
    decides_as_simulated("coin", "reserve", aoi, tmp_path)


def test_client_refuses_a_rule_of_another_digest(lay, tmp_path):
    name, folder = lay(RULE, "Impatient", "own_rule_digest"), str(tmp_path)
    ask = ParticipationRequest("r", 1, wire="poll", rule=name, rule_source="0" * 64, clients=4, per_round=2)
    with refused("policy", name, "digest"):
        step(ClientMemory(ClientState(seed=1)), Request(ask, folder=folder))


def test_coordination_of_a_selector_is_refused(lay, tmp_path):
    name = lay(SELECTOR, "Lowest", "own_lowest_w")
    keys = RunConfig.parse(BASE | {"policy": name, "model-dir": str(tmp_path), "coordination": "reserve"}).flat()
    with refused("coordination", "reserve"):
        REGISTRY[name].make(keys, options=RoundOptions())


KEPT = "self.n = [0]", "self.n[0] += 1; step = self.n[0]"  # an attribute, which a checkpoint holds
ELSEWHERE = {
    "": KEPT,
    "closure": ("seen = []; self.next = lambda: seen.append(1) or len(seen)", "step = self.next()"),
    "class": ("pass", "type(self).n = step = getattr(type(self), 'n', 0) + 1"),
    "module": ("pass", "SEEN.append(1); step = len(SEEN)"),
    "another module": ("pass", "beside.n += 1; step = beside.n"),
    "iterator": ("pass", "step = next(COUNT)"),
    "attribute of a function": ("pass", "step = counted()"),
    "default of a function": ("pass", "step = kept()"),
    "random": ("pass", "step = random.randrange(4)"),
    "numpy.random": ("pass", "step = int(np.random.randint(4))"),
    "torch": ("import torch", "import torch; step = int(torch.randint(4, (1,)))"),
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_state_outside_the_checkpoint_is_named(place, tmp_path, caplog):
    begin, step = ELSEWHERE[place]
    module = f"outside_{len(place)}_{place[:2]}"
    (tmp_path / "beside.py").write_text("n = 0\n")
    (tmp_path / f"{module}.py").write_text(
        "import itertools, random\nimport beside\nimport numpy as np\nfrom aoi_fl.science.selection import evenly\n"
        "SEEN, COUNT = [], itertools.count()\n"
        "def counted():\n    counted.n = getattr(counted, 'n', 0) + 1\n    return counted.n\n"
        "def kept(seen=[]):\n    seen.append(1)\n    return len(seen)\n"
        "class Mine:\n"
        f"    def __init__(self):\n        {begin}\n    def select(self, round_, population):\n        {step}\n"
        "        return evenly(np.array([step % 4]))\n"
    )
    made = make_own(f"python:{module}:Mine", str(tmp_path), clients=4, per_round=1, seed=1)
    made.state_dict()
    assert "checkpoint" not in caplog.text
    made.select(1, Population(np.zeros(4, int), np.ones(4, int), np.ones(4, bool)))
    made.state_dict()
    assert ("checkpoint" in caplog.text) == bool(place)


def test_the_traits_of_a_policy_are_no_state(caplog):
    class Mine(Policy):
        def __init__(self):
            self.traits, self.n = PolicyTraits(clients_needed=1), 3

        def plan(self, view):
            raise AssertionError

    kept, again = guarded(Mine()).state_dict(), Mine()
    again.n = 0
    guarded(again).load_state_dict(kept)
    assert again.n == 3 and not caplog.records


CHANGES = {
    "Mine.calls": "Mine.calls += 1",
    "count": "self.count = getattr(self, 'count', 0) + 1",
    "participates.n": "Mine.participates.n = getattr(Mine.participates, 'n', 0) + 1",
    "": "self.kept[round_] = 1",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_rule_that_counts_its_calls_is_warned_of(what, tmp_path, caplog):
    """Each client counts its own, and a simulation those of all together."""
    module = f"counting_{len(what)}"
    (tmp_path / f"{module}.py").write_text(
        "class Mine:\n    calls, kept = 0, {}\n    def participates(self, ages, round_, uniforms):\n"
        f"        {CHANGES[what]}\n        return uniforms < (0.9 if self.calls > 500 else 0.5)\n"
    )
    make_own(f"python:{module}:Mine", str(tmp_path), clients=4, per_round=1, seed=1)
    assert [what in one.getMessage() for one in caplog.records] == ([True] if what else [])
