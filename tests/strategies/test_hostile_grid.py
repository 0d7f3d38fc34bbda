"""One hostile client of ten costs its own places and one deadline: a sample of policies, aggregations and kinds."""

import gc
import math
from functools import partial

import numpy as np
import pytest
from flwr.serverapp import strategy as flower

from aoi_fl.config.policies import BUDGETED, REGISTRY
from aoi_fl.config.run import RunConfig
from aoi_fl.strategies import PrivateMean
from tests import fakes
from tests.fakes import ASK, EVALUATE, HELLO, HUNG, TRAIN, ToyApp, raises, with_answer, with_metrics, with_w, zeros
from tests.strategies.test_backoff import Ticked
from tests.strategies.test_hostile_aggregation import STRATEGIES, huge, mean_of

N, K, ROUNDS, DEADLINE = 10, 4, 60, 100.0
HOSTILE = 3


def by_keys(policy):
    """Return a maker of a policy's strategy; another word after its name is its coordination, or its source."""
    name, _, way = policy.partition(" ")
    keys = {"policy": name, "num-clients": N, "clients-per-round": K}
    if way:
        keys["index-source" if way == "bid" else "coordination"] = way
    if name in BUDGETED:
        keys["budget"] = float(K)
    return partial(REGISTRY[name].make, RunConfig.parse(keys).flat())


AGGREGATIONS = STRATEGIES | {
    "FedProx": partial(flower.FedProx, proximal_mu=0.1),
    "MultiKrum": partial(flower.MultiKrum, num_malicious_nodes=1, num_nodes_to_select=2),
    "Bulyan": partial(flower.Bulyan, num_malicious_nodes=0),
    "trimmed mean": partial(flower.FedTrimmedAvg, beta=0.3),
    "private": partial(PrivateMean, clip=1.0, noise_multiplier=0.1, rounds=ROUNDS, per_round=K),
}


def at(*kinds, delay):
    return lambda kind, round_, client: delay if client == HOSTILE and kind in kinds else 0


# What the hostile client does with training, and when it answers.
KINDS = {
    "huge": {"spoil": huge(1e30)},
    "largest": {"spoil": huge(3.4e38)},
    "large": {"spoil": huge(5e32)},
    "NaN": {"spoil": huge(math.nan)},
    "wrong shape": {"spoil": with_w(lambda w: np.resize(w, 5))},
    "wrong type": {"spoil": with_w(lambda w: w.astype(np.int64))},
    "errors": {"spoil": raises(RuntimeError("broken"))},
    "omits": {"spoil": with_metrics(num_examples=10)},
    "NaN loss": {"spoil": with_metrics(num_examples=10, loss=math.nan)},
    "many metrics": {"spoil": with_metrics(num_examples=10, loss=1.0, **{f"m{i}": 1.0 for i in range(2_000)})},
    "silent": {"script": at(TRAIN, delay=HUNG)},
    "silent to all": {"script": at(TRAIN, ASK, EVALUATE, "query.bid", delay=HUNG)},
    "mute": {"script": at(HELLO, delay=HUNG)},
    "just late": {"takes": lambda kind, round_, client: DEADLINE + 1.0 if (client, kind) == (HOSTILE, TRAIN) else 0.0},
    "leaves and returns": {"script": at(TRAIN, delay=HUNG), "away": lambda round_: round_ % 2 == 0},
    "extreme bid": {"to": "query.bid", "spoil": with_answer(bid=1e300)},
}


class Grid(Ticked):
    def __init__(self, *arguments, away=None, **more):
        there = lambda grid: [i for i in range(N) if i != HOSTILE or not away(len(grid.notes.rounds) + 1)]  # noqa: E731
        super().__init__(*arguments, present=there if away else None, **more)


def making(policy, aggregation):
    """Return what makes the strategy."""
    how = {"aggregation": AGGREGATIONS[aggregation]()} if aggregation in AGGREGATIONS else {}
    if aggregation == "mean with a function":
        how = {"train_metrics_aggr_fn": mean_of("loss")}
    return partial(by_keys(policy), **how)


def run(folder, policy, aggregation, kind):
    """Return the notes of a run, and its clock."""
    how = KINDS[kind]

    def spoil(message, act, what, round_, client):
        meant = client == HOSTILE and what == how.get("to", TRAIN)
        return how["spoil"](message, act) if meant and "spoil" in how else act()

    def declare(i):
        extreme = 1e30 if kind == "extreme bid" and i == HOSTILE else 1.0
        return {"num-examples": 10, "payment": 1.0, "sensitivity": extreme}

    learn = lambda array, client, round_: array + array.dtype.type(0.1)  # noqa: E731
    app = ToyApp(learn, declares=declare, evaluates=1.0, spoil=spoil)
    grid = partial(Grid, script=how.get("script"), takes=how.get("takes"), away=how.get("away"))
    make = making(policy, aggregation)
    limits = {"train_timeout": DEADLINE, "ask_timeout": DEADLINE, "max_empty_rounds": 10}
    notes = fakes.play(make, app, folder, ROUNDS, N, grid, start=zeros(3), **limits)
    return notes, notes.grid.clock.now()


CELLS = [  # they have each policy, aggregation and kind
    ("random", "FedYogi", "huge"),
    ("oldest-age", "FedAdagrad", "errors"),
    ("oldest-age", "trimmed mean", "silent"),
    ("f3ast", "mean", "leaves and returns"),
    ("random", "FedAvgM", "many metrics"),
    ("markov-optimal reserve", "mean with a function", "omits"),
    ("markov-optimal broadcast", "FedAvg", "NaN loss"),
    ("systematic broadcast", "Krum", "wrong shape"),
    ("systematic poll", "FedAdam", "silent to all"),
    ("wics bid", "FedYogi", "extreme bid"),
    ("abs", "FedMedian", "silent"),
    ("random-budget", "mean", "wrong type"),
    ("random", "private", "NaN"),
    ("systematic reserve", "FedAvg", "just late"),
    ("markov-optimal poll", "mean", "mute"),
    ("maxpack", "FedAvgM", "leaves and returns"),
    ("wics", "FedAvgM", "largest"),
    ("proportional", "QFedAvg", "NaN"),
    ("pow-d", "FedProx", "silent to all"),
    ("rpow-d", "MultiKrum", "errors"),
    ("oort", "mean", "leaves and returns"),
    ("fedcs", "Bulyan", "wrong shape"),
    ("refl", "FedAvg", "silent"),
    ("markov-increasing reserve", "mean", "huge"),
    ("random", "FedAvgM", "large"),
]
FEWEST = {"Bulyan": 3}  # updates without which an aggregation makes no model


@pytest.mark.parametrize(("policy", "aggregation", "kind"), CELLS)
def test_one_client_costs_its_places_and_a_deadline(policy, aggregation, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda: 0)  # Flower collects at each record that it reads, the whole process
    notes, seconds = run(tmp_path, policy, aggregation, kind)
    others = sum(client != HOSTILE for clients in notes.trained() for client in clients)
    share = 0.75 if kind == "extreme bid" else 0.8  # where all are honest it is 0.9
    assert len(notes.rounds) == ROUNDS and others >= share * K * ROUNDS
    assert seconds <= 1.1 * DEADLINE and not any(
        record.empty for record in notes.rounds[1:] if record.willing > FEWEST.get(aggregation, 1)
    )
