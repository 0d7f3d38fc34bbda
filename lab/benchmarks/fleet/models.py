"""Models of a fleet by name, with real names and shapes and random values."""

from collections.abc import Callable, Iterator, Mapping
from math import prod

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from aoi_fl.protocol.arrays import to_record

_HALF = 612_500  # float32 parameters: 2.45 MB


def record(name: str) -> ArrayRecord:
    """Return the model of this name."""
    rng = np.random.default_rng(1)

    def values(shape: tuple[int, ...]) -> NDArray[np.generic]:
        return rng.standard_normal(shape).astype(np.float32) if shape else np.array(0)

    return to_record({key: values(shape) for key, shape in MODELS[name]().items()})


def resnet18() -> dict[str, tuple[int, ...]]:
    """Return the shapes of torchvision's ResNet-18: 122 arrays, 45 MB (He et al., 2016)."""
    return dict(_resnet18())


def _resnet18() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _norm("bn1", 64)
    before = 64
    for layer, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            at = f"layer{layer}.{block}"
            yield f"{at}.conv1.weight", (width, before, 3, 3)
            yield from _norm(f"{at}.bn1", width)
            yield f"{at}.conv2.weight", (width, width, 3, 3)
            yield from _norm(f"{at}.bn2", width)
            if before != width:
                yield f"{at}.downsample.0.weight", (width, before, 1, 1)
                yield from _norm(f"{at}.downsample.1", width)
            before = width
    yield "fc.weight", (1000, 512)
    yield "fc.bias", (1000,)


def _norm(at: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name in ("weight", "bias", "running_mean", "running_var"):
        yield f"{at}.{name}", (width,)
    yield f"{at}.num_batches_tracked", ()


def _narrow() -> dict[str, tuple[int, ...]]:
    """Return a narrow ResNet-18: as many arrays in the same proportions, with 4.9 MB in all."""
    shapes = resnet18()
    share = 2 * _HALF / sum(map(prod, shapes.values()))
    return {name: (max(1, round(share * prod(shape))),) if shape else () for name, shape in shapes.items()}


MODELS: Mapping[str, Callable[[], dict[str, tuple[int, ...]]]] = {
    "handback": lambda: {"body": (9_900,), "head": (100,)},
    "digits": lambda: {
        "0.weight": (200, 64),
        "0.bias": (200,),
        "1.weight": (200, 200),
        "1.bias": (200,),
        "2.weight": (10, 200),
        "2.bias": (10,),
    },
    "resnet18": resnet18,
    "narrow": _narrow,
    "halves": lambda: {"one": (_HALF,), "other": (_HALF,)},
}
