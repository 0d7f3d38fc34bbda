"""The provenance of a run: its date, its seed and the command that repeats it."""

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any

from aoi_fl.config.fields import kebab
from aoi_fl.config.policies import BUDGETED
from aoi_fl.config.presets import PRESET
from aoi_fl.config.run import RunConfig
from aoi_fl.report.runs import RecordedRun
from aoi_fl.science.errors import ConfigError

_PATHS = ("runs-dir", "data-dir", "model-dir", "clients-file")
_PATH = re.compile(r"(?<![\w./:<])(?:~|\.{1,2})?/(?:[^\s/'\"<>:,;]+/)+(?=[^\s/'\"<>:,;]+)")
OF_THE_MACHINE = ("run-name", "runs-dir", "data-dir", "model-dir", "resume")


def provenance(runs: Sequence[RecordedRun]) -> tuple[list[str], list[list[str]]]:
    """Return a table with a row for each run; paths are reduced to their last part."""
    rows = [[run.label, _begun(run), str(run.config.get("seed", "")), _data(run), command(run)] for run in runs]
    return ["run", "begun (UTC)", "seed", "data", "the command that repeats it"], rows


def changed(run: RecordedRun) -> dict[str, Any] | None:
    """Return the fewest keys that, given to ``aoi run``, make a run's configuration; None for another app's run.

    A run with unknown keys counts as another app's.
    """
    if "policy" not in run.config:
        return None
    try:
        own = RunConfig.parse(run.config)
    except ConfigError:
        return None
    usual = {kebab(name): field.default for name, field in RunConfig.model_fields.items()} | {"preset": PRESET}
    fixed = {key: value for key, value in own.flat().items() if key in OF_THE_MACHINE}
    keys = {key: value for key, value in own.flat().items() if key not in fixed and value != usual[key]}
    for key in sorted(keys):
        rest = {name: value for name, value in keys.items() if name != key}
        with suppress(ConfigError):
            if RunConfig.parse({"preset": PRESET, **fixed, **rest}) == own:
                keys = rest
    if own.policy in BUDGETED:  # a cluster sets the key nevertheless
        keys.pop("clients-per-round", None)
    return keys


def command(run: RecordedRun) -> str:
    """Return the command that repeats a run, with its changed keys; empty for another app's run."""
    keys = changed(run)
    if keys is None:
        return ""
    words = ["aoi", "run", *(part for key in sorted(keys) for part in ("-c", f"{key}={public(key, keys[key])}"))]
    return shlex.join(words)


def public(key: str, value: Any) -> str:
    """Return a run key's value for a page; a path is reduced to its last part.

    Examples
    --------
    >>> public("data-dir", "/home/me/data"), public("dataset", "npz:/home/me/my data.npz"), public("model", "2nn")
    ('data', 'npz:my data.npz', '2nn')
    >>> public("clock", "/home/me/behave.pkl,~/me/capacity.pkl"), public("clock", "bernoulli:0.3")
    ('behave.pkl,capacity.pkl', 'bernoulli:0.3')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if key in _PATHS:
        return PurePath(value).name
    if key == "clock":  # one file, two of them, or none
        return ",".join(PurePath(part).name for part in str(value).split(","))
    text = str(value)
    kind, colon, path = text.partition(":")
    return f"{kind}:{PurePath(path).name}" if key == "dataset" and colon else text


def without_paths(text: str) -> str:
    """Return a text with paths reduced to their last part.

    Examples
    --------
    >>> without_paths("OSError: no space left in /home/me/runs/first, sorry")
    'OSError: no space left in first, sorry'
    >>> without_paths("FileNotFoundError: '/home/me/x.csv', ~/data/y.npz and ../up/z; loss 1/2 and/or NaN")
    "FileNotFoundError: 'x.csv', y.npz and z; loss 1/2 and/or NaN"
    >>> without_paths("layer 3/4 is off; see https://flower.ai/docs/x")
    'layer 3/4 is off; see https://flower.ai/docs/x'
    """
    return _PATH.sub("", text)


def _data(run: RecordedRun) -> str:
    """Return data set, partition and the clients' number of examples."""
    if "dataset" not in run.config:
        return ""
    words = [public("dataset", run.config["dataset"])]
    keys = ("client-column",) if run.config.get("client-column") else ("partition", "sizes")
    words += [f"{key} {run.config[key]}" for key in keys if key in run.config]
    known = [row["examples"] for row in run.clients]
    if known and None not in known:
        words.append(f"{sum(known)} examples with {len(known)} clients")
    return ", ".join(words)


def _begun(run: RecordedRun) -> str:
    started = run.rounds[0]["started"] if run.rounds else None
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(started)) if started else ""
