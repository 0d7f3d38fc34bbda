"""What a private run costs: clipping, noise of six bands, and the account, beside the same rounds without them."""

from collections.abc import Iterator
from pathlib import Path

from aoi_fl.learning import data as datasets
from aoi_fl.science.errors import AoiError
from aoi_fl.server.config import RunConfig
from benchmarks.base import Row, Skipped, Times, ratio_row
from benchmarks.training import federation

KEYS = {
    "dataset": "mnist", "model": "cnn", "policy": "systematic", "wire": "reserve", "num-clients": 100,
    "clients-per-round": 15, "local-epochs": 1, "num-server-rounds": 4, "run-name": "bench", "threads": 1,
}  # fmt: skip


def run(data: Path) -> Iterator[Row]:
    """Measure rounds with training, private and not, in turns in one process."""
    try:
        datasets.load("mnist", data, download=False)
    except AoiError as error:
        raise Skipped(f"MNIST-CNN: {error}") from error
    plain, private = Times([], []), Times([], [])
    for _ in range(2):
        for times, more in ((plain, {}), (private, {"privacy": "banded", "bands": 6, "delta": 1e-3})):
            config = RunConfig.parse({**KEYS, **more, "data-dir": str(data.absolute())})
            with federation(config) as (play, _, _):
                found = play().times
            times.wall.extend(found.wall[1:])
            times.cpu.extend(found.cpu[1:])
    yield ratio_row(
        "a private round, six bands, MNIST-CNN of 1.7 M parameters, 15 clients of 600 images, one pass, local engine",
        "the same without privacy", 1.10, private, plain,
    )  # fmt: skip
