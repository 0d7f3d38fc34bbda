"""Own functions that a strategy calls, and own apps: none ends the process, as a success or with a foreign error."""

import asyncio
import sys
from functools import partial
from itertools import count

import pytest
from flwr.app import MetricRecord
from flwr.serverapp import strategy as flower

from aoi_fl.science.errors import ConfigError
from aoi_fl.strategies import RandomSelection
from tests import fakes
from tests.fakes import HOSTILE, ToyApp, zeros


class Gone(BaseException):
    """What no handler of exceptions expects."""


def raising(error):
    def fail(*arguments):
        raise error

    return fail


ENDS = {
    "exit 0": lambda *_: sys.exit(0),
    "exit": lambda *_: sys.exit(),
    "a generator's exit": raising(GeneratorExit()),
    "cancelled": raising(asyncio.CancelledError()),
    "another": raising(Gone()),
}
RESULTS = {
    "number": lambda *_: 3,
    "text": lambda *_: "abc",
    "generator": lambda *_: (i for i in (1, 2)),
    "tuple": lambda *_: (None,),
    "triple": lambda *_: (None, None, None),
    "objects": lambda *_: {"loss": object()},
}


def from_the_second(bad, good):
    calls = count(1)
    return lambda *arguments: good(*arguments) if next(calls) == 1 else bad(*arguments)


def metrics(*_):
    return MetricRecord({"loss": 1.0})


def option(name, good):
    return lambda bad: {name: from_the_second(bad, good)}


def method(name):
    def make(bad):
        strategy = flower.FedAvg()
        setattr(strategy, name, from_the_second(bad, getattr(strategy, name)))
        return {"aggregation": strategy}

    return make


def step(name):
    def make(bad):
        good = getattr(RandomSelection, name)
        own = lambda self, *arguments: bad() if arguments[0] > 1 else good(self, *arguments)  # noqa: E731
        return {"strategy": type("Own", (RandomSelection,), {"__module__": "own", name: own})}

    return make


STEPS = ("configure_train", "configure_evaluate", "aggregate_train", "aggregate_evaluate")
KINDS = {
    "configure": option("configure", lambda round_: {"lr": 0.1}),
    **{name: option(name, metrics) for name in ("evaluate_fn", "train_metrics_aggr_fn", "evaluate_metrics_aggr_fn")},
    **{name: method(name) for name in STEPS},
    **{f"own {name}": step(name) for name in STEPS},
}


def play(app, folder, strategy=RandomSelection, evaluate_fn=None, **settings):
    how = {"start": zeros(3), "evaluate_clients": 2, "evaluate_fn": evaluate_fn}
    return fakes.play(partial(strategy, 3, **settings), app, folder, 2, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_an_own_function_costs_rounds_or_is_named(kind, tmp_path):
    make = KINDS[kind]
    for name, bad in (ENDS | RESULTS).items():
        if "aggr" in kind:  # a client may be the cause, so a fault costs a round in place of the run
            notes = play(ToyApp(evaluates=1.0), tmp_path, **make(bad))
            assert len(notes.rounds) == 2 and not notes.rounds[0].empty, name
            assert kind == "train_metrics_aggr_fn" or (notes.rounds[1].empty == ("aggregate_train" in kind)), name
        else:
            with pytest.raises(ConfigError) as error:
                play(ToyApp(evaluates=1.0), tmp_path, **make(bad))
                pytest.fail(name)
            assert error.value.key.startswith(kind.removeprefix("own ")), name


@pytest.mark.parametrize("kind", ["query.hello", "train", "evaluate"])
def test_an_app_that_would_end_the_process_costs_its_client_alone(kind, tmp_path):
    for name, bad in (ENDS | RESULTS).items():
        spoil = lambda message, act, what, _, client: bad() if (what, client) == (kind, HOSTILE) else act()  # noqa: B023, E731
        notes = play(ToyApp(evaluates=1.0, spoil=spoil), tmp_path)
        others = [p.outcome for p in notes.parts if p.client != HOSTILE]
        assert len(notes.rounds) == 2 and others and set(others) == {"trained"}, name
