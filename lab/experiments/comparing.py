"""The runs of a comparison: settings, names, and the runs that are missing."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aoi_fl.config.policies import BUDGETED, KEYS, REGISTRY, is_policy
from aoi_fl.config.presets import PRESET
from aoi_fl.config.run import RunConfig
from aoi_fl.config.task import OWN_DATA
from aoi_fl.config.values import MILLION
from aoi_fl.lab.experiments.harness.federation import complete_run, digest, quiet
from aoi_fl.lab.experiments.studies.arena import distinct_entrants, federation
from aoi_fl.lab.experiments.studies.entrants import own_keys
from aoi_fl.lab.simulated_time.traces import in_files, make_trace, too_few
from aoi_fl.learning.cautions import cautions
from aoi_fl.learning.data import load
from aoi_fl.protocol.files import present_digest
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import is_own
from aoi_fl.server.app import prepare
from aoi_fl.server.engine.parent import unordered
from aoi_fl.server.folder import LEDGER
from aoi_fl.server.ledger import read_run
from aoi_fl.server.sources import check_unchanged, given_sources, named_clients, settled
from aoi_fl.server.strategy import make_strategy

_WHOLE = (  # files and names: a comma in these separates no values of a sweep
    "clock",
    "dataset",
    "model",
    "data-dir",
    "model-dir",
    "runs-dir",
    "clients-file",
    "track",
    "target",
    "client-column",
    "drop",
    "clients",
    "must-include",
)
_OF_DATA = ("dataset", "target", "client-column", "drop", "missing")
_FIXED = ("dataset", "num-server-rounds", "until", "evaluate-every")  # one value for all runs
_OURS = {"policy": "the first argument", "seed": "--seeds", "run-name": "no name", "resume": "no key"}
_COMMON = (*_FIXED, *(key for key in _OURS if key != "policy"), "clock", "clock-start", "data-dir", "runs-dir")
_PLACES = ("run-name", "runs-dir", "data-dir", "model-dir", "resume", "seed")


def plan(policies: str, seeds: int, keys: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the checked configurations of all runs: policies × values × seeds, each with its name.

    Raises ConfigError for a policy, key or value that is unknown, given twice, or fixed within a comparison.
    """
    for key, instead in _OURS.items():
        if key in keys:
            raise ConfigError(f"-c {key}", keys[key], "left out of aoi compare, which sets it", f"Give {instead}.")
    names = [name.strip() for name in policies.split(",")]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError("policies", twice, "named once", "Leave one out.")
    own = {name: own_keys(name, _COMMON) if "=" in name else {"policy": name} for name in names}
    users = [keys_["policy"] for keys_ in own.values() if is_policy(keys_["policy"])]
    for key in KEYS & keys.keys():
        if users and not any(key in REGISTRY[name].keys for name in users):
            raise ConfigError(key, keys[key], f"left out, as no policy of {', '.join(users)} uses it", "Leave it out.")
    lists = {key: [value] if key in _WHOLE else [v.strip() for v in value.split(",")] for key, value in keys.items()}
    for key in _FIXED:
        if len(lists.get(key, [])) > 1:
            raise ConfigError(key, keys[key], "one value, in which all runs of a comparison agree", "Give one value.")
    shared = named_clients(keys)
    if keys.get("until") and "num-server-rounds" not in keys:
        shared["num-server-rounds"] = MILLION  # simulated time ends the run
    found = {}
    named = {}
    for name, values in itertools.product(names, itertools.product(*lists.values())):
        given, policy = shared | dict(zip(lists, values, strict=True)), own[name]["policy"]
        if is_policy(policy):
            other = KEYS - REGISTRY[policy].keys
            given = {k: v for k, v in given.items() if k not in other}
            if policy in BUDGETED:
                given.pop("clients-per-round", None)
        for seed in range(1, seeds + 1):
            config = settled(RunConfig.parse({"preset": PRESET, **given, **own[name], "seed": seed}).flat())
            config["run-name"] = _run_name(config, policy)
            if (other := named.setdefault(config["run-name"], name)) != name:
                raise ConfigError("policies", name, f"different from {other}, which runs the same", "Leave one out.")
            found[config["run-name"]] = config
    if len({_settings(config) for config in found.values()}) < 2:
        raise ConfigError("policies", policies, "two settings or more", "Name two policies, or give a key two values.")
    return list(found.values())


