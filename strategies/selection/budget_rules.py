"""Which settings of a budgeted strategy there are, and which do not go together."""

from aoi_fl.science.budget import BudgetedSelector
from aoi_fl.science.errors import ConfigError


def check_settings(selector: BudgetedSelector, source: str, trains: str, sensitivities: str, *, begins: bool) -> None:
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
    estimated, bid, linear = sensitivities == "estimated", source == "bid", selector.ageing == "linear"
    for refused, words in (
        (
            estimated and trains == "selected" and begins,
            "sensitivities is 'estimated', but trains is 'selected': whoever trains has just refreshed, and from "
            "losses on fresh data nothing is learnt; set trains to 'all', or sensitivities to 'declared'.",
        ),
        (
            estimated and bid,
            "sensitivities is 'estimated', but index-source is 'bid': the server estimates, and a client that bids "
            "knows nothing of it; set index-source to 'server'.",
        ),
        (
            bid and not linear,
            f"ageing is {selector.ageing!r}, but index-source is 'bid', and clients bid as if it were linear: set it "
            "to 'server'.",
        ),
        (
            estimated and not linear,
            f"ageing is {selector.ageing!r}, but sensitivities is 'estimated', as the slope of a loss that grows "
            "linearly with age: set it to 'declared'.",
        ),
        (
            bid and selector.index == "random",
            "index-source is 'bid', but the random policy has no index to bid: set it to 'server'.",
        ),
    ):
        if refused:
            raise ConfigError(words)
