"""Write, read and check arrays in NumPy's file format at the speed of memory.

Flower sends arrays in this format.

A round reads and writes a model's arrays many times. To parse their headers costs more than to copy their bytes, so
parsed headers are cached.
"""

import math
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np

from aoi_fl.science.types import AnyArray

_BLOCK = 1 << 16  # values in one check, which then fit the processor's cache


def dumps(array: AnyArray) -> bytes:
    """Return the bytes that ``numpy.save`` would write.

    Raises
    ------
    ValueError : the array holds Python objects.
    """
    if array.dtype.hasobject:
        raise ValueError("the array holds Python objects, which are not sent")
    values = array.T if _columns_first(array) else array
    return b"".join((head(array), values.tobytes()))


def head(array: AnyArray) -> bytes:
    """Return the bytes that ``numpy.save`` would write before an array's values."""
    return _head(array.dtype, array.shape, _columns_first(array))


def _columns_first(array: AnyArray) -> bool:
    return not array.flags.c_contiguous and array.flags.f_contiguous


def view(data: bytes) -> AnyArray:
    """Return a read-only array over bytes in NumPy's file format, without a copy.

    Raises
    ------
    ValueError : the bytes are no array of format 1.0, or hold Python objects. A forged header can raise other errors.
    """
    version = np.lib.format.read_magic(BytesIO(data[:8]))
    if version != (1, 0):  # later ones are for structures
        raise ValueError(f"NumPy format version {version}, a model's array has 1.0")
    start = 10 + int.from_bytes(data[8:10], "little")
    shape, columns_first, dtype = _parsed(data[8:start])
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    values = np.frombuffer(data, dtype, math.prod(shape), start)
    return values.reshape(shape, order="F" if columns_first else "C")


def silent_overflow() -> np.errstate:
    """Return a context for computations whose result is checked for values that are not finite."""
    return np.errstate(over="ignore", invalid="ignore")


def is_finite(values: AnyArray) -> bool:
    """Return whether an array has no NaN and no Inf.

    A sum is finite only if all its terms are, and NumPy computes it in one pass. If it overflows, and in half
    precision, which NumPy sums slowly, each value is checked.
    """
    if values.dtype.kind not in "fc":
        return True
    if values.itemsize > 2:
        with silent_overflow():
            if np.isfinite(np.add.reduce(values, axis=None)):
                return True
    flat = values.ravel(order="K")
    return all(np.isfinite(flat[start : start + _BLOCK]).all() for start in range(0, flat.size, _BLOCK))


def is_sound(values: AnyArray, before: AnyArray) -> bool:
    """Return whether all values are finite, or not finite but unchanged."""
    if is_finite(values):
        return True
    if values.shape != before.shape or before.dtype.kind not in "fc":
        return False
    strange = ~np.isfinite(values)
    return np.array_equal(values[strange], before[strange], equal_nan=True)


def change(values: AnyArray, before: AnyArray, dtype: np.dtype[Any] | None = None) -> AnyArray:
    """Return ``values - before``, with 0 where both are the same non-finite value.

    The result's type is ``dtype``, by default the type of floating values, else float64.
    """
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.dtype == before.dtype:
        more, up = values.astype(np.uint64) - before.astype(np.uint64), values >= before
        return np.asarray(np.where(up, more.astype(np.float64), -(np.uint64(0) - more).astype(np.float64)))
    dtype = dtype or (values.dtype if values.dtype.kind == "f" else np.dtype(np.float64))
    with silent_overflow():
        difference = np.asarray(np.subtract(values, before, dtype=dtype))
    if not is_finite(difference):
        alike = (values == before) | (np.isnan(values) & np.isnan(before))
        difference = np.where(~np.isfinite(before) & alike, difference.dtype.type(0), difference)
    return difference


@lru_cache(maxsize=64)
def _head(dtype: np.dtype[Any], shape: tuple[int, ...], columns_first: bool) -> bytes:
    file = BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": columns_first, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


@lru_cache(maxsize=64)
def _parsed(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(BytesIO(header))
    return shape, columns_first, dtype
