"""All combinations of run keys that are not possible, though each value is in its range."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from aoi_fl.config.fields import snake
from aoi_fl.config.keys import RunKeys
from aoi_fl.config.policies import BUDGETED, DEFAULT, KEYS, REGISTRY, SEPARATED, users_of
from aoi_fl.config.task import OWN_DATA
from aoi_fl.config.values import names_of
from aoi_fl.science.errors import ConfigError, check_choice, unknown_rates
from aoi_fl.science.names import USUAL_MAX_AGE


def conflicts(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error for each combination that is not possible."""

    def refuse(key: str, allowed: str | Collection[str], remedy: str) -> ConfigError:
        return ConfigError(key, _value(config, key), allowed, remedy)

    row, budgeted = REGISTRY[config.policy], config.policy in BUDGETED
    if not budgeted and config.clients_per_round > config.num_clients:
        yield refuse(
            "clients-per-round", f"at most num-clients, {config.num_clients}", "Lower it, or raise num-clients."
        )
    yield from without_effect(config)
    if (config.rates == "given") != bool(config.clients_file) and not budgeted:
        other = "given with a clients-file" if config.clients_file else "equal or size without a clients-file"
        yield refuse("rates", other, "Set rates=given and a clients-file with a column rate together.")
    yield from _data(config)
    yield from _quorum(config)
    if config.round_seconds and config.clock:
        yield refuse("round-seconds", f"0 with clock={config.clock}, a simulated time", "Leave one of them out.")
    if config.sensitivities in ("staleness", "bound") and not config.mislabel_rate:
        remedy = "Set mislabel-rate, or sensitivities to declared."
        yield refuse("sensitivities", "declared or estimated without a mislabel-rate", remedy)
    if config.local_epochs and config.local_steps:
        yield refuse("local-steps", "0 with local-epochs", "Leave one of them out.")
    if config.sensitivities == "bound" and not config.local_steps:
        remedy = "Set local-steps, or sensitivities to staleness."
        yield refuse("sensitivities", "another without local-steps: eq. (10) needs equal steps", remedy)
    if budgeted:
        how = (config.ageing, config.index_source, config.trains, config.sensitivities)
        yield from opposed(BUDGETED[config.policy], *how)
    if config.candidates and not config.sent <= config.candidates <= config.num_clients:
        most = f"from {config.sent_as}, {config.sent}, to num-clients, {config.num_clients}"
        yield refuse("candidates", most, f"Set 0 for twice {config.sent_as}.")
    if "phases" in row.keys:
        yield from uncompensated(config.compensate, config.phases, config.jitter)
    yield from opposed_aggregation(
        row.name,
        config.weights,
        row.rates,
        own=row.weight,
        aggregation="momentum of the server" if config.server_momentum else "",
        late_rounds=config.late_rounds,
        buffer=config.buffer,
        late_updates=not budgeted,
        surplus={"over-selection": config.over_selection} if config.over_selection > 1 else {},
        private=config.privacy != "none",
        by_data=config.privacy != "none" and (row.by_data or config.sensitivities == "estimated"),
    )
    if config.spare and (budgeted or config.clients_file or config.privacy != "none"):
        other = "privacy" if config.privacy != "none" else "a budget or a clients-file"
        yield refuse("spare", f"0 with {other}, which fixes the clients", "Leave one of them out.")
    yield from private_conflicts(config)
    if config.buffer > config.clients_per_round and not budgeted:
        yield refuse("buffer", f"at most clients-per-round, {config.clients_per_round}", "Lower it.")
    if config.buffer and config.must_include:
        remedy = "Leave one of them out."
        yield refuse("buffer", "0 with must-include, since a client at work is not sent the next model", remedy)
    if config.over_selection > 1:
        if budgeted:
            yield refuse("over-selection", f"1 with policy {config.policy}, which has a budget", "Leave it out.")
        if config.sent > config.num_clients:
            most = f"smaller: {config.sent_as} makes {config.sent}, and num-clients is {config.num_clients}"
            yield refuse("over-selection", most, "Lower it.")
    if config.resume and not config.run_name:
        yield refuse("run-name", "set with resume=true", "Set it to the name of the run to continue.")


