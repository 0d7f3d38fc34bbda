"""Options of several commands, and clients' rates and a check of memory for two of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.config.run import RunConfig
    from aoi_fl.science.types import Floats

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Run = Annotated[str, typer.Argument(metavar="RUN", hidden=True)]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", hidden=True)]
Workers = Annotated[int, typer.Option(min=1, max=1024, help="Processes that run in parallel.")]
# Peak bytes of a simulation and its measures (aoi_fl.science.simulate), per client and per participation.
_A_CLIENT, _A_PARTICIPATION = 200, 90
_A_COIN = 20_000  # bytes of a client with a Bernoulli clock, a draw every ten minutes of a week


def check_memory(clients: int, participations: float, clock: str) -> None:
    """Check that a simulation's history and its Bernoulli clock fit into memory.

    Raises
    ------
    ConfigError : it needs more than four fifths of what this process may use.
    """
    from aoi_fl.server.engine.machine import usable_memory

    a_client = _A_CLIENT + (_A_COIN if clock.startswith("bernoulli:") else 0)
    needed, room = a_client * clients + _A_PARTICIPATION * participations, 0.8 * usable_memory()
    if needed > room:
        raise ConfigError(
            "participations",
            f"{participations:.3g}",
            f"fewer: {clients} clients need about {needed / 1e9:.3g} GB of memory, and {room / 1e9:.3g} GB are free",
            "Lower rounds, clients or per-round.",
        )


def rates_by(config: RunConfig) -> tuple[Floats, int]:
    """Return (n,) the clients' rates by a configuration, and how many are capped at 1."""
    from aoi_fl.science.markov import check_sizes
    from aoi_fl.science.rates import given_rates, make_rates
    from aoi_fl.science.sizes import make_sizes

    n, k = config.num_clients, config.sent
    check_sizes(n, k, 0)
    if config.rates != "given":
        return make_rates(config.rates, make_sizes(config.sizes, n, config.seed), k)
    from aoi_fl.protocol import default_name
    from aoi_fl.protocol.given_rates import read_rates

    rates = read_rates(Path(config.clients_file), n, names=[default_name(i) for i in range(n)])
    names = list(rates) if isinstance(rates, dict) else [str(i) for i in range(n)]
    return given_rates(list(rates.values()) if isinstance(rates, dict) else rates, k, names), 0
