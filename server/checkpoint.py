"""Checkpoints: a file for each round with the state for the next, so killed runs can resume.

A row in the ledger commits a round. The checkpoint is written before it, atomically. So every committed round has a
checkpoint. A checkpoint without a row belongs to an incomplete round, which runs again. The two newest checkpoints are
kept.

A file has safetensors' format: ``model/…`` are the model's arrays, ``memory/…`` the strategy's state. The metadata has
version, run, round, the order of the arrays and a checksum.
"""

import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from aoi_fl.protocol.files import check_regular, discard
from aoi_fl.protocol.log import logger
from aoi_fl.protocol.records import State
from aoi_fl.science.errors import ResumeError
from aoi_fl.science.types import AnyArray, Arrays
from aoi_fl.server.folder import LEDGER, keep
from aoi_fl.server.ledger import DAMAGE

VERSION = "1"
_MODEL, _MEMORY = "model/", "memory/"


class Checkpoint(NamedTuple):
    """The state of a run after a round.

    Attributes
    ----------
    round : the last complete round
    model : the arrays after that round, by name, in the model's order; empty before round 1
    memory : the strategy's state
    """

    round: int
    model: Arrays
    memory: State


class Checkpoints:
    """The checkpoints of one run.

    Parameters
    ----------
    folder : folder of the files, in the run's folder; created at the first write
    begun : what the ledger calls this start of the run; a checkpoint of another is refused; "": any
    """

    def __init__(self, folder: Path, begun: str = "") -> None:
        self.folder, self._begun = folder, begun

    def path(self, round_: int) -> Path:
        """Return the file of a round."""
        return self.folder / f"model-{round_}.safetensors"

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint atomically.

        Raises
        ------
        StorageError : the file cannot be written; earlier checkpoints do not change.
        """
        tensors = {_MODEL + k: _native(v) for k, v in checkpoint.model.items()}
        tensors |= {_MEMORY + k: _native(v) for k, v in checkpoint.memory.items()}
        metadata = {
            "version": VERSION,
            "run": self.folder.parent.name,
            "round": str(checkpoint.round),
            "order": json.dumps(list(checkpoint.model)),
            "begun": self._begun,
            "checksum": _checksum(tensors),
        }
        keep(self.path(checkpoint.round), encode(tensors, metadata))

    def prune(self, *rounds: int) -> None:
        """Remove all files except the checkpoints of these rounds, and a folder without files."""
        kept = set(map(self.path, rounds))
        for path in self.folder.glob("*"):
            if path not in kept:
                discard(path)
        with suppress(OSError):
            self.folder.rmdir()

    def check_newest(self, committed: int) -> None:
        """Raise ResumeError if a file is newer than the ledger, whose last round is ``committed``.

        The first file after that round may belong to a round that was interrupted.
        """
        rounds = (path.stem.removeprefix("model-") for path in self.folder.glob("model-*.safetensors"))
        newest = max((int(round_) for round_ in rounds if round_.isdecimal()), default=0)
        if newest > committed + 1:
            raise ResumeError(
                f"{self.path(newest)} is newer than the ledger, which ends with round {committed}. Bring "
                f"{self.folder.parent / LEDGER} and {LEDGER}-wal back from a copy, or start a run of another run-name."
            )

    def load(self, round_: int) -> Checkpoint:
        """Read the checkpoint of a round.

        Raises
        ------
        ResumeError : the checkpoint is missing or damaged, or belongs to another run or round.
        """
        path = self.path(round_)
        try:
            check_regular(path)  # safetensors would wait for a pipe
            with safe_open(path, "numpy") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
            if about.get("version") != VERSION:
                raise ValueError(f"version {about.get('version')!r}, this program writes {VERSION!r}")
            if about["checksum"] != _checksum(tensors):
                raise ValueError("its checksum does not match")
            if (about["run"], about["round"]) != (self.folder.parent.name, str(round_)):
                raise ValueError(f"it was made after round {about['round']} of run {about['run']!r}")
            if self._begun and about.get("begun", "") not in ("", self._begun):
                raise ValueError("the ledger is of another run of this name")
            model = {name: tensors[_MODEL + name] for name in json.loads(about["order"])}
        except FileNotFoundError:
            raise ResumeError(f"there is no checkpoint {path}.") from None
        except (SafetensorError, OSError, *DAMAGE) as error:
            raise ResumeError(f"the checkpoint {path} cannot be used: {error}.") from error
        memory = {k.removeprefix(_MEMORY): v for k, v in tensors.items() if k.startswith(_MEMORY)}
        return Checkpoint(round_, model, memory)

    def last(self, committed: int) -> Checkpoint:
        """Return the newest usable checkpoint of a committed round; that of round 0 is empty.

        If the last round's checkpoint is damaged, the one before it is used, and the last round runs again.

        Raises
        ------
        ResumeError : neither checkpoint can be used, or there is one of a round that the ledger lacks.
        """
        self.check_newest(committed)
        if committed == 0:
            return Checkpoint(0, {}, {})
        reasons = []
        for round_ in range(committed, max(committed - 2, 0), -1):
            try:
                checkpoint = self.load(round_)
            except ResumeError as reason:
                reasons.append(str(reason))
                continue
            for reason_ in reasons:
                logger.warning("%s The run continues after round %d.", reason_, round_)
            return checkpoint
        raise ResumeError(
            f"round {committed} is complete in the ledger, but {' '.join(reasons)} Bring one of these files back from "
            "a copy, or start a new run with another run-name."
        )


def encode(tensors: Arrays, metadata: dict[str, str] | None = None) -> bytes:
    """Return arrays in safetensors' format, which requires C order."""
    return save({name: _native(array) for name, array in tensors.items()}, metadata)


def _native(array: AnyArray) -> AnyArray:
    """Return an array in C order and in the byte order that a reader will find."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def _checksum(tensors: Arrays) -> str:
    """Return a checksum that detects flipped bits in names, types, shapes and values."""
    value = 0
    for name in sorted(tensors):
        array = tensors[name]
        value = zlib.crc32(f"{name}{array.dtype.str}{array.shape}".encode(), value)
        value = zlib.crc32(array.tobytes(), value)
    return f"{value:08x}"
