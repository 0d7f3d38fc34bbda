"""Combinations of run keys that are not possible."""

from collections.abc import Collection, Iterator
from typing import Any

from aoi_fl.config.groups import OWN_DATA
from aoi_fl.config.policies import BUDGETED, KEYS, users_of
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.keys import RunKeys
from aoi_fl.server.over_selection import check_over_selection
from aoi_fl.server.privacy import private_conflicts
from aoi_fl.strategies.registry import REGISTRY
from aoi_fl.strategies.selection.budget_rules import opposed

# Keys that belong to a value of another one.
_BELONGS = (
    ("alpha", "partition", "dirichlet"),
    ("mislabel-rate", "staleness", "mislabelled"),
    ("mislabel-cap", "staleness", "mislabelled"),
)


def conflicts(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error for each combination that is not possible; each value by itself is in its range.

    Raises
    ------
    ConfigError
        Over-selection is the conflict.
    """

    def refuse(key: str, allowed: str | Collection[str], remedy: str) -> ConfigError:
        return ConfigError(key, _value(config, key), allowed, remedy)

    row, budgeted = REGISTRY[config.policy], config.policy in BUDGETED
    if not budgeted and config.clients_per_round > config.num_clients:
        yield refuse(
            "clients-per-round", f"at most num-clients, {config.num_clients}", "Lower it, or raise num-clients."
        )
    if not config.resume:  # a run that goes on may have been begun by a version that let it pass
        yield from _unused(config)
    if (config.rates == "given") != bool(config.clients_file) and not budgeted:
        other = "given with a clients-file" if config.clients_file else "equal or size without a clients-file"
        yield refuse("rates", other, "Set rates=given and a clients-file with a column rate together.")
    yield from _data(config)
    if config.round_seconds and config.clock:
        yield refuse("round-seconds", f"0 with clock={config.clock}, a simulated time", "Leave one of them out.")
    if config.staleness_rates == "own" and config.staleness != "mislabelled":
        remedy = "Set staleness to mislabelled, or staleness-rates to equal."
        yield refuse("staleness-rates", f"equal with staleness={config.staleness}", remedy)
    if config.sensitivities in ("staleness", "bound") and config.staleness == "none":
        remedy = "Set staleness to mislabelled, or sensitivities to declared."
        yield refuse("sensitivities", "declared or estimated with staleness=none", remedy)
    if config.sensitivities == "bound" and not config.local_steps:
        remedy = "Set local-steps, or sensitivities to staleness."
        yield refuse("sensitivities", "another with local-steps=0: eq. (10) needs equal numbers of steps", remedy)
    if budgeted:
        how = (config.ageing, config.index_source, config.trains, config.sensitivities)
        yield from opposed(BUDGETED[config.policy], *how, begins=not config.resume)
    if config.candidates and not config.sent <= config.candidates <= config.num_clients:
        most = f"from {config.sent_as}, {config.sent}, to num-clients, {config.num_clients}"
        yield refuse("candidates", most, f"Set 0 for twice {config.sent_as}.")
    if config.absence == "learned" and config.adaptive_dropout:
        yield refuse("absence", "ignored with adaptive-dropout=true", "Set one of them back.")
    if config.absence == "learned" and (config.jitter or config.phases != "spread"):
        allowed = f"ignored with jitter={config.jitter:g} and phases={config.phases}"
        yield refuse("absence", allowed, "Set jitter to 0 and phases to spread, or absence to ignored.")
    for key in ("clock-start", "until", "foresight"):
        if _value(config, key) and not config.clock:
            yield refuse(key, f"{_shown(_default(key))} without a clock, which simulates time", "Set clock.")
    weights = row.weight if config.weights == "auto" else config.weights
    if weights == "unbiased" and not (row.foreseen or row.weight == weights):
        why = "the rates are unknown"
        if row.weight == "times drawn":
            why = "draws with replacement are unbiased by the times drawn"
        foreseen = ", ".join(other.name for other in REGISTRY.values() if other.foreseen)
        allowed = f"auto, equal or size under policy {row.name}, because {why}"
        yield ConfigError("weights", weights, allowed, f"Leave it out, or choose one of the policies {foreseen}.")
    if config.late_rounds and (budgeted or weights == "unbiased"):
        other = f"policy {config.policy}, which has a budget" if budgeted else "unbiased weights"
        yield refuse("late-rounds", f"0 with {other}", "Leave one of them out.")
    if config.server_momentum and (weights == "unbiased" or config.late_rounds):
        why = "weights=unbiased, which need not sum to 1"
        if weights != "unbiased":
            why = f"late-rounds={config.late_rounds}, which needs the weighted mean"
        yield refuse("server-momentum", f"0 with {why}", "Set one of them back.")
    if config.spare_shares and (budgeted or config.clients_file or config.client or config.privacy != "none"):
        other = "privacy" if config.privacy != "none" else "a budget, a clients-file or the key client"
        yield refuse("spare-shares", f"0 with {other}, which fixes the clients", "Leave one of them out.")
    yield from private_conflicts(config)
    if config.over_selection > 1:
        if budgeted:
            yield refuse("over-selection", f"1 with policy {config.policy}, which has a budget", "Leave it out.")
        learned = weights == row.weight  # where its own are unbiased, by rates of what counted
        check_over_selection(
            config.over_selection, config.clients_per_round, config.num_clients, "auto" if learned else weights
        )
    if config.resume and not config.run_name:
        yield refuse("run-name", "set with resume=true", "Set it to the name of the run to continue.")


def _data(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error where the columns of one's own data are missing, or without meaning."""
    tabular, own = config.dataset.startswith(("csv:", "parquet:")), config.dataset.startswith(OWN_DATA)
    if tabular != bool(config.target):
        allowed = "a column of the file" if tabular else f"left out with dataset={config.dataset}"
        yield ConfigError("target", config.target, allowed, "Name the column to predict: -c target=COLUMN.")
    if config.client:
        why = "" if own else f"dataset={config.dataset} names no clients"
        why = f"policy {config.policy} sets each client's data" if config.policy in BUDGETED else why
        if why:
            yield ConfigError("client", config.client, f"left out: {why}", "Leave it out.")
        for key in ("partition", "sizes"):
            if _value(config, key) != _default(key):
                allowed = "left out with a column of clients, which divides the rows"
                yield ConfigError(key, _value(config, key), allowed, "Leave it out, or leave out client.")


def _unused(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error for each key that has no effect."""

    def refuse(key: str, why: str, remedy: str) -> ConfigError:
        return ConfigError(key, _value(config, key), f"left out: {why}", remedy)

    budgeted = config.policy in BUDGETED
    for key in sorted(KEYS - REGISTRY[config.policy].keys):
        if _value(config, key) != _default(key):
            yield of_others(config, key)
    for key, other, wanted in _BELONGS:
        if _value(config, key) != _default(key) and _value(config, other) != wanted:
            why = f"{other} is {_value(config, other)}, which does not use it"
            yield refuse(key, why, f"Leave it out, or set {other} to {wanted}.")
    if config.discount and (config.staleness == "none" or not budgeted):
        why = "data do not age" if config.staleness == "none" else f"policy {config.policy} refreshes no data"
        remedy = "Leave it out, or set staleness to mislabelled under a budgeted policy."
        yield refuse("discount", f"{why}, so nothing is replaced", remedy)
    if budgeted and (config.partition != "iid" or config.sizes != "equal"):
        why = f"under policy {config.policy} clients-file or the drawn instance sets each client's images"
        yield refuse("sizes" if config.partition == "iid" else "partition", why, "Leave it out.")
    if (config.rates != "equal" or config.absence == "learned") and config.max_age != _default("max-age"):
        why = f"with rates={config.rates} and absence={config.absence} each client has a table of its own length"
        yield refuse("max-age", why, "Leave it out.")


def of_others(config: RunKeys, key: str) -> ConfigError:
    """Return the error of a key that only other policies use."""
    remedy = f"Leave it out, or choose one of the policies that use it: {', '.join(users_of(key))}."
    return ConfigError(key, _value(config, key), f"left out: policy {config.policy} does not use it", remedy)


def _value(config: RunKeys, key: str) -> Any:
    return getattr(config, key.replace("-", "_"))


def _default(key: str) -> Any:
    return RunKeys.model_fields[key.replace("-", "_")].default


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
