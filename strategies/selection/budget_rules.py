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
            raise ConfigError(f"{key} is {value!r}: choose one of {', '.join(allowed)}.")
    found = opposed(index, ageing, source, trains, sensitivities, begins=begins)
    if words := next(found, None):
        raise ConfigError(f"{words}.")


def opposed(index: str, ageing: str, source: str, trains: str, sensitivities: str, *, begins: bool) -> Iterator[str]:
    """Yield what does not go together; what an earlier version let pass only where a run ``begins``."""
    estimated, bid, linear = sensitivities == "estimated", source == "bid", ageing == "linear"
    if estimated and trains == "selected" and begins:
        yield (
            "sensitivities is estimated, but trains is selected: whoever trains has just refreshed, and from losses on "
            "fresh data nothing is learnt; set trains to all, or sensitivities to declared"
        )
    if estimated and bid:
        yield (
            "sensitivities is estimated, but index-source is bid: the server estimates, and a client that bids knows "
            "nothing of it; set index-source to server"
        )
    if bid and not linear:
        yield (
            f"ageing is {ageing}, but index-source is bid, and clients bid as if it were linear: set index-source to "
            "server"
        )
    if estimated and not linear:
        yield (
            f"ageing is {ageing}, but sensitivities is estimated, as the slope of a loss that grows linearly with age: "
            "set sensitivities to declared"
        )
    if bid and index == "random":
        yield "index-source is bid, but the random policy has no index to bid: set index-source to server"
