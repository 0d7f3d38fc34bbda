"""What a client sends in place of its new model where that is asked for: the coded difference, with error feedback.

What a code leaves unsaid is the client's own, durable state: one file for each of the last rounds that it took part
in, beside its state file. A round repeated after a crash finds what the round before it left, and so gets the same
answer; the file is written before the age is reset, so whichever of the two a kill -9 prevents, the round is either
over or has not been. A client without the file starts from zero.
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

from aoi_fl.client.state import checked_name, keep, kept
from aoi_fl.protocol import ParticipationReply, ParticipationRequest, coding, npy
from aoi_fl.protocol.arrays import model_key, to_record
from aoi_fl.science.age import ClientAge

logger = logging.getLogger("flwr")


class Residuals:
    """What a client's codes have left unsaid in one run.

    Parameters
    ----------
    folder : the folder of the client's state
    name : the client's name
    clock : when it took part, before the round at hand is counted
    """

    def __init__(self, folder: Path, name: str, clock: ClientAge) -> None:
        self.folder = folder / f"{checked_name('client name', name)}.residuals"
        self._clock = clock

    def before(self, round_: int) -> dict[str, NDArray[Any]] | None:
        """Return what the last participation before a round left, by array names; None if that is not known."""
        past = [at for at in (self._clock.last, self._clock.before) if at is not None and at < round_]
        path = self._path(past[0]) if past else None
        place = None if path is None else kept(self.folder).get(path)
        if path is None or place is None:
            return None
        try:
            with zipfile.ZipFile(place) as file:  # which checks the sums of what it reads
                return {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in file.namelist()}
        except Exception as error:  # a flipped bit ends in many kinds of errors
            logger.warning("The remainder of the compression in %s cannot be read (%s). It counts as 0.", path, error)
            return None

    def save(self, round_: int, residual: Mapping[str, NDArray[Any]]) -> None:
        """Keep what a round left, with that of the two participations before; a round long past changes nothing."""
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
    """The model that a message brought, out of reach of what is done to the message.

    Attributes
    ----------
    key : the model's in the message; None where there is no telling which of its array records is the model
    arrays : the model's, by name
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
    """Put the coded difference in place of the new model in a reply; return the answer with how it is coded.

    The new model is the array record under the sent one's key, or the only one. A reply that has no code stays as it
    is, for the server to judge: one without arrays, with other arrays than the model's, or with values that are not
    finite.
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
    """Return what an update must share with the model: names in order, shapes, and types but among floating ones."""
    return [(n, list(a.shape), "floating" if coding.is_coded(a.dtype) else a.dtype) for n, a in arrays.items()]
