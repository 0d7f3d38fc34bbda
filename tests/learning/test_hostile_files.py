"""Data files that take more than they give: bombs, encryption, forged headers. Each is refused before it costs much."""

import io
import zipfile

import numpy as np
import pytest

from aoi_fl.lab.simulated_time.traces import read_trace
from aoi_fl.learning import npz
from aoi_fl.science.errors import ConfigError
from tests.processes import python

GOOD = {
    "train_x": np.zeros((4, 2, 2), np.uint8),
    "train_y": np.array([0, 1, 0, 1]),
    "test_x": np.zeros((2, 2, 2), np.uint8),
    "test_y": np.array([0, 1]),
}
HUGE = 2**27  # twice the size from which on it matters how far a file unpacks


def header(shape, descr="'|u1'", version=1, length=None):
    """Return the header of an array, forged where a length is given."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    size = (2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + (len(text) if length is None else length).to_bytes(*size) + text


def saved(path, method=zipfile.ZIP_DEFLATED, **members):
    """Write an npz file, some of whose members are given as bytes."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, array in GOOD.items():
            blob = io.BytesIO()
            np.save(blob, array)
            file.writestr(f"{name}.npy", members.get(name, blob.getvalue()))
    return path


def torn(path):
    blob = bytearray(saved(path, zipfile.ZIP_LZMA).read_bytes())
    at = blob.find(b"train_y.npy") + len("train_y.npy")
    blob[at + 4 : at + 24] = bytes(255 - b for b in blob[at + 4 : at + 24])
    path.write_bytes(blob)


FILES = {
    "torn": torn,
    "missing": lambda p: None,
    "half a file": lambda p: p.write_bytes(saved(p).read_bytes()[:-30]),
    "an array alone": lambda p: np.save(p.open("wb"), np.zeros(3)),
}
ARRAYS = {
    "a header of gigabytes": {"train_y": header("(4,)", version=2, length=2**32 - 1) + bytes(99)},
    "a shape of petabytes": {"train_x": header(f"({2**50}, 2, 2)") + bytes(99)},
    "a shape of nothing and all": {"train_x": header(f"({2**60}, 0)")},
    "a call in the header": {"train_x": header("__import__('os').abort()") + bytes(16)},
    "brackets without end": {"train_x": header("(" * 5000) + bytes(16)},
    "durations for labels": {"train_y": header("(4,)", "'<m8[D]'") + np.array([0, 1] * 2).tobytes()},
    "a type of records with objects": {"train_y": header("(4,)", "[('a', '|O')]") + bytes(99)},
    "no header at all": {"train_x": b""},
}


@pytest.mark.parametrize("what", [*FILES, *ARRAYS])
def test_a_forged_file_is_named_and_nothing_else(what, tmp_path):
    path = tmp_path / "own.npz"
    if what in FILES:
        FILES[what](path)
    else:
        saved(path, **ARRAYS[what])
    with pytest.raises(ConfigError, match=r"own\.npz"):
        npz.read(path)


METHODS = {"deflate": zipfile.ZIP_DEFLATED, "bzip2": zipfile.ZIP_BZIP2, "LZMA": zipfile.ZIP_LZMA}
MEASURED = """
import resource, sys
from pathlib import Path
from aoi_fl.learning import npz
from aoi_fl.lab.simulated_time import traces
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    npz.read(Path(sys.argv[1]))
except ValueError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


@pytest.mark.parametrize("method", [pytest.param(m, marks=[] if m == "deflate" else pytest.mark.slow) for m in METHODS])
def test_a_bomb_is_refused_before_memory_is_taken_for_it(method, tmp_path):
    path = saved(tmp_path / "own.npz", METHODS[method], train_x=header(f"({HUGE // 4}, 2, 2)") + bytes(HUGE))
    assert path.stat().st_size < 2e6
    kib, _, said = python("-c", MEASURED, path).stdout.partition(" ")
    assert "own.npz" in said and "unpack" in said and int(kib) < 60_000


def test_a_bomb_matters_only_in_an_array_that_is_read(tmp_path):
    path, trace = saved(tmp_path / "own.npz"), tmp_path / "trace.npz"
    with zipfile.ZipFile(trace, "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("offsets", "available", "training_seconds"):
            file.writestr(f"{name}.npy", header("(2,)") + bytes(2))
    for file, name in ((path, "notes"), (trace, "seconds")):
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}.npy", header(f"({HUGE},)") + bytes(HUGE))
    assert len(npz.read(path)[0]) == 4
    with pytest.raises(ConfigError, match="unpack"):
        read_trace(trace)


def test_many_zeros_and_every_packing_are_no_bomb(tmp_path):
    x = np.zeros((2000, 1000), np.float32)
    x[np.arange(2000), np.random.default_rng(1).integers(0, 1000, 2000)] = 1
    y = np.arange(2000) % 2
    np.savez_compressed(tmp_path / "own.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    assert npz.read(tmp_path / "own.npz")[0].sum() == 2000
    for method in (zipfile.ZIP_STORED, *METHODS.values()):
        assert npz.read(saved(tmp_path / "own.npz", method))[0].shape == (4, 1, 2, 2)
