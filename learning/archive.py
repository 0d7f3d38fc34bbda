"""Read arrays from untrusted npz files; each size is checked before memory is allocated."""

import math
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from aoi_fl.science.types import AnyArray

_HEADER = 10_000  # bytes of an array's header, at most
_LARGE = 2**26  # unpacked bytes from which the ratio is checked
_RATIO = 400  # largest ratio of unpacked to packed bytes; deflate allows about a thousand


class Unreadable(Exception):
    """The file, or its array ``name``, cannot be read; the message has the reason."""

    def __init__(self, why: object, name: str = "") -> None:
        super().__init__(str(why))
        self.name = name


def read(path: Path, wanted: Sequence[str]) -> tuple[dict[str, AnyArray], set[str]]:
    """Return the wanted arrays that a file has, and the names of all its arrays.

    Raises
    ------
    Unreadable : the file cannot be opened, has another format, or an array is damaged, encrypted, of Python objects, or
        unpacks to far more bytes than the file has.
    """
    name = ""
    try:
        with zipfile.ZipFile(path) as file:
            members = {member.filename.removesuffix(".npy"): member for member in file.infolist()}
            chosen = {name: members[name] for name in wanted if name in members}
            unpacked, packed = sum(member.file_size for member in chosen.values()), path.stat().st_size
            if unpacked > max(_LARGE, _RATIO * packed):
                raise Unreadable(f"its {packed:,} bytes unpack to {unpacked:,}, more than {_RATIO} times as many")
            for name in chosen:
                _check_header(file, chosen[name])
            arrays = {}
            for name in chosen:
                with file.open(chosen[name]) as content:
                    arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
            return arrays, set(members)
    except Exception as error:  # a forged file raises errors of zlib, lzma, zipfile, tokenize, …
        raise Unreadable(error, name) from error


def _check_header(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Check that an array's header is valid and matches the number of bytes."""
    with file.open(member) as content:
        begin = BytesIO(content.read(_HEADER + 12))  # a header that goes on cannot be read
    version = np.lib.format.read_magic(begin)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(begin)
    if dtype.hasobject:
        raise Unreadable("it holds Python objects, not numbers")
    if begin.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
        raise Unreadable(f"its header has shape {shape} of {dtype}, which does not match its number of bytes")
