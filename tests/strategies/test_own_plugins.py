"""Own code with faults of many kinds: run and simulation end with one line that names it, never as a success."""

from functools import partial
from itertools import count

import pytest

from aoi_fl.config.policies import REGISTRY
from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import ConfigError
from tests.fakes import Kept, honest_app, play, slow

numbers = count()
RAISED = (
    "1 / 0",
    "None.absent",
    "{}['key']",
    "open('/nowhere')",
    "(lambda f: f(f))(lambda f: f(f))",
    "[0] * (1 << 62)",
    "sys.exit(0)",
    "raise_(SystemExit)",
    "raise_(GeneratorExit)",
    "raise_(ModuleNotFoundError('x', name='torch'))",
    "raise_(asyncio.CancelledError)",
    "raise_(Mute)",
    "raise_(StopIteration)",
    "raise_(ExceptionGroup('g', [OSError()]))",
    "raise_(ValueError('long ' * 10**6 + chr(10) + chr(27)))",
)
HEAD = """
import asyncio, sys
import numpy as np
from aoi_fl.science.selection import Selection, evenly
from aoi_fl.strategies import Plan, Policy, PolicyTraits


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


class Odd:
    def __repr__(self):
        raise RuntimeError


def raise_(error):
    raise error


def of(clients, weights=None, draws=None):
    weights = np.full(len(clients), 1 / max(len(clients), 1)) if weights is None else weights
    return Selection(clients, weights, np.ones(len(clients), int) if draws is None else draws)


TWO = np.array([0, 1])
"""
SELECTIONS = (
    "None",
    "'01'",
    "(0, 1)",
    "TWO",
    "Odd()",
    "Selection",
    "iter(TWO)",
    "(i for i in __import__('itertools').count())",
    "{}",
    "of(np.array([0, 4]))",
    "of(np.array([1, 1]))",
    "of(np.array([0.0, 1.0]))",
    "of(np.array([True, False, True, False]))",
    "of([0, 10**30])",
    "of(np.ma.masked_equal([0, 1, 2], 2))",
    "of([0, None])",
    "of([[0], [1, 2]])",
    "of(np.array([2**63], np.uint64))",
    "of(np.array(0), 1, 1)",
    "of('01')",
    "Selection(None, None, None)",
    "Selection((i for i in TWO), np.ones(2) / 2, np.ones(2))",
    "of(TWO, np.array([np.nan, 1]))",
    "of(TWO, np.array([2.0, -1.0]))",
    "of(TWO, np.ones(2))",
    "of(TWO, np.ones(3) / 3)",
    "of(TWO, ['a', 'b'])",
    "of(TWO, None, np.zeros(2))",
    "of(TWO, None, np.array([1, -1]))",
    "of(TWO, None, np.array([0.5, 1.5]))",
    "of(TWO, np.array([0.5 + 1j, 0.5]))",
    "of(TWO, [0.5, [0.5]])",
    "of(TWO, np.array([0.5, 0.5], 'M8[s]'))",
)
MASKS = (
    "None",
    "True",
    "'yes'",
    "np.ones(len(u))",
    "np.ones((len(u), 1), bool)",
    "np.ones(len(u) + 1, bool)",
    "np.full(len(u), np.nan)",
    "(x > 0 for x in u)",
    "[None] * len(u)",
    "np.ma.array(u < 0.7, mask=u < 0.1)",
    "Odd()",
    "ages >= np.sort(ages)[-2:][0]",
    "np.random.random(len(u)) < 0.5",
    "self.again()",
)
AGES = ("None", "'0'", "[0]", "np.zeros(len(u))", "np.full(len(u), -1)", "np.full(len(u), 2**62)", "u > 0")
RATES = (
    "None",
    "0.5",
    "'a'",
    "[2.0] * 4",
    "[-0.1] * 4",
    "[np.nan] * 4",
    "[np.inf] * 4",
    "np.ma.masked_equal([0.5] * 4, 0.5)",
    "[0.5] * 3",
    "[[0.5] * 4]",
)
DESCRIBED = ("None", "'a'", "{'a': np.ones(2)}", "{'a': Odd()}", "{(1, 2): 3}", "{'a': float('nan')}", "[1]")
STATES = (
    "None",
    "'abc'",
    "{1: np.ones(1)}",
    "{'': np.ones(1)}",
    "{chr(0xD83D): np.ones(1)}",
    "{'a': 'text'}",
    "{'a': Odd()}",
    "{'a': np.array([None])}",
    "{'a': [[1], [1, 2]]}",
    "{'a': np.ones(1, complex)}",
    "{'a': np.broadcast_to(np.ones(1), (1 << 31,))}",
)
PLANS = (
    "None",
    "evenly(TWO)",
    "Plan(None, None)",
    "Plan(TWO, -np.ones(2))",
    "Plan(TWO, np.array([np.inf, 1]))",
    "Plan(TWO, ['a', 'b'])",
    "Plan([0, 0], np.ones(2))",
    "Plan(TWO > 0, np.ones(2))",
    "Plan(TWO, np.ones(2), refresh=[1, 2])",
    "Plan(TWO, np.ones(2), rates=-np.ones(4))",
    "Plan(TWO, np.ones(2), members='all')",
    "Plan(TWO, np.ones(2), payments=-np.ones(4))",
    "Plan(TWO, np.ones(2), refused={9: 'no'})",
    "Plan(TWO, np.ones(2), refused=[1])",
    "Plan(TWO, np.ones(2), ledger={'nothing': 1})",
    "Plan(TWO, np.ones(2), ledger={'budget': 'x'})",
)
TRAITS = ("None", "PolicyTraits", "PolicyTraits('4')", "PolicyTraits(-1)", "PolicyTraits(None)", "3")
MODULES = (
    *RAISED,
    "x = (",
    "import nowhere_at_all",
    "del Own",
    "Own = 3",
    "Own = lambda: None",
    "Own = lambda clients, other: 5",
    "Own = type",
    "Own = lambda *, per_round, a: 5",
    "Own = Policy",
    "Own = lambda: Odd()",
)
GOOD = "of(TWO)"


