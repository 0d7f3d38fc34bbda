"""The releases of a private run: a sum a round, each with noise of its own, on the disk before it is published.

``noise.key`` has the secret, the terms of the noise, and for each round the nonce of its draw beside the digest of its
release. ``noise.release`` has the last release itself, and who trained for it. A round that runs again after a break
publishes that release once more, bit by bit, whatever its clients now send: no round publishes two sums.

Each file notes when the system last changed the other one (ctime). A copy keeps no such time. So files from a backup
are refused: the rounds after the backup have been published, and would be published again.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aoi_fl.protocol import npy
from aoi_fl.protocol.files import discard, read_regular, write_whole
from aoi_fl.protocol.records import State
from aoi_fl.science.errors import ResumeError, StorageError
from aoi_fl.science.privacy.factorisation import KEY_BYTES, CorrelatedNoise
from aoi_fl.science.types import Floats

_LONGEST_KEY, _LONGEST_RELEASE = 1 << 30, 1 << 40  # bytes
_DIGEST = "private/digest"  # of the last release, in a checkpoint


class Releases:
    """The noise of a run and its releases, in two files.

    Parameters
    ----------
    path : the file of the secret; the release lies beside it; None: the secret is gone with the process
    run, token : name and token of the run, to which the secret is bound
    resumed : whether the files must be there already

    Attributes
    ----------
    training : what the last release's round recorded of its training; None: a version before kept none

    Raises
    ------
    StorageError
        The files cannot be written.
    """

    def __init__(self, path: Path | None, run: str, token: str | None, resumed: bool) -> None:
        self._path, self._run = path, {"run": run, "token": token}
        self._terms: dict[str, float] = {}
        self._done = 0  # the complete rounds of a resumed run
        self._key = secrets.token_bytes(KEY_BYTES)
        self._nonces: list[bytes] = []
        self._digests: list[str] = []
        self._release: Floats = np.empty(0)
        self.training: Mapping[str, Any] | None = None
        self._noise: CorrelatedNoise | None = None
        self._opened = not resumed
        if not resumed:
            self._write_release(b"")
            self._write_key()

    @property
    def spent(self) -> int:
        """The number of rounds that have a release."""
        return len(self._nonces)

    def agree(self, terms: Mapping[str, float], done: int, column: Floats, deviation: float, size: int) -> None:
        """Fix the terms of the noise before the first round, or check that a resumed run has them still.

        Parameters
        ----------
        terms : what noise and account depend on
        done : the complete rounds
        column, deviation, size : as in :class:`CorrelatedNoise`

        Raises
        ------
        ResumeError
            The files are missing, damaged, readable by others, of another run or of a backup, or the terms differ.
        """
        if not self._opened:
            self._open(terms, done)
        self._terms, self._done = dict(terms), done
        self._noise = CorrelatedNoise(self._key, column, deviation, size, self._nonces)
        self._write_key()

    def of(self, round_: int, total: Floats, training: Mapping[str, Any] | None = None) -> Floats:
        """Return the release of a round: its sum with noise, or what a first attempt has released.

        Parameters
        ----------
        round_, total : the round, and the sum of its clipped changes
        training : what its record has of the training, in terms of JSON

        Raises
        ------
        StorageError
            The release cannot be written, and so must not be published.
        """
        if self._noise is None:
            raise ValueError("the terms of the noise are not agreed")
        if round_ != self.spent:
            self._nonces.append(secrets.token_bytes(KEY_BYTES))
            self._release, self.training = total + self._noise.of(round_), training
            self._digests.append(self._digest(self._nonces[-1], npy.dumps(self._release)))
            self._write_release(self._nonces[-1])
            self._write_key()
        return self._release

    def state_dict(self) -> State:
        """Return the digest of the last release."""
        return {_DIGEST: np.frombuffer(bytes.fromhex(self._digests[-1]), np.uint8)} if self._digests else {}

    def load_state_dict(self, state: State) -> None:
        """Check that a checkpoint belongs to these releases; raise ResumeError if not."""
        if self._done and state.get(_DIGEST, np.empty(0, np.uint8)).tobytes().hex() != self._digests[self._done - 1]:
            raise self._refusal(f"has not the release of round {self._done} that the run's checkpoint has")

    def forget(self) -> None:
        """Delete the files of a complete run; name what cannot be deleted."""
        for path in () if self._path is None else (self._path, self._beside):
            discard(path)

    def _open(self, terms: Mapping[str, float], done: int) -> None:
        """Read and check both files."""
        if self._path is None:
            raise ResumeError("the private run kept no noise key: give PrivateMean a file as secret, and start anew.")
        try:
            mode = self._path.stat().st_mode
            kept = json.loads(read_regular(self._path, _LONGEST_KEY))
            about, _, array = read_regular(self._beside, _LONGEST_RELEASE).partition(b"\n")
            last = json.loads(about)
            self._key = _from_hex(kept["key"], KEY_BYTES)
            self._nonces = [_from_hex(nonce) for nonce, _ in kept["rounds"]]
            self._digests = [_from_hex(digest, 32).hex() for _, digest in kept["rounds"]]
            began = {str(name): value for name, value in kept["terms"].items()}
            owner = {name: kept[name] for name in self._run}
            self._release, nonce = npy.view(array).astype(np.float64), _from_hex(last["nonce"])
            round_, beside, self.training = int(last["round"]), (kept["beside"], last["beside"]), last.get("training")
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise self._refusal(f"cannot be read ({why})") from error
        if mode & 0o077:
            raise self._refusal(f"has mode {mode & 0o777:04o}, so others may have read the secret")
        if owner != self._run:
            raise self._refusal(f"belongs to the run {owner['run']!r:.120}")
        for name in sorted({*began, *terms}) if began or self._nonces else ():
            if began.get(name) != terms.get(name):
                raise ResumeError(
                    f"the private run began with {name} {began.get(name)!r:.40}, not {terms.get(name)}. Give the same "
                    "value again, or start a new run."
                )
        if round_ == self.spent + 1:  # it was written, and the process ended before it was noted beside the secret
            self._nonces.append(nonce)
            self._digests.append(self._digest(nonce, array))
        if not done <= self.spent <= done + 1:
            raise self._refusal(f"has the releases of {self.spent} rounds, and {done} rounds are complete")
        if round_ != self.spent or (round_ and self._digests[-1] != self._digest(nonce, array)):
            raise self._refusal(f"does not go with {self._beside.name}")
        if beside[0] != _changed(self._beside) and beside[1] != _changed(self._path):
            raise self._refusal("is a copy, as from a backup. Later rounds may have been published")

    def _refusal(self, why: str) -> ResumeError:
        return ResumeError(f"the noise key {self._path} {why}, so the private run cannot continue. Start a new run.")

    @property
    def _beside(self) -> Path:
        assert self._path is not None
        return self._path.with_suffix(".release")

    def _digest(self, nonce: bytes, release: bytes) -> str:
        """Return what binds the release at hand, with its training, to the secret's file."""
        return hashlib.sha256(nonce + release + json.dumps(self.training).encode()).hexdigest()

    def _write_release(self, nonce: bytes) -> None:
        if self._path is not None:
            about = {"round": self.spent, "nonce": nonce.hex(), "training": self.training}
            about["beside"] = _changed(self._path) if self.spent else None
            _write(self._beside, json.dumps(about).encode() + b"\n" + npy.dumps(self._release))

    def _write_key(self) -> None:
        if self._path is not None:
            rounds = [[nonce.hex(), digest] for nonce, digest in zip(self._nonces, self._digests, strict=True)]
            kept = {**self._run, "key": self._key.hex(), "terms": self._terms, "rounds": rounds}
            _write(self._path, json.dumps({**kept, "beside": _changed(self._beside)}).encode())


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content, mode=0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}), and without it no private model is published. Free some "
            "space, or make the disk writable, then resume the run."
        ) from error


def _changed(path: Path) -> int:
    """Return when the system last changed a file, in nanoseconds."""
    return os.stat(path).st_ctime_ns


def _from_hex(text: str, size: int | None = None) -> bytes:
    value = bytes.fromhex(text)
    if size is not None and len(value) != size:
        raise ValueError(f"{len(value)} bytes in place of {size}")
    return value
