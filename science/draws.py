"""Randomness as a function: every draw follows from (seed, round, purpose) and the client's number.

The key of a Philox generator (Salmon, Moraes, Dror & Shaw 2011) is a digest of seed, round and purpose; the client is
its counter. So a round is one vectorised draw, a client can draw alone, and a repeated question gets the same answer.
"""

import hashlib
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from aoi_fl.science.types import Floats

_LANES = 4  # Philox yields four 64-bit words for each step of its counter
_BLOCK = 256  # numbers drawn when one is asked for; a multiple of the lanes


class _Key(ISeedSequence):
    """A key of Philox as NumPy's seed: the same bits as ``Philox(key=…)``, without reading entropy."""

    def __init__(self, digest: bytes) -> None:
        self._words = np.frombuffer(digest, dtype="<u8")

    def generate_state(self, n_words: int, dtype: object = np.uint64) -> NDArray[np.uint64]:
        """Return the two words of the key."""
        return self._words


def _philox(seed: int, round_: int, purpose: str) -> np.random.Philox:
    digest = hashlib.blake2b(f"{seed}/{round_}/{purpose}".encode(), digest_size=16).digest()
    return np.random.Philox(cast(np.random.SeedSequence, _Key(digest)))


def generator(seed: int, round_: int, purpose: str) -> np.random.Generator:
    """Return a NumPy generator for draws that belong to the round as a whole."""
    return np.random.Generator(_philox(seed, round_, purpose))


def uniforms(seed: int, round_: int, purpose: str, clients: int) -> Floats:
    """Draw one uniform number in [0, 1) for each of clients 0 … clients-1.

    >>> bool(uniforms(7, 3, "participate", 10)[4] == uniform(7, 3, "participate", 4))
    True
    """
    return generator(seed, round_, purpose).random(clients)


def uniform(seed: int, round_: int, purpose: str, client: int) -> float:
    """Draw the number that :func:`uniforms` has at position ``client`` (any integer ≥ 0), on its own."""
    return float(_block(seed, round_, purpose, client // _BLOCK)[client % _BLOCK])


@lru_cache(maxsize=16)
def _block(seed: int, round_: int, purpose: str, block: int) -> Floats:
    """Draw for a block of clients at once, as most of the cost is in the generator's start."""
    bits = _philox(seed, round_, purpose)
    bits.advance(block * _BLOCK // _LANES)
    return np.random.Generator(bits).random(_BLOCK)


def number_of(name: str) -> int:
    """Return the counter of a client with a name and no number: 63 bits of the name's digest."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") >> 1
