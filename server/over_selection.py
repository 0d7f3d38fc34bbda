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
    sent = over_selected(per_round, factor)
    if weights == "unbiased":
        raise ConfigError(
            "over-selection",
            factor,
            "1 with weights=unbiased, because fast clients would count too much",
            "Leave over-selection or weights out.",
        )
    if sent > clients:
        raise ConfigError(
            "over-selection",
            factor,
            f"smaller: it makes {sent} of {per_round} clients a round, and num-clients is {clients}",
            "Lower it.",
        )
