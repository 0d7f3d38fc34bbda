"""Code updates in fewer bits, with error feedback.

A client sends the difference Δ_t between its new model and the received one, as a code Q of fewer bits:

    c_t = Q(Δ_t + e_{t−1}),    e_t = Δ_t + e_{t−1} − c_t,    e_0 = 0,

where t counts the client's participations. In sum, Σ c_t = Σ Δ_t − e_T: no part of an update is lost, only late, and
the residual e_T stays as small as one update's error. Without feedback every change below the code's resolution is
lost.

float16   half the bytes; relative error up to 2^−11 (below 2^−14: an error of up to 2^−25). Values beyond float16's
          range are clipped; the rest follows with later updates.
int8      a quarter of the bytes; v ≈ scale·q with q in −127 … 127 and scale = max |v|/127 for each array, error up to
          scale/2

Arrays of other types are sent unchanged. NumPy turns results without axes into scalars; ``np.asarray`` makes them
arrays again.

References
----------
F. Seide, H. Fu, J. Droppo, G. Li, D. Yu, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
Distributed Training of Speech DNNs", Interspeech 2014 (error feedback).
S. P. Karimireddy, Q. Rebjock, S. U. Stich, M. Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression
Schemes", ICML 2019, Algorithm 2 (EF-SGD, and why it converges).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoi_fl.protocol import npy
from aoi_fl.science.errors import check_choice
from aoi_fl.science.types import AnyArray, Arrays

NONE, FLOAT16, INT8 = "none", "float16", "int8"
KINDS = (NONE, FLOAT16, INT8)

_TYPES: dict[str, np.dtype[Any]] = {FLOAT16: np.dtype(np.float16), INT8: np.dtype(np.int8)}
_LARGEST_CODE = 127


@dataclass(frozen=True)
class Coded:
    """A coded update.

    Attributes
    ----------
    codes : arrays by the model's names, of the model's shapes and of :func:`code_type`
    scales : of int8, one for each floating array in the model's order; empty for float16
    residual : the coding error of each floating array; it stays on the client
    """

    codes: dict[str, AnyArray]
    scales: tuple[float, ...]
    residual: dict[str, AnyArray]


def checked(kind: str) -> str:
    """Return a valid kind of compression, or raise ConfigError with the list."""
    check_choice("compression", kind, KINDS)
    return kind


def is_coded(dtype: Any) -> bool:
    """Return whether arrays of a type are coded."""
    return bool(np.dtype(dtype).kind == "f")


def forms(arrays: Mapping[str, Any]) -> list[tuple[str, list[int], str]]:
    """Return names, shapes and kinds of types, which an update must share with the model."""
    return [(n, list(a.shape), "floating" if is_coded(a.dtype) else str(a.dtype)) for n, a in arrays.items()]


def code_type(kind: str, dtype: Any) -> np.dtype[Any]:
    """Return the type in which an array of a type is sent."""
    own: np.dtype[Any] = np.dtype(dtype)
    return _TYPES.get(kind, own) if is_coded(own) else own


def encode(values: AnyArray, kind: str) -> tuple[AnyArray, float]:
    """Return the code of finite values of any shape, and its scale (1 for float16).

    >>> codes, scale = encode(np.array([0.0, -2.54, 1.0]), "int8")
    >>> codes.tolist(), round(scale, 3)
    ([0, -127, 50], 0.02)
    """
    if kind == FLOAT16:
        largest = float(np.finfo(np.float16).max)
        return np.asarray(np.clip(values, -largest, largest), np.float16), 1.0
    scale = values.dtype.type(np.abs(values).max(initial=0.0) / _LARGEST_CODE)
    codes = np.rint(values / (scale or 1))  # a scale of 0 is of values that are 0, or too small for a scale
    return np.asarray(np.clip(codes, -_LARGEST_CODE, _LARGEST_CODE), np.int8), float(scale)


def decode(codes: AnyArray, scale: float, dtype: Any) -> AnyArray:
    """Return the values of a code in a floating type; a scale out of its range gives Inf or NaN.

    >>> decode(np.array([-127, 0, 50], np.int8), 0.02, "f8").round(2).tolist()
    [-2.54, 0.0, 1.0]
    """
    with npy.silent_overflow():
        return np.asarray(np.multiply(codes, np.asarray(scale).astype(dtype), dtype=dtype))


def compress(model: Arrays, trained: Arrays, residual: Arrays | None, kind: str) -> Coded | None:
    """Code the change by training, plus the residual of the last update.

    Parameters
    ----------
    model, trained : arrays before and after training, of equal names and shapes; floating types may differ, and the
        code is for a difference in the model's type
    residual : the last :attr:`Coded.residual`; None, or a residual of another shape or type, counts as 0
    kind : float16 or int8

    Returns
    -------
    Coded, or None if the difference is not finite.
    """
    codes: dict[str, AnyArray] = {}
    scales: list[float] = []
    left: dict[str, AnyArray] = {}
    for name, new in trained.items():
        if not is_coded(model[name].dtype):
            codes[name] = new
            continue
        dtype = _working_type(model[name].dtype)
        with npy.silent_overflow():
            wanted = npy.change(new, model[name], dtype)
            before = (residual or {}).get(name)
            if before is not None and (before.shape, before.dtype) == (wanted.shape, wanted.dtype):
                wanted = np.asarray(wanted + before)
        if not npy.is_finite(wanted):
            return None
        codes[name], scale = encode(wanted, kind)
        left[name] = np.asarray(wanted - decode(codes[name], scale, dtype))
        scales.append(scale)
    return Coded(codes, tuple(scales) if kind == INT8 else (), left)


def expand(model: Arrays, codes: Arrays, scales: Sequence[float]) -> Arrays:
    """Return the arrays of a code: model + difference, in the model's types.

    Parameters
    ----------
    model : the base of the difference
    codes, scales : as in :class:`Coded`
    """
    remaining = iter(scales)
    arrays = {}
    for name, code in codes.items():
        base = model[name]
        if is_coded(base.dtype):
            dtype = _working_type(base.dtype)
            with npy.silent_overflow():
                code = np.asarray(np.add(base, decode(code, next(remaining, 1.0), dtype), dtype=dtype), base.dtype)
        arrays[name] = code
    return arrays


def _working_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of computations: float32, or the array's own type if wider."""
    return np.promote_types(dtype, np.float32)
