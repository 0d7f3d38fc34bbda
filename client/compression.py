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
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, Message
from numpy.typing import NDArray

from aoi_fl.client.state import keep, kept
from aoi_fl.protocol import ParticipationRequest, coding, npy
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
        self._folder, self._clock = folder / f"{name}.residuals", clock
        self._places = kept(self._folder)

    def before(self, round_: int) -> dict[str, NDArray[Any]] | None:
        """Return the residual of the last participation before a round, by array names, or None."""
        past = [at for at in (self._clock.last, self._clock.before) if at is not None and at < round_]
        path = self._folder / f"{past[0]}.npz" if past else self._folder
        place = self._places.get(path)
        if place is None:
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
        past = {self._folder / f"{at}.npz" for at in (self._clock.last, self._clock.before) if at is not None}
        for path, place in self._places.items():
            if place == path and path not in past:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        keep(self._folder / f"{round_}.npz", blob.getvalue())


def compress_update(
    reply: Message,
    sent: tuple[str | None, Mapping[str, Array]],
    ask: ParticipationRequest,
    folder: Path,
    name: str,
    clock: ClientAge,
) -> dict[str, Any]:
    """Replace the new model in a reply by the difference to the sent one; return the answer's fields of its code.

    The new model is the array record under the sent model's key, or the only one. A reply stays uncoded if it has no
    arrays, other arrays than the model, or values that are not finite. The server then checks it. The last three
    parameters are those of :class:`Residuals`.
    """
    kind = coding.checked(ask.compression or coding.NONE)
    name_sent, model = sent
    if kind == coding.NONE or name_sent is None or (key := model_key(reply.content, name_sent)) is None:
        return {}
    record = dict(cast(ArrayRecord, reply.content[key]))
    if coding.forms(record) != coding.forms(model):
        return {}
    before, trained = ({name: array.numpy() for name, array in arrays.items()} for arrays in (model, record))
    residuals = Residuals(folder, name, clock)
    residual = residuals.before(ask.round)
    coded = coding.compress(before, trained, residual, kind)
    if coded is None:
        return {}
    residuals.save(ask.round, coded.residual)
    reply.content[key] = to_record(coded.codes)
    return {"compression": kind, "scales": coded.scales}
