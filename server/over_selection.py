"""Over-selection: more clients are sent the model than updates are wanted, and the first to come are taken."""

import math

from aoi_fl.science.errors import ConfigError


def over_selected(per_round: int, factor: float) -> int:
    """Return how many clients are sent the model where a round wants so many updates and takes the first of them.

    >>> over_selected(15, 1.3), over_selected(10, 1.1)
    (20, 11)
    """
    return math.ceil(per_round * factor - 1e-9)


def check_over_selection(factor: float, per_round: int, clients: int, weights: str) -> None:
    """Raise ConfigError where a factor above 1 does not go with the weights, or takes more clients than there are."""
    what, sent = f"over-selection is {factor:g}", over_selected(per_round, factor)
    if weights == "unbiased":
        raise ConfigError(f"{what}, and weights is unbiased: who is fast would count too much; set one of them back")
    if sent > clients:
        raise ConfigError(
            f"{what}, which makes {sent} of {per_round} clients a round, more than num-clients, {clients}: lower it"
        )