def selector(select=GOOD, **more):
    methods = {"select": ("r, p", select)} | {name: (arguments, body) for name, (arguments, body) in more.items()}
    return made("Own:", methods)


def made(head, methods, first=""):
    lines = [f"class {head}", *([f"    {first}"] if first else [])]
    for name, (arguments, body) in methods.items():
        lines.append(f"    def {name}(self{', ' * bool(arguments)}{arguments}):\n        return {body}")
    return "\n".join(lines)


def rule(**methods):
    usual = {"participates": ("ages, r, u", "u < 0.7"), "again": ("", "None")}
    counter = "self.calls = getattr(self, 'calls', 0) + 1, np.array([self.calls % 3 == 0] * 1)"
    return made("Own:", usual | methods).replace("self.again()", f"({counter})[1]")


def policy(traits="PolicyTraits(4)", **methods):
    usual = {"plan": ("view", "Plan(TWO, np.ones(2))")}
    return made("Own(Policy):", usual | methods, f"traits = {traits}" if traits else "")


def reading(attribute, body, kind=None):
    """Return own code of which no attribute of a name can be read, or only as ``body``."""
    return (kind or selector)() + f"\n    {attribute} = property(lambda self: {body})"


SELECTORS = [
    *(selector(body) for body in (*SELECTIONS, *RAISED)),
    *(made("Own:", {"__init__": ("", body), "select": ("r, p", GOOD)}) for body in RAISED[::3]),
    *(selector().replace("class Own", f"class Own{base}") for base in ("(nowhere)", "(int, str)")),
    *MODULES,
    *(reading("plan", body) for body in RAISED[::3]),
]
RULES = [
    *(rule(participates=("ages, r, u", body)) for body in (*MASKS, *RAISED[::3])),
    *(rule(first_age=("r, u", body)) for body in (*AGES, "1 / 0", "sys.exit(0)")),
    *(rule(rates=("", body)) for body in (*RATES, "1 / 0", "sys.exit(0)")),
]
# What no simulation calls.
RUN_ONLY = [
    *(reading(name, body) for name in ("describe", "learn") for body in ("1 / 0", "3")),
    *(reading(name, "sys.exit(0)") for name in ("per_round", "rates")),
    *(reading("traits", body, policy) for body in ("1 / 0", "sys.exit(0)", "raise_(Mute)")),
    *(selector(describe=("", body)) for body in (*DESCRIBED, "1 / 0")),
    *(selector(rates=("p", body)) for body in (*RATES, "1 / 0")),
    *(selector(state_dict=("", body), load_state_dict=("s", "None")) for body in (*STATES, "1 / 0", "sys.exit(0)")),
    selector(state_dict=("", "{}")),
    selector(load_state_dict=("s", "None")),
    *(policy(plan=("view", body)) for body in (*PLANS, *RAISED[::3])),
    *(policy(traits) for traits in (*TRAITS, "")),
    *(policy(observe=("outcome", body)) for body in ("3", "1 / 0", "sys.exit(0)")),
    *(policy(request_for=("base, client, on", body)) for body in ("3", "1 / 0")),
]


