"""What must be the same when a run resumes: the keys of its task, and its files, by their digests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aoi_fl.config.fields import kebab
from aoi_fl.config.keys import TaskSettings
from aoi_fl.config.policies import Keys
from aoi_fl.config.run import RunConfig
from aoi_fl.config.task import OWN_DATA
from aoi_fl.learning import data
from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE
from aoi_fl.protocol.files import absolute, is_file, present_digest
from aoi_fl.protocol.own_code import source_digest
from aoi_fl.science.errors import ResumeError
from aoi_fl.science.names import is_own
from aoi_fl.server.folder import RATES_FILE
from aoi_fl.server.ledger import About

_HERE = ("resume", "run_name", "runs_dir", "data_dir", "model_dir")  # settings of the command that resumes a run
_PLACES = ("runs-dir", "data-dir", "model-dir", "clients-file")
# Files that a run writes and its clients read in each process, by the ledger's keys.
_DEALT = {"partition_source": PARTITION_FILE, "table_source": CLIENTS_FILE, "rates_source": RATES_FILE}


def settled(values: Keys) -> dict[str, Any]:
    """Return run keys with absolute paths, so that a run can resume in any folder."""
    keys = dict(values)
    for key in _PLACES:
        if keys.get(key):
            keys[key] = str(absolute(keys[key]))
    kind, colon, path = str(keys.get("dataset", "")).partition(":")
    if kind + colon in OWN_DATA:
        keys["dataset"] = f"{kind}:{absolute(path)}"
    if keys.get("clock") and is_file(file := absolute(keys["clock"])):  # and no generated clock
        keys["clock"] = str(file)
    return keys


def recorded_config(about: About, given: RunConfig) -> RunConfig:
    """Return the configuration of a run's start, with the folders of the present command.

    Clients read their part of the configuration from the command that resumes the run, so that part must agree.

    Raises
    ------
    ResumeError : the clients' part of the configuration differs.
    """
    here = {kebab(name): getattr(given, name) for name in _HERE}
    recorded = dict(about["config"])
    config = RunConfig.parse({**recorded, **here})
    before, now = settled(config.flat()), settled(given.flat())
    other = [key for key in map(kebab, TaskSettings.model_fields) if before[key] != now[key]]
    if other:
        was = ", ".join(f"{key}={before[key]}" for key in other)
        raise ResumeError(
            f"the run {config.run_name!r} was started with {was}, but this command has other values. "
            "Give the same values again, or run: aoi resume RUN"
        )
    return config


def named_clients(keys: Keys) -> dict[str, int]:
    """Return ``num-clients`` if run keys name a column of clients and no number; else nothing."""
    name, client = (str(keys.get(key, "")) for key in ("dataset", "client-column"))
    if not client or "num-clients" in keys or not name.startswith(OWN_DATA):
        return {}
    return {"num-clients": len(data.names_of_clients(name, client))}


def given_sources(config: RunConfig) -> dict[str, str]:
    """Return the digests of files that run keys name, by the ledger's keys; "" without a file."""
    return {
        f"{key}_source": source_digest(key, name, config.model_dir) if is_own(name) else ""
        for key, name in (("model", config.model), ("policy", config.policy))
    } | {
        "data_source": data.present_digest(config.dataset, config.data_dir),
        "clock_source": present_digest([absolute(config.clock)]),
    }


def dealt_sources(folder: Path) -> dict[str, str]:
    """Return the digests of the files that a run has written; "" for a missing file."""
    return {key: present_digest([folder / name]) for key, name in _DEALT.items()}


def check_unchanged(folder: Path, about: About, sources: Mapping[str, str], config: RunConfig) -> None:
    """Check that a run's files have not changed since its start.

    Parameters
    ----------
    folder : the run's folder
    about : the ledger's ``run`` table; earlier versions lack some digests
    sources : the present digests
    config : the configuration that names the files

    Raises
    ------
    ResumeError : a file has changed or is missing.
    """
    named = {key: str(folder / name) for key, name in _DEALT.items()}
    named |= {f"{key}_source": f"{key}={getattr(config, key)}" for key in ("model", "clock", "policy")}
    named["data_source"] = f"dataset={config.dataset}"
    for key, now in sources.items():
        before = about.get(key, now)
        if before != now:
            was = f"from a file with the digest {before[:12]}…" if before else "without such a file"
            has = f"the file has {now[:12]}…" if now else "there is none"
            raise ResumeError(
                f"the run {folder.name!r} was started with {named[key]} {was}, and {has} now: bring the former one "
                "back, or start a new run."
            )
