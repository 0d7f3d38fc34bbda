"""Which values of run keys do not go together: each rule says what it is that does not, and what to do."""

from collections.abc import Iterator
from typing import Any

from aoi_fl.server.keys import RunKeys
from aoi_fl.server.over_selection import check_over_selection
from aoi_fl.server.privacy import private_conflicts
from aoi_fl.strategies.registry import BUDGETED, KEYS, REGISTRY, users_of
from aoi_fl.strategies.selection.budget_rules import opposed

# Keys that belong to a value of another one.
_BELONGS = (
    ("alpha", "partition", "dirichlet"),
    ("mislabel-rate", "staleness", "mislabelled"),
    ("mislabel-cap", "staleness", "mislabelled"),
    ("drift-degrees", "staleness", "stream"),
    ("stream-window", "staleness", "stream"),
)


def conflicts(config: RunKeys) -> Iterator[str]:
    """Yield what does not go together in a configuration whose values are right each by itself; the first is told.

    Raises
    ------
    ConfigError
        Over-selection is the conflict.
    """
    if config.policy not in BUDGETED and config.clients_per_round > config.num_clients:
        yield (
            f"clients-per-round is {config.clients_per_round}, more than num-clients, {config.num_clients}: lower the "
            "one or raise the other"
        )
    if not config.resume:  # a run that goes on may have been begun by a version that let it pass
        yield from _unused(config)
    if (config.rates == "given") != bool(config.clients_file) and config.policy not in BUDGETED:
        yield (
            f"rates is {config.rates} and clients-file is {config.clients_file!r}: rates=given and a clients-file with "
            "a column rate go together"
        )
    if config.round_seconds and config.clock:
        yield (
            f"round-seconds is {config.round_seconds:g}, and clock is {config.clock}: in simulated time nobody waits "
            "for a round to begin; leave one of them out"
        )
    if config.staleness_rates == "own" and config.staleness != "mislabelled":
        yield (
            f"staleness-rates is own, but staleness is {config.staleness}: only mislabelled data go bad at rates of "
            "their own; set staleness to mislabelled, or staleness-rates to equal"
        )
    if config.sensitivities in ("staleness", "bound") and config.staleness == "none":
        yield (
            f"sensitivities is {config.sensitivities}, but staleness is none: no data go bad here; set staleness to "
            "mislabelled, or sensitivities to declared"
        )
    if config.sensitivities == "bound" and not config.local_steps:
        yield (
            "sensitivities is bound, but local-steps is 0: eq. (10) is of clients that make equally many steps; set "
            "local-steps, or sensitivities to staleness"
        )
    if config.policy in BUDGETED:
        index, begins = BUDGETED[config.policy], not config.resume
        how = (config.ageing, config.index_source, config.trains, config.sensitivities)
        yield from opposed(index, *how, begins=begins)
    if config.candidates and not config.sent <= config.candidates <= config.num_clients:
        yield (
            f"candidates is {config.candidates}: give {config.sent_as}, {config.sent}, to num-clients, "
            f"{config.num_clients}; 0 for twice as many as the former"
        )
    if config.absence == "learned" and config.adaptive_dropout:
        yield (
            "absence is learned and adaptive-dropout is true: both make up for who is not there; set one of them back"
        )
    if config.absence == "learned" and (config.jitter or config.phases != "spread"):
        yield (
            f"absence is learned, but jitter is {config.jitter:g} and phases is {config.phases}: set them back to 0 "
            "and spread, or absence to ignored"
        )
    if config.clock_start and not config.clock:
        yield f"clock-start is {config.clock_start:g}, a second of a trace, but clock is empty: set clock"
    if config.until and not config.clock:
        yield f"until is {config.until:g}, in seconds of simulated time, but clock is empty: set clock"
    if config.foresight and not config.clock:
        yield ("foresight is true, but clock is empty: only where time is simulated does anybody foresee it")
    row = REGISTRY[config.policy]
    weights = row.weight if config.weights == "auto" else config.weights
    if weights == "unbiased" and not (row.foreseen or row.weight == weights):
        why = "nobody knows how often a client will take part"
        if row.weight == "times drawn":
            why = "draws with replacement are so already, by the times drawn"
        foreseen = ", ".join(other.name for other in REGISTRY.values() if other.foreseen)
        yield (
            f"weights is unbiased, but under policy {row.name} {why}: leave it out, or choose one of the policies "
            f"{foreseen}"
        )
    if config.late_rounds and (config.policy in BUDGETED or weights == "unbiased"):
        budgeted = f"policy {config.policy} goes by its budget"
        why = budgeted if config.policy in BUDGETED else f"weights of {config.policy} is unbiased"
        yield f"late-rounds is {config.late_rounds}, but {why}: leave one of them out"
    if config.server_momentum and (weights == "unbiased" or config.late_rounds):
        why = "weights is unbiased, which need not sum to 1" if weights == "unbiased" else ""
        why = why or f"late-rounds is {config.late_rounds}, which goes with the weighted mean alone"
        yield f"server-momentum is {config.server_momentum:g}, but {why}: set one of them back"
    yield from private_conflicts(config)
    if config.over_selection > 1:
        if config.policy in BUDGETED:
            yield (
                f"over-selection is {config.over_selection:g}, but policy {config.policy} goes by its budget: leave "
                "over-selection out"
            )
        learned = weights == row.weight  # where its own are unbiased, by rates of what counted
        check_over_selection(
            config.over_selection, config.clients_per_round, config.num_clients, "auto" if learned else weights
        )
    if config.resume and not config.run_name:
        yield "resume is true, but run-name is empty: say which run is to go on"


def _unused(config: RunKeys) -> Iterator[str]:
    """Yield what has no effect."""
    for key in sorted(KEYS - REGISTRY[config.policy].keys):
        name = key.replace("-", "_")
        if getattr(config, name) != _default(name):
            yield of_others(config, key)
    for key, other, wanted in _BELONGS:
        name = key.replace("-", "_")
        if getattr(config, name) != _default(name) and getattr(config, other) != wanted:
            yield (
                f"{key} is {_plain(getattr(config, name))}, but {other} is {getattr(config, other)}, which does not "
                f"use it: leave it out, or set {other} to {wanted}"
            )
    if config.discount and (config.staleness == "none" or config.policy not in BUDGETED):
        why = "data do not age" if config.staleness == "none" else f"policy {config.policy} refreshes nobody's data"
        yield (
            f"discount is {config.discount:g}, but staleness is {config.staleness} and {why}: it weighs what a refresh "
            "has replaced; leave it out, or set staleness to mislabelled or stream under a budgeted policy"
        )
    if config.policy in BUDGETED and (config.partition != "iid" or config.sizes != "equal"):
        key, value = ("sizes", config.sizes) if config.partition == "iid" else ("partition", config.partition)
        yield (
            f"{key} is {value}, but under policy {config.policy} each client has as many images as clients-file or "
            "the instance that is drawn says, of all classes: leave it out"
        )
    if (config.rates != "equal" or config.absence == "learned") and config.max_age != _default("max_age"):
        yield (
            f"max-age is {config.max_age}, but rates is {config.rates} and absence is {config.absence}: then each "
            "client has a table of its own, which is as long as it needs to be; leave max-age out"
        )


def of_others(config: RunKeys, key: str) -> str:
    """Return what is said of a key that means something to other policies only."""
    return (
        f"{key} is {_plain(getattr(config, key.replace('-', '_')))}, but policy {config.policy} does not use it: leave "
        f"it out, or choose one of the policies that do, {', '.join(users_of(key))}"
    )


def _default(name: str) -> Any:
    return RunKeys.model_fields[name].default


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