@pytest.fixture
def lay(tmp_path, monkeypatch):
    """Return a function that writes own code to a module of a new name."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        module = f"plugin_{next(numbers)}"
        before = "class Own: pass\n" if "class Own" not in text else ""
        (tmp_path / f"{module}.py").write_text(f"{HEAD}{before}{text}\n")
        return f"python:{module}:Own"

    return write


SHAPE = ["--clients", "4", "--per-round", "2", "--rounds", "2"]
RUN = [*SHAPE, *["-c", "model=lr", "-c", "local-epochs=1", "-c", "run-name=r", "-q"]]


def check(name, what, status, err):
    lines = [line for line in err.splitlines() if line.startswith("aoi: ")]
    assert status not in (0, None), f"{what} ends as a success"
    assert "Traceback" not in err, f"{what}\n{err}"
    assert len(lines) == 1 and name in lines[0] and len(lines[0]) < 1500, f"{what}\n{err}"


A_THIRD_OR_ALL = pytest.mark.parametrize("step", [3, *slow([1])])


@A_THIRD_OR_ALL
def test_no_simulation_with_bad_code_ends_in_a_traceback_or_as_a_success(lay, aoi, step):
    for text in [*SELECTORS, *RULES][::step]:
        name = lay(text)
        status, out, err = aoi("simulate", "--policy", name, *SHAPE)
        check(name, text, status, out + err)


@A_THIRD_OR_ALL
def test_no_run_with_bad_code_ends_in_a_traceback_or_as_a_success(lay, tmp_path, step):
    """As ``aoi run``, which prints an error of ours as one line and ends with status 2."""
    keys = RunConfig.parse({"num-clients": 4, "clients-per-round": 2, "model-dir": str(tmp_path)}).flat()
    for text in [*SELECTORS, *RULES, *RUN_ONLY][::step]:
        name, notes = lay(text), Kept(tmp_path / "checkpoints")
        with pytest.raises(ConfigError) as error:
            play(partial(REGISTRY[name].make, keys | {"policy": name}), honest_app(), tmp_path, rounds=2, notes=notes)
            pytest.fail(text)
        assert name in str(error.value) and len(notes.rounds) <= 1, text


SLOTS = selector().replace("Own:\n", "Own:\n    __slots__ = ()\n")


@pytest.mark.parametrize("text", [SLOTS, rule(), policy(), selector("of([1, 0])")])
def test_sound_code_of_each_kind_runs(text, lay, aoi):
    status, _, err = aoi("run", "--policy", lay(text), *RUN)
    assert status == 0, err


MODEL = """
import torch

class Own(torch.nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(64, outputs)

    def forward(self, x):
        if not self.training and len(x) > 8:
            raise SystemExit(0)
        return self.layer(x.flatten(1))
"""


def test_a_model_that_fails_on_the_test_data_ends_the_run_by_name(lay, aoi):
    name = lay(MODEL)
    status, out, err = aoi("run", *SHAPE, "-c", f"model={name}", "-c", "run-name=r", "-q")
    check(name, MODEL, status, out + err)
