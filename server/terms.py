"""What the clients of a simulated budgeted run cost, and how much their ages matter."""

import csv
import io
import logging
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from aoi_fl.config.policies import BUDGETED
from aoi_fl.config.run import RunConfig
from aoi_fl.protocol.clients import COLUMNS, ClientTable, check_clients, read_clients_file, section5_instance
from aoi_fl.protocol.given_rates import read_rates
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.rates import LONGEST, given_rates
from aoi_fl.science.sensitivity import ConvergenceConstants, sensitivities
from aoi_fl.server.folder import RATES_FILE, keep

logger = logging.getLogger("flwr")

Rates: TypeAlias = dict[str, float] | list[float]
"""r_i by the clients' names, or in order of their numbers."""


def check_tables(config: RunConfig) -> None:
    """Raise ConfigError unless a simulated run's tables of clients, if it has any, can be used."""
    if config.policy in BUDGETED:
        _client_table(config)
    rates_of(config, simulated=True)


def client_table(config: RunConfig) -> ClientTable:
    """Return the clients of the configured file, or an instance drawn as in Xu et al. 2024, Section 5.

    Data go bad alike unless ``staleness`` ends in ``own``. With ``sensitivities`` set to ``staleness``, φ_i is the
    client's share of the data times its rate, 1 in the mean of clients that are alike: what an error in its data does
    to the model. With ``bound`` it is eq. (10) of Xu et al. 2024 but for a factor that all share, 1 in the mean: α_i
    σ_i², where α_i goes for the most part by the square of the client's share as soon as it makes more than a step, and
    σ_i², the growth of the squared gradient's bound with age, by the rate at which its labels go wrong. The convexity
    μ is unknown and is taken as 1: with 10 steps of 0.005 any smaller one changes no φ_i by a part in 10,000.

    Raises
    ------
    ConfigError
        The file cannot be read, has another number of clients than ``num-clients``, or names a client that no
        budgeted run can work with.
    """
    table, warnings = _client_table(config)
    if config.clients_file:  # by the file's names; the strategy warns too, by those that the clients go by
        for warning in warnings:
            logger.warning("%s: %s", config.clients_file, warning)
    return table


def _client_table(config: RunConfig) -> tuple[ClientTable, list[str]]:
    """Return the table, and warnings about clients that can never be chosen."""
    own = config.mislabelled is not None and config.mislabelled[2]
    if not config.clients_file:
        table = section5_instance(config.num_clients, config.seed)
    else:
        table = read_clients_file(Path(config.clients_file), own_staleness=own)
        if len(table.names) != config.num_clients:
            raise ConfigError(
                "num-clients",
                config.num_clients,
                f"{len(table.names)}, as in clients-file {config.clients_file}",
                f"Set num-clients={len(table.names)}.",
            )
    if not own:
        table = replace(table, staleness=np.ones(config.num_clients))
    if config.sensitivities == "staleness":
        table = replace(table, sensitivities=table.sizes / table.sizes.mean() * table.staleness)
    elif config.sensitivities == "bound":
        constants = ConvergenceConstants(1.0, 1.0, config.step_size, config.local_steps)
        growing = sensitivities(table.sizes, table.staleness, constants, 1)
        table = replace(table, sensitivities=growing / growing.mean())
    total = config.total_budget
    return table, check_clients(
        table.payments, table.sensitivities, config.round_budget, table.names, config.budget_rule == "strict", total
    )


def rates_of(config: RunConfig, folder: Path | None = None, *, simulated: bool = False) -> Rates | None:
    """Return each client's own rate by the configured file, by name or number; None where rates are not given.

    A run that goes on finds them in its ``folder``, as :func:`write_rates` has kept them, whatever has become of the
    file since. One begun by a version that kept none goes on by the file.

    Raises
    ------
    ConfigError
        The file cannot be read, or its rates are not those of ``num-clients`` clients that add up to a round's; it
        names others than there are where clients are ``simulated``; or a rate is too small for a Markov table.
    """
    if config.rates != "given":
        return None
    path, what = Path(config.clients_file), "clients-file"
    if config.resume and folder is not None and (folder / RATES_FILE).exists():
        path, what = folder / RATES_FILE, "the run's own"
    try:
        found = read_rates(path, config.num_clients, simulated=simulated)
    except ConfigError as error:
        raise error.within(what) from error
    rates = found if isinstance(found, dict) else {str(i): rate for i, rate in enumerate(found)}
    try:
        given_rates(list(rates.values()), config.sent, list(rates))
    except ConfigError as error:
        raise error.within(f"{what} {path}", per_round=config.sent_as) from error
    rarest = min(rates, key=rates.__getitem__)
    if config.policy == "markov-optimal" and not config.resume and rates[rarest] * LONGEST < 1:
        raise ConfigError(
            f"{what} {path}: rate of client {rarest}",
            rates[rarest],
            f"at least {1 / LONGEST:g}, for a table of at most {LONGEST} ages",
            "Raise the rate, or set policy=systematic.",
        )
    return found


def write_rates(path: Path, rates: Rates) -> None:
    """Write the rates of a clients file into the run's folder, for a resumed run."""
    rows = [("name", "rate"), *rates.items()] if isinstance(rates, dict) else [("rate",), *((r,) for r in rates)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerows(rows)  # a name may begin with a space
    keep(path, text.getvalue().encode())


def write_table(path: Path, table: ClientTable) -> None:
    """Write the clients where each of them finds its own row."""
    columns = table.names, table.sizes, table.payments, table.sensitivities, table.ages, table.staleness
    text = io.StringIO(newline="")
    csv.writer(text).writerows([COLUMNS, *zip(*columns, strict=True)])
    keep(path, text.getvalue().encode())
