"""The cost of our running mean against ``numpy.add``, and of Flower's aggregation."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from aoi_fl.lab.benchmarks.base import Row, Times, alternate, in_a_process, peak_memory, ratio_row
from aoi_fl.lab.benchmarks.echo import ADD
from aoi_fl.lab.benchmarks.engines import OPTIONS, PARAMETERS, local_grid, model
from aoi_fl.lab.benchmarks.fleet.models import record
from aoi_fl.protocol.packing import pack, unpack
from aoi_fl.strategies import RandomSelection
from aoi_fl.strategies.aggregation.mean import RunningMean
from aoi_fl.strategies.validation import read_update

CLIENTS, ROUNDS, REPEATS = 15, 3, 5
SUMS = 25  # repeats of calls that take milliseconds


def memory_speed():
    """Check and sum updates as the strategies do, against NumPy's addition of as many values."""
    began = model(PARAMETERS)
    rng = np.random.default_rng(1)
    replies = []
    for _ in range(CLIENTS):
        arrays = {name: Array(rng.standard_normal(array.shape, np.float32)) for name, array in began.items()}
        content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})})
        replies.append(Message(content, reply_to=Message(RecordDict(), 1, "train")))
    updates = [rng.standard_normal(PARAMETERS, np.float32) for _ in range(CLIENTS)]

    def check_and_sum():
        mean = RunningMean(began)
        for reply in replies:
            mean.add(read_update(reply, began, "num-examples").arrays, 1 / CLIENTS)

    def add():
        total = np.zeros(PARAMETERS)
        for update in updates:
            np.add(total, update, out=total)

    return ratio_row(
        f"check and float64 sum of {CLIENTS} weighted updates of 1.6 M float32 parameters",
        "`numpy.add` of as many float32 values to float64 sums, no more",
        2,
        *alternate(check_and_sum, add, repeats=SUMS),
    )


def packing():
    """Pack and unpack a ResNet-18, against one copy of as many bytes."""
    content = RecordDict({"arrays": record("resnet18")})
    whole = b"".join(array.data for array in content["arrays"].values())
    return ratio_row(
        f"packing and unpacking a ResNet-18, 122 arrays, {len(whole) / 1e6:.0f} MB",
        "one copy of as many bytes",
        3,
        *alternate(lambda: unpack(pack(content)), lambda: bytearray(whole), repeats=SUMS),
    )


def play(by_flower):
    """Run rounds in which every client returns its own arrays."""
    with local_grid(CLIENTS) as grid:
        strategy = RandomSelection(
            CLIENTS,
            aggregation=FedAvg() if by_flower else None,
            options=OPTIONS,
            configure=lambda round_: {ADD: float(round_)},
        )
        strategy.start(grid, model(PARAMETERS), ROUNDS)


def held(by_flower):
    """Return this process's peak memory, in MiB, after the rounds."""
    play(by_flower)
    return peak_memory()


def run(data):
    """Measure the sum, both aggregations in turns, and each one's memory in a separate process."""
    yield memory_speed()
    yield packing()
    theirs, ours = alternate(lambda: play(True), lambda: play(False), repeats=REPEATS)
    a_round = [Times([s / ROUNDS for s in t.wall], [s / ROUNDS for s in t.cpu]) for t in (theirs, ours)]
    yield ratio_row(
        f"a round of {CLIENTS} clients × 1.6 M parameters, aggregated by Flower's FedAvg, local engine",
        "the same with our running mean",
        None,
        *a_round,
    )
    flower, own = (in_a_process(held, by_flower) for by_flower in (True, False))
    yield Row(
        "the same, the most memory that the process held",
        f"with our running mean, {own:.0f} MiB",
        None,
        flower,
        "MiB",
    )
