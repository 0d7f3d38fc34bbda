"""Replace a client's new model by the coded difference, with error feedback.

The residual, which is the coding error, is durable state of the client: one file for each of its last participations,
beside its state file. A round that is repeated after a crash starts from the same residual and gives the same reply.
The file is written before the age is reset. So after a kill -9 the round is either complete or has not happened. A
client without the file starts from zero.
"""

import io
import logging
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from flwr.app import Array, ArrayRecord, Message
from numpy.typing import NDArray

from aoi_fl.client.state import keep, kept
from aoi_fl.protocol import ParticipationReply, ParticipationRequest, coding, npy
from aoi_fl.protocol.arrays import model_key, to_record
from aoi_fl.science.age import ClientAge

logger = logging.getLogger("flwr")


class Residuals:
    """A client's coding residuals in one run.

    Parameters
    ----------
    folder : the folder of the client's state
    name : the client's name
    clock : its participations before the present round
    """

    def __init__(self, folder: Path, name: str, clock: ClientAge) -> None:
        self.folder = folder / f"{name}.residuals"
        self._clock = clock

    def before(self, round_: int) -> dict[str, NDArray[Any]] | None:
        """Return the residual of the last participation before a round, by array names, or None."""
        past = [at for at in (self._clock.last, self._clock.before) if at is not None and at < round_]
        path = self._path(past[0]) if past else None
        place = None if path is None else kept(self.folder).get(path)
        if path is None or place is None:
            return None
        try:
            with zipfile.ZipFile(place) as file:  # it verifies checksums
                return {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in file.namelist()}
        except Exception as error:  # a flipped bit causes many types of errors
            logger.warning("The residual of the compression in %s cannot be read (%s). It counts as 0.", path, error)
            return None

    def save(self, round_: int, residual: Mapping[str, NDArray[Any]]) -> None:
        """Save a round's residual and keep the residuals of the two participations before it.

        A round before the last participation is ignored.
        """
        if round_ < self._clock.last:
            return
        blob = io.BytesIO()
        with zipfile.ZipFile(blob, "w") as file:
            for name, array in residual.items():
                file.writestr(zipfile.ZipInfo(name), npy.dumps(array))
        past = {self._path(at) for at in (self._clock.last, self._clock.before) if at is not None}
        for path, place in kept(self.folder).items():
            if place == path and path not in past:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        keep(self._path(round_), blob.getvalue())

    def _path(self, round_: int) -> Path:
        return self.folder / f"{round_}.npz"


@dataclass(frozen=True)
class Sent:
    """The model in a received message, independent of later changes to the message.

    Attributes
    ----------
    key : the model's key in the message; None if the message has several array records of other names
    arrays : the model's arrays by name
    """

    key: str | None
    arrays: Mapping[str, Array]

    @classmethod
    def with_(cls, message: Message) -> Self:
        """Return the model of a message."""
        key = model_key(message.content)
        return cls(key, {} if key is None else dict(cast(ArrayRecord, message.content[key])))


def compress_update(
    reply: Message, sent: Sent, ask: ParticipationRequest, residuals: Residuals, answer: ParticipationReply
) -> ParticipationReply:
    """Replace the new model in a reply by the coded difference; return the answer with its code.

    The new model is the array record under the sent model's key, or the only one. A reply stays uncoded if it has no
    arrays, other arrays than the model, or values that are not finite. The server then checks it.
    """
    kind = coding.checked(ask.compression or coding.NONE)
    if kind == coding.NONE or sent.key is None or (key := model_key(reply.content, sent.key)) is None:
        return answer
    record = dict(cast(ArrayRecord, reply.content[key]))
    if _forms(record) != _forms(sent.arrays):
        return answer
    before, trained = ({name: array.numpy() for name, array in arrays.items()} for arrays in (sent.arrays, record))
    coded = coding.compress(before, trained, residuals.before(ask.round), kind)
    if coded is None:
        return answer
    residuals.save(ask.round, coded.residual)
    reply.content[key] = to_record(coded.codes)
    return replace(answer, compression=kind, scales=coded.scales)


def _forms(arrays: Mapping[str, Array]) -> list[tuple[str, list[int], str]]:
    """Return names, shapes and kinds of types, which an update must share with the model."""
    return [(n, list(a.shape), "floating" if coding.is_coded(a.dtype) else a.dtype) for n, a in arrays.items()]
