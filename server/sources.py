"""The files that a resumed run reads again: their places, and whether they have changed."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from aoi_fl.config.run import RunConfig
from aoi_fl.config.task import OWN_DATA
from aoi_fl.learning import data
from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE
from aoi_fl.protocol.own_code import source_digest
from aoi_fl.science.errors import ResumeError
from aoi_fl.science.names import is_own
from aoi_fl.server.folder import RATES_FILE

_PLACES = ("runs-dir", "data-dir", "model-dir", "clients-file")
# What a run writes for itself, and its clients read in every process anew: by the ledger's key.
_DEALT = {"partition_source": PARTITION_FILE, "table_source": CLIENTS_FILE, "rates_source": RATES_FILE}


def settled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return run keys with absolute paths, so that a run can resume in any folder."""
    found = dict(values)
    for key in _PLACES:
        if found.get(key):
            found[key] = _absolute(found[key])
    kind, colon, path = str(found.get("dataset", "")).partition(":")
    if kind + colon in OWN_DATA:
        found["dataset"] = kind + colon + _absolute(path)
    if found.get("clock"):  # one file, two of them, or the name of none
        parts = found["clock"].split(",")
        found["clock"] = ",".join(_absolute(part) if Path(part).expanduser().is_file() else part for part in parts)
    return found


def given_sources(config: RunConfig) -> dict[str, str]:
    """Return the digests of the files that the keys of a run name, by the ledger's keys; "" for none."""
    return {
        "data_source": digest(data.files(config.dataset, config.data_dir)),
        "clock_source": digest_of(config.clock),
        "policy_source": source_digest("policy", config.policy, config.model_dir) if is_own(config.policy) else "",
    }


def dealt_sources(folder: Path) -> dict[str, str]:
    """Return the digests of the files that a run has written for itself; "" for one that it has not."""
    return {key: digest([path] if path.is_file() else []) for key, path in dealt_files(folder).items()}


def dealt_files(folder: Path) -> dict[str, Path]:
    """Return where a run writes its partition and its tables of clients, by the ledger's keys."""
    return {key: folder / name for key, name in _DEALT.items()}


def check_unchanged(folder: Path, about: Mapping[str, Any], sources: Mapping[str, str], config: RunConfig) -> None:
    """See that the files that a run reads again are those that it began with.

    Parameters
    ----------
    folder : of the run
    about : what its ledger says of it; one of an earlier version does not know every digest
    sources : the digests now
    config : whose keys name the files

    Raises
    ------
    ResumeError
        One is another now, or gone.
    """
    named = {"model_source": config.model, "data_source": f"dataset={config.dataset}", "clock_source": config.clock}
    named["policy_source"] = config.policy
    named |= {key: str(path) for key, path in dealt_files(folder).items()}
    for key, now in sources.items():
        before = about.get(key, now)
        if before != now:
            was = f"from a file with the digest {before[:12]}…" if before else "without such a file"
            has = f"the file has {now[:12]}…" if now else "there is none"
            raise ResumeError(
                f"the run {folder.name!r} was started with {named[key]} {was}, and {has} now: bring the former one "
                "back, or start a new run."
            )


def digest_of(clock: str) -> str:
    """Return a digest of what is in the files that a clock names; of one that names none, ""."""
    paths = [Path(part).expanduser() for part in clock.split(",")]
    return digest(paths) if all(path.is_file() for path in paths) else ""


def digest(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of files one after another; of none, ""."""
    return _digest(tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths)) if paths else ""


@lru_cache(maxsize=16)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Return the digest of files, read once for as long as their sizes and times are the same."""
    found = hashlib.sha256()
    for path, *_ in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