def _quorum(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error if named clients, the quorum or the cap of weights cannot be had."""
    only, must = names_of("clients", config.clients), names_of("must-include", config.must_include)
    decides, private = "coordination" in REGISTRY[config.policy].keys, config.privacy != "none"
    tagged = any(name.startswith("tag:") for name in only)
    if only and not tagged and len(only) != config.num_clients:
        n = config.num_clients
        if config.client_column:
            remedy = "Leave it out. To run with some of them, keep only their rows in the file."
            yield ConfigError("clients", config.clients, f"all {n} names of client-column, or empty", remedy)
        else:
            remedy = f"Set num-clients={len(only)}, or correct clients."
            yield ConfigError("num-clients", n, f"{len(only)}, the number of names in clients", remedy)
    if only and not tagged and (strange := [name for name in must if name not in only]):
        yield ConfigError("must-include", strange[0], f"one of clients: {config.clients}", "Add it to clients.")
    if must and (decides or private or config.policy in BUDGETED or config.weights == "unbiased"):
        why = "left out where clients decide, under a budget, in a private run and with weights=unbiased"
        yield ConfigError("must-include", config.must_include, why, "Leave it out, or choose another policy.")
    alike = decides and config.rates == "equal" and config.compensate == "none"
    yield from opposed_bound(config.volunteer_error, alike, config.late_rounds, config.buffer)
    most = config.num_clients if decides or config.policy in BUDGETED else config.clients_per_round + len(must)
    if config.min_updates > most:
        yield ConfigError("min-updates", config.min_updates, f"at most {most}, the clients of a round", "Lower it.")
    capped = config.max_weight < 1
    for key, is_set in (("min-updates", config.min_updates > 0), ("max-weight", capped)):
        unbiased = key == "max-weight" and config.weights == "unbiased"
        if is_set and (private or config.late_rounds or unbiased):
            why = "left out in a private run and with late-rounds; max-weight also with weights=unbiased"
            yield ConfigError(key, _value(config, key), why, "Leave one of them out.")
    if capped and config.min_updates * config.max_weight < 1:
        least = math.ceil(1 / config.max_weight)
        remedy = f"Raise min-updates to {least}, or max-weight."
        yield ConfigError("min-updates", config.min_updates, f"at least {least}, for such a max-weight", remedy)


def _data(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error if columns of the user's own data are missing, or have no effect."""
    tabular, own = config.dataset.startswith(("csv:", "parquet:")), config.dataset.startswith(OWN_DATA)
    if tabular != bool(config.target):
        allowed = "a column of the file" if tabular else f"left out with dataset={config.dataset}"
        yield ConfigError("target", config.target, allowed, "Name the column to predict: -c target=COLUMN.")
    if config.client_column:
        why = "" if own else f"dataset={config.dataset} names no clients"
        why = f"policy {config.policy} sets each client's data" if config.policy in BUDGETED else why
        if why:
            yield ConfigError("client-column", config.client_column, f"left out: {why}", "Leave it out.")
        for key in ("partition", "sizes", "spare"):
            if _value(config, key) != _default(key):
                allowed = "left out with client-column, which divides the rows"
                yield ConfigError(key, _value(config, key), allowed, "Leave one of them out.")


# Keys that have no effect unless another key is set.
_OTHERS = {
    "clock": ("clock-start", "until", "foresight"),
    "buffer": ("staleness-power",),
    "privacy": ("clip", "noise-multiplier", "delta", "max-epsilon", "metrics", "bands"),
}


def check_effect(config: RunKeys, typed: Collection[str]) -> None:
    """Refuse a key that a user has typed and that has no effect, even at its default.

    Raises
    ------
    ConfigError
        A key has no effect; the error names the policies that use it.
    """
    if not config.resume:
        check(without_effect(config, typed))


def without_effect(config: RunKeys, typed: Collection[str] = ()) -> Iterator[ConfigError]:
    """Yield an error for each key that is set, or was typed, and has no effect."""

    def refuse(key: str, why: str, remedy: str = "Leave it out.") -> ConfigError:
        return ConfigError(key, _value(config, key), f"left out: {why}", remedy)

    def is_set(key: str) -> bool:
        return key in typed or _value(config, key) != _default(key)

    policy, budgeted = config.policy, config.policy in BUDGETED
    for key in filter(is_set, sorted(KEYS - REGISTRY[policy].keys)):
        remedy = f"Leave it out, or choose one of the policies that use it: {', '.join(users_of(key))}."
        yield refuse(key, f"policy {policy} does not use it", remedy)
    for other, keys in _OTHERS.items():
        for key in keys:
            if _value(config, other) == _default(other) and _value(config, key) != _default(key):
                yield refuse(
                    key, f"{other} is {_default(other)!r}, which does not use it", f"Leave it out, or set {other}."
                )
    if budgeted and "clients-per-round" in typed:  # a cluster sets it under every policy
        why = f"policy {policy} selects as many clients as its budget pays"
        yield refuse("clients-per-round", why, "Leave it out, or change budget.")
    if budgeted and (config.partition != "iid" or config.sizes != "equal"):
        why = f"under policy {policy} clients-file or the drawn instance sets each client's images"
        yield refuse("sizes" if config.partition == "iid" else "partition", why)
    if (config.rates != "equal" or config.compensate == "availability") and is_set("max-age"):
        why = f"with rates={config.rates} and compensate={config.compensate} each client has a table of its own length"
        yield refuse("max-age", why)


def _value(config: RunKeys, key: str) -> Any:
    return getattr(config, snake(key))


def _default(key: str) -> Any:
    return {"max-age": USUAL_MAX_AGE}.get(key, RunKeys.model_fields[snake(key)].default)


# Aggregation


def opposed_aggregation(
    policy: str,
    weights: str,
    rates: str,
    *,
    own: str = "",
    aggregation: str = "",
    late_rounds: int = 0,
    buffer: int = 0,
    late_updates: bool = True,
    surplus: Mapping[str, float] | None = None,
    private: bool = False,
    by_data: bool = False,
) -> Iterator[ConfigError]:
    """Yield an error for each setting of the aggregation that conflicts with another setting.

    Parameters
    ----------
    policy : the policy's name
    weights : the key's value; ``own`` is the policy's value for "auto"
    rates : whether the clients' rates are "known", "learned" or "unknown"
    aggregation : the aggregation's name; empty: the weighted mean
    late_rounds : rounds that an update may be late
    buffer : updates that make a model; 0: those of a round
    late_updates : whether the policy allows late updates
    surplus : the key of over-selection with its value; empty: no over-selection
    private : whether the run is private
    by_data : whether the policy selects by clients' reports about their data
    """
    if private and by_data:
        allowed = "a policy that does not select by reports about data, which the model's noise does not hide"
        yield ConfigError("policy", policy, allowed, f"Choose another policy, for instance {DEFAULT}.")
    if private and weights not in ("auto", "equal"):
        allowed = "auto or equal in a private run, where every client weighs the same"
        yield ConfigError("weights", weights, allowed, "Leave it out.")
    unbiased = (own if weights == "auto" else weights) == "unbiased"
    if unbiased and rates == "unknown":
        yield unknown_rates(policy)
    if unbiased and aggregation:
        allowed = f"size or equal with {aggregation}, because unbiased weights need not sum to 1"
        yield ConfigError("weights", "unbiased", allowed, "Choose one of these, or another aggregation.")
    for key, value in (surplus or {}).items():
        if unbiased and rates != "learned":
            allowed = "left out with weights=unbiased, because fast clients would count too much"
            yield ConfigError(key, value, allowed, "Leave one of them out.")
    against = {
        f"policy {policy}, which has a budget, and each round pays for itself": not late_updates,
        "privacy: a late update would bring two participations of a client closer together": private,
        f"{aggregation}, because late updates need the weighted mean": bool(aggregation) and not buffer,
        "unbiased weights": unbiased,
        f"{', '.join(surplus or ())}, because a round then awaits no client": bool(surplus and buffer),
    }
    key, value = ("buffer", buffer) if buffer else ("late-rounds", late_rounds)
    for why in (why for why, holds in against.items() if holds and value):
        yield ConfigError(key, value, f"0 with {why}", "Leave one of them out.")
    if buffer and not late_rounds:
        allowed = f"at least 1 with buffer={buffer}: it bounds the staleness of an update, in models"
        yield ConfigError("late-rounds", late_rounds, allowed, "Set it, for instance to 20.")


def opposed_bound(volunteer_error: float, alike: bool, late_rounds: int, buffer: int) -> Iterator[ConfigError]:
    """Yield an error if volunteers cannot be bounded; ``alike``: clients decide, all by the same law."""
    if volunteer_error and (late_rounds or buffer or not alike):
        why = "0 unless clients decide by a law that all share, without compensate, late-rounds and buffer"
        yield ConfigError("volunteer-error", volunteer_error, why, "Leave it out.")


def uncompensated(compensate: str, phases: str, jitter: float) -> Iterator[ConfigError]:
    """Yield an error if systematic clients cannot compensate with these phases and this jitter."""
    if compensate == "dropout":
        remedy = f"Choose one of these, or policy {DEFAULT}."
        yield ConfigError("compensate", compensate, ("none", "availability"), remedy)
    if compensate == "availability" and (jitter or phases == "random"):
        allowed = f"none with phases {phases} and jitter {jitter:g}"
        yield ConfigError("compensate", compensate, allowed, "Set phases to spread, or compensate to none.")


def check(conflicts: Iterator[ConfigError]) -> None:
    """Raise the first of these errors, if there is one."""
    if (error := next(conflicts, None)) is not None:
        raise error


# A budget


def check_settings(index: str, ageing: str, source: str, trains: str, sensitivities: str) -> None:
    """Refuse unknown or conflicting settings of a budgeted policy.

    Raises
    ------
    ConfigError
        A setting is unknown, or conflicts with another.
    """
    for key, value, allowed in (
        ("index-source", source, ("server", "bid")),
        ("trains", trains, ("selected", "all")),
        ("sensitivities", sensitivities, ("declared", "estimated")),
    ):
        check_choice(key, value, allowed)
    check(opposed(index, ageing, source, trains, sensitivities))


def opposed(index: str, ageing: str, source: str, trains: str, sensitivities: str) -> Iterator[ConfigError]:
    """Yield an error for each impossible pair."""
    estimated, bid, linear = sensitivities == "estimated", source == "bid", ageing == "linear"
    if estimated and trains == "selected":
        allowed = "declared with trains=selected, because losses on fresh data show no sensitivity"
        yield ConfigError("sensitivities", sensitivities, allowed, "Set trains to all, or sensitivities to declared.")
    if estimated and bid:
        allowed = "declared with index-source=bid, because the server estimates and the clients bid"
        yield ConfigError("sensitivities", sensitivities, allowed, "Set index-source to server.")
    if bid and not linear:
        allowed = "linear with index-source=bid, because clients bid for a linear cost"
        yield ConfigError("ageing", ageing, allowed, "Set index-source to server.")
    if estimated and not linear:
        allowed = "linear with sensitivities=estimated, the slope of a loss that grows linearly with age"
        yield ConfigError("ageing", ageing, allowed, "Set sensitivities to declared.")
    if bid and index == "random":
        yield ConfigError("index-source", source, "server, because the random policy has no index", "Set it to server.")


# Privacy


def separation(config: RunKeys) -> int:
    """Return b of a run's policy, the least number of rounds between two participations, or 1."""
    from aoi_fl.science.privacy.bounds import min_separation  # NumPy is loaded for banded noise only

    row, n, k = REGISTRY[config.policy], config.num_clients, config.clients_per_round
    if config.rates != "equal" or config.compensate != "none" or k > n or not row.separated:
        return 1
    return min_separation(row.build(config.flat()), n)


def bands(config: RunKeys) -> int:
    """Return the number of bands of a run's noise."""
    return (config.bands or min(separation(config), config.num_server_rounds)) if config.privacy == "banded" else 1


def private_conflicts(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error for each combination that conflicts with a run's privacy."""
    privacy = config.privacy
    if privacy == "none":
        return
    if config.evaluate_clients and config.metrics == "hidden":
        allowed = "0 in a private run with metrics=hidden, because no noise covers what clients report"
        yield ConfigError("evaluate-clients", config.evaluate_clients, allowed, "Set it to 0, or metrics to clear.")
    if config.delta * config.num_clients >= 1:
        allowed = f"below 1/num-clients, {1 / config.num_clients:.3g}"
        yield ConfigError("delta", config.delta, allowed, "Lower it.")
    if privacy == "banded":
        yield from too_many_bands(config, config.bands)
    elif config.bands:
        yield ConfigError("bands", config.bands, "0 with privacy=white", "Leave it out, or set privacy to banded.")


def too_many_bands(config: RunKeys, wanted: int) -> Iterator[ConfigError]:
    """Yield an error if noise has more bands than rounds between two participations; 0 is as many, above 1."""
    apart = separation(config)
    how = f"max-age={config.max_age}, rates={config.rates}, compensate={config.compensate}, jitter={config.jitter:g}"
    why = f"the rounds between two participations under policy {config.policy} with {how}"
    if apart == 1 and wanted != 1:
        key, value, white = ("bands", wanted, "1") if wanted else ("privacy", config.privacy, "white")
        remedy = (
            f"Set {key} to {white}, or choose one of the policies {', '.join(SEPARATED)} with equal rates, "
            "max-age=auto and at most half of the clients a round."
        )
        yield ConfigError(key, value, f"{white}, because 1 is {why}", remedy)
    elif wanted > apart:
        yield ConfigError("bands", wanted, f"at most {apart}, {why}", f"Set at most {apart}, or max-age to auto.")
