"""The cost of clipping, noise of six bands and the account, as a share of a private round."""

from contextlib import ExitStack
from unittest.mock import patch

from aoi_fl.config.run import RunConfig
from aoi_fl.lab.benchmarks.base import Row, Times, need, timed
from aoi_fl.lab.benchmarks.training import federation
from aoi_fl.strategies.aggregation.private import ByPrivateMean

KEYS = {
    "dataset": "mnist",
    "model": "cnn",
    "policy": "systematic",
    "coordination": "reserve",
    "num-clients": 100,
    "clients-per-round": 15,
    "local-epochs": 1,
    "num-server-rounds": 4,
    "run-name": "bench",
    "privacy": "banded",
    "bands": 6,
    "delta": 1e-3,
    "noise-multiplier": 1e-4,  # so little that training goes on
}
_MECHANISM = ((ByPrivateMean, "begin"), (ByPrivateMean, "add"), (ByPrivateMean, "finish"), (ByPrivateMean, "over"))


def run(data):
    """Measure private rounds with training, and the calls of the mechanism in them."""
    need(data, "mnist")
    config = RunConfig.parse({**KEYS, "data-dir": str(data.absolute())})
    spent = Times()
    with federation(config) as (play, _, _), ExitStack() as stack:
        for kind, name in _MECHANISM:
            stack.enter_context(patch.object(kind, name, timed(getattr(kind, name), spent)))
        rounds = play()[0].times
    share = sum(spent.cpu) / sum(rounds.cpu)
    yield Row(
        "clipping, noise of six bands and account in private rounds of the MNIST-CNN of 1.7 M parameters, 15 clients "
        "of 600 images, one pass, local engine",
        "process time of the same rounds",
        0.1,
        share,
        details={"process-ratio": round(share, 4)},
    )
