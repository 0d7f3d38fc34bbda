"""Options that ``aoi policy`` and ``aoi simulate`` share, and how both refuse those that mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from aoi_fl.cli.keys import Number, given
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import RateRule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The ranges are those of the run keys, where there is one: aoi_fl.server.keys.
Clients = Annotated[int, typer.Option(click_type=Number(1, 1_000_000), help="Number of clients n.")]
PerRound = Annotated[
    int, typer.Option(click_type=Number(1, 1_000_000), help="Clients a round k; in the mean, where clients decide.")
]
MaxAge = Annotated[
    int, typer.Option(click_type=Number(0, 10_000), help="Largest age m that a Markov policy tells apart.")
]
Exponent = Annotated[float, typer.Option(click_type=Number(1e-9, 20.0), help="α of markov-increasing.")]
Sizes = Annotated[str, typer.Option(help="Examples a client: equal, zipf:A or uniform:LO:HI.")]
Rates = Annotated[
    str, typer.Option(help="Each client's share of the rounds: equal, size (in proportion to it), or given by a file.")
]
Phases = Annotated[str, typer.Option(help="Phases of systematic clients: spread by the roll call, or random.")]
Jitter = Annotated[
    float,
    typer.Option(
        click_type=Number(0.0, 1.0), help="Most by which a systematic client is late, in its strides, 0 to 1."
    ),
]
Seed = Annotated[int, typer.Option(click_type=Number(0, 2**63 - 1), help="The same seed plays the same rounds.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]

# Bytes that a simulation and its measures peak at (aoi_fl.science.simulate), by the client and by the participation.
_A_CLIENT, _A_PARTICIPATION = 200, 90
_A_COIN = 20_000  # of a client that tosses one every ten minutes of a week


def pick(option: str, value: str, makers: dict[str, Callable[[], Any]]) -> Any:
    """Make what a value names, or refuse it with the names there are."""
    if value not in makers:
        raise ConfigError(option, value, tuple(makers), "Choose one of these values.")
    return makers[value]()


def reject(context: typer.Context, names: Iterable[str], about: str, remedy: str) -> None:
    """Refuse options that were given and that would be ignored."""
    for name in names:
        if given(context, name):
            raise ConfigError(
                name.replace("_", "-"),
                context.params[name],
                f"left out: {about} does not use it",
                f"{remedy[0].upper()}{remedy[1:]}.",
            )


def reject_max_age(context: typer.Context, rates: str) -> None:
    """Refuse a largest age for all where clients have rates of their own; unknown rules are refused elsewhere."""
    if rates in get_args(RateRule) and rates != "equal":
        remedy = "leave it out: each client has a table of its own, which is as long as it needs to be"
        reject(context, ["max_age"], f"rates {rates!r}", remedy)


def check_memory(clients: int, participations: float, clock: str | None = None) -> None:
    """See that the history of a simulation has room, and its clients' clock, where they toss a coin.

    Raises
    ------
    ConfigError
        It needs more than four fifths of what this process may use.
    """
    from aoi_fl.engine.machine import usable_memory

    a_client = _A_CLIENT + (_A_COIN if clock and clock.startswith("bernoulli:") else 0)
    needed, room = a_client * clients + _A_PARTICIPATION * participations, 0.8 * usable_memory()
    if needed > room:
        raise ConfigError(
            "participations",
            f"{participations:.3g}",
            f"fewer: {clients} clients need about {needed / 1e9:.3g} GB of memory, and {room / 1e9:.3g} GB are free",
            "Lower rounds, clients or per-round.",
        )


def rates_by(
    rule: str, sizes: str, file: Path | None, clients: int, per_round: int, seed: int, most: float = 1.0
) -> tuple[NDArray[np.float64], int]:
    """Return the clients' rates by a rule, and how many of them are capped at the largest rate."""
    from aoi_fl.protocol.given_rates import read_rates
    from aoi_fl.science.markov import check_sizes
    from aoi_fl.science.rates import given_rates, make_rates
    from aoi_fl.science.sizes import make_sizes

    check_sizes(clients, per_round, 0)
    if rule not in (rules := get_args(RateRule)):
        raise ConfigError("rates", rule, rules, "Choose one of these rules.")
    if (rule == "given") != (file is not None):
        raise ConfigError(
            "rates",
            rule,
            "given if there is a clients-file" if file else "equal or size without a clients-file",
            "Give --rates given and a --clients-file with a column rate together.",
        )
    if file is not None:
        found = read_rates(file, clients, simulated=True)
        names = list(found) if isinstance(found, dict) else [str(i) for i in range(clients)]
        return given_rates(list(found.values()) if isinstance(found, dict) else found, per_round, names), 0
    return make_rates(cast(RateRule, rule), make_sizes(sizes, clients, seed), per_round, most)
