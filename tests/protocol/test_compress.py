"""Codes are as exact as they say, and what they leave unsaid is said later."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from aoi_fl.protocol.coding import FLOAT16, INT8, code_type, compress, decode, encode, expand

CODES = [FLOAT16, INT8]
EPSILON = {np.float32: 2.0**-24, np.float64: 2.0**-53}
finite = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: arrays(
        dtype,
        array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
        elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=True),
    )
)


@given(finite, st.sampled_from(CODES))
def test_a_code_is_as_exact_as_it_says(values, kind):
    codes, scale = encode(values, kind)
    back = decode(codes, scale, values.dtype)
    assert (codes.dtype, codes.shape) == (code_type(kind, values.dtype), values.shape)
    assert (back.dtype, back.shape) == (values.dtype, values.shape)
    if kind == FLOAT16:
        cut = np.clip(values, -65504, 65504)
        assert scale == 1 and (np.abs(back - cut) <= np.maximum(np.abs(cut) * 2.0**-11, 2.0**-25)).all()
        return
    largest = float(np.abs(values).max(initial=0.0))
    tiny = 127 * float(np.finfo(values.dtype).smallest_subnormal)
    assert scale == pytest.approx(largest / 127, rel=1e-6, abs=tiny) and codes.min(initial=0) >= -127
    rounding = 4 * EPSILON[values.dtype.type] * largest
    assert (np.abs(back.astype(float) - values) <= scale / 2 + rounding + tiny).all()


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2,)], ids=str)
@pytest.mark.parametrize(("before", "after"), [("f8", "f4"), ("f4", "f8"), ("f2", "f8"), ("i8", "i8"), ("?", "?")])
def test_an_update_of_any_type_and_shape_comes_back_in_the_models(kind, shape, before, after):
    model, trained = {"w": np.zeros(shape, before)}, {"w": np.ones(shape, after)}
    residual = None
    for _ in range(3):
        coded = compress(model, trained, residual, kind)
        residual, back = coded.residual, expand(model, coded.codes, coded.scales)
        found = [coded.codes["w"], back["w"], *residual.values()]
        assert all(isinstance(array, np.ndarray) and array.shape == shape for array in found)
        assert coded.codes["w"].dtype == code_type(kind, before) and back["w"].dtype == before
        assert [array.dtype for array in residual.values()] == [np.promote_types(before, "f4")] * (before[0] == "f")
        assert len(coded.scales) == (kind == INT8 and before[0] == "f")
        np.testing.assert_allclose(back["w"].astype("f8"), 1, rtol=1e-3)


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_code(kind, bad):
    model = {"w": np.zeros(3, np.float32)}
    assert compress(model, {"w": np.array([0, bad, 1], np.float32)}, None, kind) is None
    huge = np.full(3, 3e38, np.float32)
    assert compress({"w": -huge}, {"w": huge}, None, kind) is None


@pytest.mark.parametrize("kind", CODES)
def test_a_residual_that_does_not_fit_counts_as_none(kind):
    model = {"w": np.zeros(3, np.float32)}
    trained = {"w": np.array([0.1, 0.2, 0.35], np.float32)}
    plain = compress(model, trained, None, kind)
    for other in ({}, {"w": np.ones(4, np.float32)}, {"w": np.ones(3)}, {"v": np.ones(3, np.float32)}):
        assert compress(model, trained, other, kind).codes["w"].tobytes() == plain.codes["w"].tobytes()
