"""How many examples each client holds."""

import numpy as np

from aoi_fl.science import draws
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.types import Ints

EQUAL_SIZE = 600  # MNIST's 60,000 images over 100 clients
LARGEST_SIZE = 10**9  # cuts the Zipf tail, so that sums over clients stay far from the end of int64


def make_sizes(spec: str, clients: int, seed: int, total: int | None = None) -> Ints:
    """Draw the (n,) int64 sizes d_i ≥ 1 of n clients' data sets.

    Parameters
    ----------
    spec : ``equal`` (600 each), ``zipf:A`` (P(d) ∝ d^−A, A > 1) or ``uniform:LO:HI`` (integers LO … HI, both included)
    clients : n ≥ 1
    seed : the run's; sizes are drawn once a run
    total : if given, the sum of the sizes, each client keeping at least one

    Raises ConfigError if the specification cannot be read, or ``total`` is smaller than n.

    >>> make_sizes("equal", 3, seed=1, total=10).tolist()
    [4, 3, 3]
    """
    rng = draws.generator(seed, 0, "sizes")
    try:
        match spec.split(":"):
            case ["equal"]:
                sizes = np.full(clients, EQUAL_SIZE, dtype=np.int64)
            case ["zipf", exponent] if 1 < float(exponent) < np.inf:
                sizes = np.minimum(rng.zipf(float(exponent), clients), LARGEST_SIZE).astype(np.int64)
            case ["uniform", low, high] if 1 <= int(low) <= int(high) <= LARGEST_SIZE:
                sizes = rng.integers(int(low), int(high), size=clients, endpoint=True)
            case _:
                raise ValueError(spec)
    except ValueError as error:
        allowed = f"equal, zipf:A with A above 1, or uniform:LO:HI with whole numbers from 1 to {LARGEST_SIZE}"
        raise ConfigError("sizes", spec, allowed, "Write for instance zipf:2.0 or uniform:100:1000.") from error
    return sizes if total is None else scaled(sizes, total)


def scaled(sizes: Ints, total: int) -> Ints:
    """Return sizes in the same proportions that add up to ``total``; each client keeps at least one example.

    One example goes to each client, the rest is shared out in proportion, by largest remainder.
    """
    spare = total - len(sizes)
    if spare < 0:
        raise ConfigError(
            "examples", total, f"at least {len(sizes)}, one a client", "Use fewer clients or a larger data set."
        )
    quota = spare * (sizes / sizes.sum())
    shares: Ints = np.floor(quota).astype(np.int64)
    left = spare - int(shares.sum())
    shares[np.argsort(shares - quota, kind="stable")[:left]] += 1
    shares += 1
    return shares
