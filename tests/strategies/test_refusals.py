"""Options, strategies and run keys that cannot be, or do not go together, are refused before a run, by their key."""

import math
from functools import partial
from unittest.mock import ANY

import pytest
from flwr.serverapp import strategy as flower

from aoi_fl.config.run import RunConfig
from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.strategies import (
    BudgetedRefresh,
    F3astSelection,
    MarkovParticipation,
    OldestAge,
    RandomSelection,
    RoundOptions,
    SystematicParticipation,
)
from tests.refusals import refused

N, K, NAN = 10, 3, math.nan
drawn = partial(RandomSelection, 2)
systematic = partial(SystematicParticipation, N, K)
paid = partial(BudgetedRefresh, BudgetedSelector(40.0), 4)
LATE = RoundOptions(late_rounds=2)
WICS = {"policy": "wics", "trains": "all"}
STALE = WICS | {"mislabel-rate": 0.05, "staleness-rates": "own", "budget": 30.0, "local-steps": 2}
RATES = {
    "sum of": [[0.5] * N, {f"client-{i}": 0.4 for i in range(N)}],
    "rate of client 0": [[first, *[0.3] * (N - 1)] for first in (1.2, NAN, None)],
    "rates": [[0.3] * (N - 1), "sise"],
}
# What is made, the key that is named, and arguments by name; the value follows where it is named.
ARGUMENTS = [
    (partial(MarkovParticipation.optimal, 5, 2), "compensate", [{"compensate": "guessed"}], "guessed"),
    (systematic, "compensate", [{"compensate": "dropout"}], "dropout"),
    (
        partial(systematic, compensate="availability"),
        "compensate",
        [{"jitter": 0.2}, {"phases": "random"}],
        "availability",
    ),
    *[
        (drawn, key, [{key: value}])
        for key, value in {
            "fraction_train": 0.5,
            "fraction_evaluate": 1.5,
            "arrayrecord_key": "aoi",
            "weights": "heavy",
        }.items()
    ],
    (drawn, "aggregation", [{"aggregation": OldestAge(1)}, {"aggregation": object()}]),
    (partial(drawn, aggregation=flower.FedAvg()), "weights", [{"weights": "unbiased"}]),
    (partial(drawn, aggregation=flower.FedAvg()), "arrayrecord_key", [{"arrayrecord_key": "w"}]),
    (partial(drawn, aggregation=flower.FedAdam()), "metrics_aggr_fn", [{"train_metrics_aggr_fn": print}]),
    (
        partial(drawn, options=LATE),
        "late-rounds",
        [{"aggregation": flower.FedAvg()}, {"weights": "unbiased"}],
        2,
    ),
    (partial(RandomSelection, 4, options=RoundOptions(enough=2)), "enough", [{"weights": "unbiased"}], 2),
    (paid, "index-source", [{"source": "oracle"}], "oracle"),
    (paid, "trains", [{"trains": "some"}], "some"),
    (paid, "weights", [{"weights": "unbiased"}], "unbiased"),
    (partial(BudgetedRefresh, BudgetedSelector(40.0, "random"), 4), "index-source", [{"source": "bid"}], "bid"),
    (paid, "late-rounds", [{"options": LATE}], 2),
    (
        partial(paid, sensitivities="estimated"),
        "sensitivities",
        [{"source": "bid", "trains": "all"}, {}],
        "estimated",
    ),
    (paid, "sensitivities", [{"sensitivities": "guessed"}], "guessed"),
    (
        partial(BudgetedRefresh, BudgetedSelector(40.0, ageing="root"), 3),
        "ageing",
        [{"source": "bid"}, {"sensitivities": "estimated", "trains": "all"}],
        "root",
    ),
    (RoundOptions, "compression", [{"compression": "zip"}], "zip"),
    *[
        (RoundOptions, key, [{key: value}])
        for key, value in {
            "join_timeout": 0.0,
            "until": NAN,
            "train_timeout": "soon",
            "ask_timeout": True,
            "buffer": True,
            "seed": 1.5,
        }.items()
    ],
    (RoundOptions, "serve_average", [{"serve_average": -0.1}, {"serve_average": 1.0}]),
    (partial(systematic, rates="size"), "jitter", [{"jitter": 1.5}]),
    (partial(systematic, rates="size"), "phases", [{"phases": "full"}]),
    (systematic, "coordination", [{"coordination": "pigeon"}]),
    *[
        (make, key, [{"rates": rates} for rates in wrong])
        for make in (systematic, partial(MarkovParticipation.optimal, N, K))
        for key, wrong in RATES.items()
    ],
]
# Run keys, and of which one is named, with its value.
KEYS = [
    ({"policy": "random", "compensate": "availability"}, "compensate", "availability"),
    ({"policy": "random", "server-momentum": 0.5, "late-rounds": 2}, "late-rounds", 2),
    ({"policy": "wics", "sensitivities": "estimated"}, "sensitivities", "estimated"),
    (WICS | {"ageing": "quadratic", "index-source": "bid"}, "ageing", "quadratic"),
    (STALE | {"sensitivities": "bound", "local-steps": 0}, "sensitivities", "bound"),
    ({"policy": "wics", "sensitivities": "staleness", "local-steps": 5}, "sensitivities", "staleness"),
]


@pytest.mark.parametrize(
    ("make", "key", "value"),
    [
        pytest.param(partial(make, **how), key, *value or [ANY], id=f"{i}-{key}")
        for i, (make, key, wrong, *value) in enumerate(ARGUMENTS)
        for how in wrong
    ],
)
def test_an_argument_that_cannot_be_is_refused_by_name(make, key, value):
    with refused(key, value):
        make()


@pytest.mark.parametrize(("keys", "key", "value"), KEYS, ids=str)
def test_run_keys_that_cannot_be_are_refused_by_name(keys, key, value):
    with refused(key, value):
        RunConfig.parse(keys)


def test_what_is_near_a_refusal_is_allowed():
    assert F3astSelection(4, options=RoundOptions(enough=2)).weights == "unbiased"  # by rates that it learns
    RunConfig.parse({"policy": "f3ast", "weights": "size", "server-momentum": 0.5})
