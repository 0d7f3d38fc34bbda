"""A policy from the user's own module: in a run, a simulation, the arena and the report; and what is refused."""

import json
import shutil

import pytest

from aoi_fl.client.app import app as client_app
from aoi_fl.client.deciding import make_decider
from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.run import RunConfig
from aoi_fl.engine.local_run import run_local
from aoi_fl.lab.experiments.studies.entrants import own_keys
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.science.errors import ResumeError
from aoi_fl.server.app import app as server_app
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read, read_run
from aoi_fl.strategies import RoundOptions
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
        self.traits, self.clients, self.turn = PolicyTraits(clients), clients, 0

    def plan(self, view):
        self.turn += 1
        return Plan(np.array([view.round % self.clients]), np.ones(1))

    def state_dict(self):
        return {"turn": np.array(self.turn)}

    def load_state_dict(self, state):
        self.turn = int(state["turn"])
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


def run(policy, folder, name="r", **more):
    values = BASE | {"policy": policy, "model-dir": str(folder), "runs-dir": str(folder), "run-name": name} | more
    run_local(server_app, client_app, RunConfig.parse(values).flat(), nodes=4)
    return folder / name


def chosen(folder):
    parts = read(folder / LEDGER, "participations")
    return [sorted(part["client"] for part in parts if part["round"] == round_) for round_ in range(1, 5)]


def test_selector_of_ones_own_runs(lay, tmp_path):
    name = lay(SELECTOR, "Lowest", "own_lowest_a")
    folder = run(name, tmp_path)
    assert chosen(folder) == [[0, 1]] * 4
    about = read_run(folder / LEDGER)
    assert about["policy"]["kind"] == name and len(about["policy_source"]) == 64 and about["status"] == "completed"


def test_policy_of_ones_own_runs(lay, tmp_path):
    assert chosen(run(lay(POLICY, "Turns", "own_turns_a"), tmp_path)) == [[1], [2], [3], [0]]


def test_resumed_run_refuses_another_module(lay, tmp_path, monkeypatch):
    name = lay(SELECTOR, "Lowest", "own_lowest_c")
    with monkeypatch.context() as patch:
        patch.setattr("aoi_fl.server.checkpoint.Checkpoints.prune", lambda self, round_: 1 / (round_ < 2))
        with pytest.raises(ZeroDivisionError):
            run(name, tmp_path)
    shutil.copytree(tmp_path / "r", tmp_path / "again")
    (tmp_path / "own_lowest_c.py").write_text(SELECTOR + "# changed\n")
    with pytest.raises(ResumeError, match="own_lowest_c"):
        run(name, tmp_path, resume=True)
    (tmp_path / "own_lowest_c.py").write_text(SELECTOR)
    run(name, tmp_path, resume=True)
    assert chosen(tmp_path / "r") == [[0, 1]] * 4


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


@pytest.mark.parametrize("wire", ["poll", "broadcast", "reserve"])
def test_rule_of_ones_own_decides_as_simulated(wire, lay, aoi, tmp_path):
    """The simulator knows no forced client: up to there they agree, whatever the coordination."""
    name, rounds = lay(RULE, "Impatient", f"own_rule_{wire}"), 8
    more = {"num-clients": 8, "clients-per-round": 4, "num-server-rounds": rounds, "coordination": wire}
    values = BASE | more | {"policy": name, "model-dir": str(tmp_path), "runs-dir": str(tmp_path), "run-name": "r"}
    run_local(server_app, client_app, RunConfig.parse(values).flat(), nodes=8)
    shape = f"--clients 8 --per-round 4 --rounds {rounds} --seed 3 --trace --json --weights unbiased".split()
    status, out, errors = aoi("simulate", "--policy", name, *shape)
    assert status == 0, errors
    found, wanted = trained(tmp_path / "r", rounds), json.loads(out)["selections"]
    until = found.index(None) if None in found else rounds
    assert until >= 3 and found[:until] == wanted[:until]
    assert read_run(tmp_path / "r" / LEDGER)["policy"]["kind"] == name


def test_client_refuses_a_rule_of_another_digest(lay, tmp_path):
    name, folder = lay(RULE, "Impatient", "own_rule_digest"), str(tmp_path)
    ask = ParticipationRequest("r", 1, wire="poll", rule=name, rule_source="0" * 64, clients=4, per_round=2)
    with refused("policy", name, "digest"):
        make_decider(ask, 1, 0, folder)


def test_coordination_of_a_selector_is_refused(lay, tmp_path):
    name = lay(SELECTOR, "Lowest", "own_lowest_w")
    keys = RunConfig.parse(BASE | {"policy": name, "model-dir": str(tmp_path), "coordination": "reserve"}).flat()
    with refused("coordination", "reserve"):
        REGISTRY[name].make(keys, options=RoundOptions())
