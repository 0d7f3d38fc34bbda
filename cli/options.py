"""Clients' rates for ``aoi privacy`` and ``aoi simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aoi_fl.config.run import RunConfig

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def rates_by(config: RunConfig) -> tuple[NDArray[np.float64], int]:
    """Return (n,) the clients' rates by a configuration, and how many are capped at 1."""
    from aoi_fl.science.markov import check_sizes
    from aoi_fl.science.rates import given_rates, make_rates
    from aoi_fl.science.sizes import make_sizes

    n, k = config.num_clients, config.sent
    check_sizes(n, k, 0)
    if config.rates != "given":
        return make_rates(config.rates, make_sizes(config.sizes, n, config.seed), k)
    from aoi_fl.protocol.given_rates import read_rates
    from aoi_fl.server.terms import simulated_names

    rates = read_rates(Path(config.clients_file), n, names=simulated_names(config))
    names = list(rates) if isinstance(rates, dict) else [str(i) for i in range(n)]
    return given_rates(list(rates.values()) if isinstance(rates, dict) else rates, k, names), 0
