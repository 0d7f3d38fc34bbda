"""From a configuration to a strategy."""

from pathlib import Path
from typing import Any

from aoi_fl.server.config import RunConfig
from aoi_fl.strategies import RoundOptions
from aoi_fl.strategies.registry import REGISTRY
from aoi_fl.strategies.round import AgeAwareStrategy
from aoi_fl.wire.given_rates import read_rates


def make_strategy(config: RunConfig, run: str, **settings: Any) -> AgeAwareStrategy:
    """Return the strategy that a configuration asks for.

    Parameters
    ----------
    config : the run's configuration
    run : our own name of the run
    settings : observer, configure and resume of :class:`aoi_fl.strategies.round.AgeAwareStrategy`
    """
    options = RoundOptions(
        run=run,
        seed=config.seed,
        min_clients=config.num_clients,
        join_timeout=config.join_timeout,
        ask_timeout=config.ask_timeout,
        train_timeout=config.train_timeout,
        evaluate_timeout=config.evaluate_timeout,
        deterministic=config.deterministic,
        evaluate_clients=config.evaluate_clients,
        max_empty_rounds=config.max_empty_rounds,
        compression=config.compression,
        enough=config.clients_per_round if config.over_selection > 1 else None,
        late_rounds=config.late_rounds,
        until=config.until,
        foresight=config.foresight,
    )
    keys: dict[str, Any] = config.flat() | {"clients-per-round": config.sent}
    if config.rates == "given":
        keys["rates"] = read_rates(Path(config.clients_file), config.num_clients)
    return REGISTRY[config.policy].make(keys, options=options, weights=config.weights, **settings)
