"""Which settings of a budgeted strategy there are, and which do not go together."""

from collections.abc import Iterator

from aoi_fl.science.errors import ConfigError


def check_settings(index: str, ageing: str, source: str, trains: str, sensitivities: str, *, begins: bool) -> None:
    """Refuse settings that there are not, or that do not go together.

    A run that ``begins`` is refused what an earlier version let pass; one that goes on is not.

    Raises
    ------
    ConfigError
        Naming the setting, its value and what to set.
    """
    for key, value, allowed in (
        ("index-source", source, ("server", "bid")),
        ("trains", trains, ("selected", "all")),
        ("sensitivities", sensitivities, ("declared", "estimated")),
    ):
        if value not in allowed:
            raise ConfigError(key, value, allowed, "Choose one of these.")
    if (error := next(opposed(index, ageing, source, trains, sensitivities, begins=begins), None)) is not None:
        raise error


def opposed(
    index: str, ageing: str, source: str, trains: str, sensitivities: str, *, begins: bool
) -> Iterator[ConfigError]:
    """Yield an error for each pair that is not possible; some only where a run ``begins``: earlier versions took it."""
    estimated, bid, linear = sensitivities == "estimated", source == "bid", ageing == "linear"
    if estimated and trains == "selected" and begins:
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
