"""All combinations of run keys that are not possible, though each value is in its range."""

import math
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from aoi_fl.config.fields import snake
from aoi_fl.config.keys import RunKeys
from aoi_fl.config.policies import BUDGETED, DEFAULT, KEYS, REGISTRY, SEPARATED, users_of
from aoi_fl.config.task import OWN_DATA
from aoi_fl.config.values import names_of
from aoi_fl.science.errors import ConfigError, check_choice, unknown_rates
from aoi_fl.science.names import USUAL_MAX_AGE

Conflicts: TypeAlias = Iterator[ConfigError]


def conflicts(config: RunKeys) -> Conflicts:
    """Yield an error for each combination that is not possible."""
    refuse = partial(_refusal, config)
    row, budgeted, private = REGISTRY[config.policy], config.policy in BUDGETED, config.privacy != "none"
    n, k, sent = config.num_clients, config.clients_per_round, config.sent
    if not budgeted and k > n:
        yield refuse("clients-per-round", f"at most num-clients, {n}", "Lower it, or raise num-clients.")
    yield from without_effect(config)
    if (config.rates == "given") != bool(config.clients_file) and not budgeted:
        other = "given with a clients-file" if config.clients_file else "equal or size without a clients-file"
        yield refuse("rates", other, "Set rates=given and a clients-file with a column rate together.")
    yield from _data(config)
    yield from _opposed_keys(config)
    yield from _quorum(config)
    if config.sensitivities in ("staleness", "bound") and not config.mislabel_rate:
        remedy = "Set mislabel-rate, or sensitivities to declared."
        yield refuse("sensitivities", "declared or estimated without a mislabel-rate", remedy)
    if config.sensitivities == "bound" and not config.local_steps:
        remedy = "Set local-steps, or sensitivities to staleness."
        yield refuse("sensitivities", "another without local-steps: eq. (10) needs equal steps", remedy)
    if budgeted:
        how = (config.ageing, config.index_source, config.trains, config.sensitivities)
        yield from opposed(BUDGETED[config.policy], *how)
    if config.candidates and not sent <= config.candidates <= n:
        most = f"from {config.sent_as}, {sent}, to num-clients, {n}"
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
        private=private,
        by_data=private and (row.by_data or config.sensitivities == "estimated"),
    )
    if private:
        yield from _of_privacy(config)
    if config.buffer > k and not budgeted:
        yield refuse("buffer", f"at most clients-per-round, {k}", "Lower it.")
    if config.over_selection > 1 and sent > n:
        yield refuse("over-selection", f"smaller: {config.sent_as} makes {sent}, and num-clients is {n}", "Lower it.")
    if config.resume and not config.run_name:
        yield refuse("run-name", "set with resume=true", "Set it to the name of the run to continue.")


def _opposed_keys(config: RunKeys) -> Conflicts:
    """Yield an error for each key that is set beside a setting that leaves it no room."""
    against: dict[str, tuple[object, tuple[str, ...]]] = {
        f"policy {config.policy}, where a budget, and clients-file or the drawn instance, decide": (
            config.policy in BUDGETED,
            ("client-column", "partition", "sizes", "spare", "over-selection", "must-include"),
        ),
        "privacy": (config.privacy != "none", ("spare", "must-include", "min-updates", "max-weight")),
        "a clients-file": (config.clients_file, ("spare",)),
        "client-column, which divides the rows": (config.client_column, ("partition", "sizes", "spare")),
        "clients that decide": ("coordination" in REGISTRY[config.policy].keys, ("must-include",)),
        "weights=unbiased": (config.weights == "unbiased", ("must-include", "max-weight")),
        "late-rounds": (config.late_rounds, ("min-updates", "max-weight")),
        "must-include, since a client at work is not sent the next model": (config.must_include, ("buffer",)),
        "a clock, which simulates time": (config.clock, ("round-seconds",)),
        "local-epochs": (config.local_epochs, ("local-steps",)),
    }
    for other, (holds, keys) in against.items():
        for key in keys if holds else ():
            if _is_set(config, key):
                yield _refusal(config, key, f"left out with {other}", "Leave one of them out.")


def _quorum(config: RunKeys) -> Conflicts:
    """Yield an error if named clients, the quorum or the cap of weights cannot be had."""
    only, must = names_of("clients", config.clients), names_of("must-include", config.must_include)
    decides, n, least = "coordination" in REGISTRY[config.policy].keys, config.num_clients, config.min_updates
    listed = only and not any(name.startswith("tag:") for name in only)
    if listed and len(only) != n:
        if config.client_column:
            remedy = "Leave it out. To run with some of them, keep only their rows in the file."
            yield _refusal(config, "clients", f"all {n} names of client-column, or empty", remedy)
        else:
            remedy = f"Set num-clients={len(only)}, or correct clients."
            yield _refusal(config, "num-clients", f"{len(only)}, the number of names in clients", remedy)
    if listed and (strange := [name for name in must if name not in only]):
        yield ConfigError("must-include", strange[0], f"one of clients: {config.clients}", "Add it to clients.")
    alike = decides and config.rates == "equal" and config.compensate == "none"
    yield from opposed_bound(config.volunteer_error, alike, config.late_rounds, config.buffer)
    most = n if decides or config.policy in BUDGETED else config.clients_per_round + len(must)
    if least > most:
        yield _refusal(config, "min-updates", f"at most {most}, the clients of a round", "Lower it.")
    if config.max_weight < 1 and least * config.max_weight < 1:
        enough = math.ceil(1 / config.max_weight)
        remedy = f"Raise min-updates to {enough}, or max-weight."
        yield _refusal(config, "min-updates", f"at least {enough}, for such a max-weight", remedy)