def _run_name(config, policy):
    """Return the name of a run: its settings, its own files and its seed."""
    parsed = RunConfig.parse(config)
    others = ("clock_source",) if parsed.dataset.startswith(OWN_DATA) else ("clock_source", "data_source")
    clients = present_digest([Path(parsed.clients_file)] if parsed.clients_file else [])  # a run has its own copy
    sources = {**given_sources(parsed), "clients_source": clients}
    own = {key: content for key, content in sources.items() if content and key not in others}
    return f"compare-{policy.rpartition(':')[2]}-{_settings(dict(config) | own)}-s{config['seed']}"


def arena(keys: Mapping[str, str], *, quick: bool = False) -> tuple[str, dict[str, str]]:
    """Return the policies of the arena, and its run keys with these in their place: a comparison in simulated time.

    On devices from a file, each seed starts at its own hour.
    """
    drawn = {"clock-start": -1} if in_files(keys["clock"]) else {}
    preset = {k: str(v) for k, v in {**federation(quick), **drawn}.items()} | dict(keys)
    return ",".join(distinct_entrants(preset)), preset


def check_devices(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a warning for each setting that wants more clients than the devices of its clock.

    Raises ConfigError if the clock names no trace.
    """
    found = {}
    for (clock, n), group in itertools.groupby(configs, lambda config: (config["clock"], config["num-clients"])):
        trace = make_trace(clock, n, 1) if clock else None
        for config in group if trace else ():
            if few := too_few(trace, config["clients-per-round"], config["over-selection"]):
                found[few] = None
    return list(found)


def describe_data(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the user's own tables are read as, each once, and the warnings about them."""
    lines = []
    for name, *keys in dict.fromkeys(tuple(str(config[key]) for key in _OF_DATA) for config in configs):
        if name.startswith(OWN_DATA):
            target, client, drop, missing = keys
            table = load(name, "", target=target, client=client, drop=drop, missing=missing)
            lines += [f"{name}: {line}" for line in (table.understood, *cautions(table)) if line]
    return lines


def _settings(config):
    """Return the digest of a run's settings, without its seed."""
    return digest({key: value for key, value in config.items() if key not in _PLACES})


def folder(config: Mapping[str, Any]) -> Path:
    """Return the folder of a run."""
    return Path(config["runs-dir"]) / config["run-name"]


def missing(configs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the incomplete runs, own policies first; complete ones must have begun with the present files."""
    left = []
    for config in configs:
        ledger = folder(config) / LEDGER
        about = read_run(ledger) if ledger.is_file() else {}
        if about.get("status") != "completed":
            left.append(config)
            continue
        now = {key: content for key, content in given_sources(RunConfig.parse(config)).items() if content}
        check_unchanged(folder(config), about, now, RunConfig.parse(config))
    return sorted(left, key=lambda config: not is_own(config["policy"]))  # own code may fail in a later round


def check_settings(configs: Sequence[Mapping[str, Any]]) -> None:
    """Check all settings before the first run, as each run does before its first round.

    Raises ConfigError, as a run of the setting would.
    """
    quiet()
    for config in {_settings(config): config for config in configs}.values():
        ready = prepare(RunConfig.parse(config), folder(config), simulated=True)
        make_strategy(ready.config, config["run-name"], rates=ready.rates)


def play(configs: Sequence[Mapping[str, Any]], workers: int) -> Iterator[Path]:
    """Run or resume runs in worker processes; yield the folder of each as it completes."""
    return unordered(_play, configs, workers)


def _play(config):
    quiet()
    return complete_run(config).parent
