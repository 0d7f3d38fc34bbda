"""Replace a client's new model by the coded difference, with error feedback.

The residual, which is the coding error, is durable state of the client: one file for each of its last participations,
beside its state file. A round that is repeated after a crash starts from the same residual and gives the same reply.
The file is written before the age is reset. So after a kill -9 the round is either complete or has not happened. A
client without the file starts from zero.
"""

import io
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from aoi_fl.client.identity import Identity
from aoi_fl.client.state import keep, kept
from aoi_fl.protocol import ParticipationRequest, coding, npy
from aoi_fl.protocol.arrays import model_key, to_record
from aoi_fl.protocol.log import logger
from aoi_fl.science.age import ClientAge
from aoi_fl.science.types import AnyArray, Arrays


def _read(path: Path, place: Path) -> dict[str, AnyArray] | None:
    """Return a residual by array names, or None if its file, which may lie aside, cannot be read."""
    try:
        with zipfile.ZipFile(place) as file:  # it verifies checksums
            return {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in file.namelist()}
    except Exception as error:  # a flipped bit causes many types of errors
        logger.warning("The residual of the compression in %s cannot be read (%s). It counts as 0.", path, error)
        return None


def _save(path: Path, residual: Arrays) -> None:
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w") as file:
        for name, array in residual.items():
            file.writestr(zipfile.ZipInfo(name), npy.dumps(array))
    keep(path, blob.getvalue())


def compress_update(
    reply: Message,
    sent: tuple[str | None, Mapping[str, Array]],
    ask: ParticipationRequest,
    who: Identity,
    clock: ClientAge,
) -> dict[str, Any]:
    """Replace the new model in a reply by the difference to the sent one; return the answer's fields of its code.

    The new model is the array record under the sent model's key, or the only one. A reply stays uncoded if it has no
    arrays, other arrays than the model, or values that are not finite. The server then checks it. A round before the
    last participation leaves the residuals as they are; any other keeps its own, and those of the two before it.

    Parameters
    ----------
    reply, sent : the reply, and the key and the arrays of the sent model
    ask, who : the request, and the client
    clock : its participations before the present round
    """
    kind = coding.checked(ask.compression or coding.NONE)
    name_sent, model = sent
    if kind == coding.NONE or name_sent is None or (key := model_key(reply.content, name_sent)) is None:
        return {}
    record = dict(cast(ArrayRecord, reply.content[key]))
    if coding.forms(record) != coding.forms(model):
        return {}
    before, trained = ({name: array.numpy() for name, array in arrays.items()} for arrays in (model, record))
    folder = who.state_dir / f"{who.name}.residuals"
    past = {at: folder / f"{at}.npz" for at in (clock.last, clock.before) if at is not None}  # the last one first
    places = kept(folder)
    last = next((path for at, path in past.items() if at < ask.round), folder)
    residual = _read(last, places[last]) if last in places else None
    coded = coding.compress(before, trained, residual, kind)
    if coded is None:
        return {}
    if ask.round >= clock.last:
        for path, place in places.items():
            if place == path and path not in past.values():
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        _save(folder / f"{ask.round}.npz", coded.residual)
    reply.content[key] = to_record(coded.codes)
    return {"compression": kind, "scales": coded.scales}
