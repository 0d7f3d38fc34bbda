"""Prices, sensitivities and rates of a simulated run's clients."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from aoi_fl.config.policies import REGISTRY, users_of
from aoi_fl.config.run import RunConfig
from aoi_fl.protocol.clients import COLUMNS, ClientTable, check_clients, read_clients_file, section5_instance
from aoi_fl.protocol.given_rates import read_rates
from aoi_fl.protocol.log import logger
from aoi_fl.science.convergence import ConvergenceConstants, sensitivities
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.rates import LONGEST, given_rates
from aoi_fl.server.folder import RATES_FILE, keep
from aoi_fl.strategies.validation import some_of

Rates: TypeAlias = dict[str, float] | list[float]
"""r_i by the clients' names, or in order of their numbers."""


def client_table(config: RunConfig) -> ClientTable:
    """Return the clients of the configured file, or draw them as in Xu et al. 2024, Section 5.

    All data become stale at the same rate unless ``staleness-rates=own``. With ``sensitivities=staleness``, φ_i
    is the client's share of the data times its rate of staleness, scaled to 1 for equal clients. It measures the effect
    of an error in the client's data on the model.

    With ``sensitivities=bound``, φ_i is α_i σ_i², eq. (10) of Xu et al. 2024, scaled to a mean of 1. With more than one
    step, α_i is nearly proportional to the square of the client's share. σ_i², the growth of the squared gradient's
    bound with age, follows the rate of wrong labels. The convexity μ is unknown and set to 1; with 10 steps of 0.005 a
    smaller μ changes φ_i by less than 1 in 10,000.

    Raises
    ------
    ConfigError : the file cannot be read, has another number of clients than ``num-clients``, or has invalid values.
    """
    own = config.staleness_rates == "own"
    if not config.clients_file:
        table = section5_instance(config.num_clients, config.seed)
    else:
        table = read_clients_file(Path(config.clients_file), own_staleness=own)
        if len(table.names) != config.num_clients:
            allowed = f"{len(table.names)}, as in clients-file {config.clients_file}"
            raise ConfigError("num-clients", config.num_clients, allowed, f"Set num-clients={len(table.names)}.")
    if not own:
        table = replace(table, staleness=np.ones(config.num_clients))
    if config.sensitivities == "staleness":
        table = replace(table, sensitivities=table.sizes / table.sizes.mean() * table.staleness)
    elif config.sensitivities == "bound":
        constants = ConvergenceConstants(1.0, 1.0, config.learning_rate, config.local_steps)
        growing = sensitivities(table.sizes, table.staleness, constants, 1)
        table = replace(table, sensitivities=growing / growing.mean())
    total = config.total_budget or math.inf
    warnings = check_clients(table.payments, table.sensitivities, config.budget, table.names, total)
    if config.clients_file:  # with the file's names; the strategy repeats the warnings with the clients' names
        for warning in warnings:
            logger.warning("%s: %s", config.clients_file, warning)
    return table


def rates_of(config: RunConfig, folder: Path, names: Sequence[str] = ()) -> Rates | None:
    """Return each client's own rate from the configured file, by name or number, or None; ``names`` of a simulation.

    A resumed run reads them from its ``folder``, where :func:`write_rates` has saved them, even if the file has
    changed.

    Raises
    ------
    ConfigError : the file cannot be read; its rates do not match ``num-clients`` or do not add up to the clients of a
        round; it has other ``names`` than the simulated clients; or a rate is too small for a Markov table.
    """
    if config.rates != "given":
        return None
    path, what = Path(config.clients_file), "clients-file"
    if config.resume:
        path, what = folder / RATES_FILE, "the run's own"
    try:
        given = read_rates(path, config.num_clients, names=names)
    except ConfigError as error:
        raise error.within(what) from error
    rates = given if isinstance(given, dict) else {str(i): rate for i, rate in enumerate(given)}
    try:
        given_rates(list(rates.values()), config.sent, list(rates), config.sent_as)
    except ConfigError as error:
        raise error.within(f"{what} {path}") from error
    rarest = min(rates, key=rates.__getitem__)
    if "max-age" in REGISTRY[config.policy].keys and not config.resume and rates[rarest] * LONGEST < 1:
        allowed = f"at least {1 / LONGEST:g}, for a table of at most {LONGEST} ages"
        remedy = f"Raise the rate, or set policy={users_of('phases')[0]}."
        raise ConfigError(f"{what} {path}: rate of client {rarest}", rates[rarest], allowed, remedy)
    return given


def check_names(config: RunConfig, known: Sequence[str]) -> None:
    """Raise ConfigError if ``clients`` or ``must-include`` names a client that a simulation does not have."""
    for key, value in (("clients", config.clients), ("must-include", config.must_include)):
        for name in filter(None, value.split(",")):
            if name not in known:
                allowed = f"the name of a simulated client: {some_of(known)}"
                raise ConfigError(key, name, allowed, "Correct it, or leave it out: all simulated clients take part.")


def write_rates(path: Path, rates: Rates) -> None:
    """Write the rates of a clients file into the run's folder, for a resumed run."""
    rows = [("name", "rate"), *rates.items()] if isinstance(rates, dict) else [("rate",), *((r,) for r in rates)]
    _keep_rows(path, rows)


def write_table(path: Path, table: ClientTable) -> None:
    """Write the table from which each client reads its row."""
    _keep_rows(path, [COLUMNS, *zip(*vars(table).values(), strict=True)])


def _keep_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    keep(path, text.getvalue().encode())