def _data(config: RunKeys) -> Conflicts:
    """Yield an error if columns of the user's own data are missing, or have no effect."""
    tabular, names = config.dataset.startswith(("csv:", "parquet:")), f"dataset={config.dataset}"
    if tabular != bool(config.target):
        allowed = "a column of the file" if tabular else f"left out with {names}"
        yield _refusal(config, "target", allowed, "Name the column to predict: -c target=COLUMN.")
    if config.client_column and not config.dataset.startswith(OWN_DATA):
        yield _refusal(config, "client-column", f"left out: {names} names no clients")


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


def without_effect(config: RunKeys, typed: Collection[str] = ()) -> Conflicts:
    """Yield an error for each key that is set, or was typed, and has no effect."""
    policy = config.policy
    for key in sorted(KEYS - REGISTRY[policy].keys):
        if key in typed or _is_set(config, key):
            remedy = f"Leave it out, or choose one of the policies that use it: {', '.join(users_of(key))}."
            yield _refusal(config, key, f"left out: policy {policy} does not use it", remedy)
    for other, keys in _OTHERS.items():
        for key in () if _is_set(config, other) else filter(partial(_is_set, config), keys):
            why = f"left out: {other} is {_default(other)!r}, which does not use it"
            yield _refusal(config, key, why, f"Leave it out, or set {other}.")
    if policy in BUDGETED and "clients-per-round" in typed:  # a cluster sets it under every policy
        why = f"left out: policy {policy} selects as many clients as its budget pays"
        yield _refusal(config, "clients-per-round", why, "Leave it out, or change budget.")
    each = config.rates != "equal" or config.compensate == "availability"
    if each and ("max-age" in typed or _is_set(config, "max-age")):
        how = f"rates={config.rates} and compensate={config.compensate}"
        yield _refusal(config, "max-age", f"left out: with {how} each client has a table of its own length")


def _refusal(config: RunKeys, key: str, allowed: str, remedy: str = "Leave it out.") -> ConfigError:
    return ConfigError(key, getattr(config, snake(key)), allowed, remedy)


def _default(key: str) -> Any:
    return USUAL_MAX_AGE if key == "max-age" else RunKeys.model_fields[snake(key)].default


def _is_set(config: RunKeys, key: str) -> bool:
    return bool(getattr(config, snake(key)) != _default(key))


# Aggregation


def opposed_aggregation(
    policy: str,
    weights: str,
    rates: str,
    *,
    own: str = "",
    aggregation: str,
    late_rounds: int,
    buffer: int,
    late_updates: bool,
    surplus: Mapping[str, float],
    private: bool,
    by_data: bool,
) -> Conflicts:
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
    for key, value in surplus.items():
        if unbiased and rates != "learned":
            allowed = "left out with weights=unbiased, because fast clients would count too much"
            yield ConfigError(key, value, allowed, "Leave one of them out.")
    against = {
        f"policy {policy}, which has a budget, and each round pays for itself": not late_updates,
        "privacy: a late update would bring two participations of a client closer together": private,
        f"{aggregation}, because late updates need the weighted mean": bool(aggregation) and not buffer,
        "unbiased weights": unbiased,
        f"{', '.join(surplus)}, because a round then awaits no client": bool(surplus and buffer),
    }
    key, value = ("buffer", buffer) if buffer else ("late-rounds", late_rounds)
    for why in (why for why, holds in against.items() if holds and value):
        yield ConfigError(key, value, f"0 with {why}", "Leave one of them out.")
    if buffer and not late_rounds:
        allowed = f"at least 1 with buffer={buffer}: it bounds the staleness of an update, in models"
        yield ConfigError("late-rounds", late_rounds, allowed, "Set it, for instance to 20.")


def opposed_bound(volunteer_error: float, alike: bool, late_rounds: int, buffer: int) -> Conflicts:
    """Yield an error if volunteers cannot be bounded; ``alike``: clients decide, all by the same law."""
    if volunteer_error and (late_rounds or buffer or not alike):
        why = "0 unless clients decide by a law that all share, without compensate, late-rounds and buffer"
        yield ConfigError("volunteer-error", volunteer_error, why, "Leave it out.")


def uncompensated(compensate: str, phases: str, jitter: float) -> Conflicts:
    """Yield an error if systematic clients cannot compensate with these phases and this jitter."""
    if compensate == "dropout":
        remedy = f"Choose one of these, or policy {DEFAULT}."
        yield ConfigError("compensate", compensate, ("none", "availability"), remedy)
    if compensate == "availability" and (jitter or phases == "random"):
        allowed = f"none with phases {phases} and jitter {jitter:g}"
        yield ConfigError("compensate", compensate, allowed, "Set phases to spread, or compensate to none.")


def check(conflicts: Conflicts) -> None:
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


def opposed(index: str, ageing: str, source: str, trains: str, sensitivities: str) -> Conflicts:
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


def _of_privacy(config: RunKeys) -> Conflicts:
    """Yield an error for each combination that conflicts with a run's privacy."""
    if config.evaluate_clients and config.metrics == "hidden":
        allowed = "0 in a private run with metrics=hidden, because no noise covers what clients report"
        yield _refusal(config, "evaluate-clients", allowed, "Set it to 0, or metrics to clear.")
    if config.delta * config.num_clients >= 1:
        yield _refusal(config, "delta", f"below 1/num-clients, {1 / config.num_clients:.3g}", "Lower it.")
    if config.privacy == "banded":
        yield from too_many_bands(config, config.bands)
    elif config.bands:
        yield _refusal(config, "bands", "0 with privacy=white", "Leave it out, or set privacy to banded.")


def too_many_bands(config: RunKeys, wanted: int) -> Conflicts:
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
