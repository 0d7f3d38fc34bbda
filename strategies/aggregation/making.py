"""Which aggregation a strategy has: our weighted mean, a Flower strategy, or a private mean around one of them."""

from dataclasses import replace

from flwr.serverapp.strategy import Strategy

from aoi_fl.config.rules import check, opposed_aggregation
from aoi_fl.science.errors import ConfigError, check_choice
from aoi_fl.strategies import weighting
from aoi_fl.strategies.aggregation.base import Aggregation
from aoi_fl.strategies.aggregation.flower import FlowerAggregation
from aoi_fl.strategies.aggregation.mean import Mean
from aoi_fl.strategies.aggregation.private import ByPrivateMean, PrivateMean, account_of
from aoi_fl.strategies.fedavg_arguments import inherited
from aoi_fl.strategies.plan import RoundOptions
from aoi_fl.strategies.policy import Policy


def make_aggregation(
    policy: Policy,
    aggregation: Strategy | PrivateMean | None,
    weights: str,
    options: RoundOptions,
    *,
    clients: int,
    resumed: bool,
) -> tuple[Aggregation, str, RoundOptions]:
    """Return the aggregation, with the weights and options that it leaves.

    Parameters
    ----------
    policy, aggregation, weights, options : as in :class:`aoi_fl.strategies.strategy.AgeAwareStrategy`
    clients : clients that the run needs
    resumed : whether the run goes on

    Raises
    ------
    ConfigError
        Settings do not go together, or with the policy.
    """
    check_choice("weights", weights, weighting.KINDS)
    traits, private = policy.traits, aggregation if isinstance(aggregation, PrivateMean) else None
    check(
        opposed_aggregation(
            policy.describe().get("kind", type(policy).__name__),
            weights,
            traits.rates,
            aggregation="" if aggregation is None else type(aggregation).__name__,
            late_rounds=options.late_rounds,
            buffer=options.buffer,
            late_updates=traits.late_updates,
            surplus={} if options.enough is None else {"enough": options.enough},
            private=private is not None,
            by_data=traits.by_data,
        )
    )
    if private is not None:
        if options.max_weight < 1:
            allowed = "1 in a private run, where every client weighs the same"
            raise ConfigError("max-weight", options.max_weight, allowed, "Leave it out.")
        weights = weighting.EQUAL
        if private.metrics == "hidden":
            options = _without_metrics(options)
    by_flower = aggregation.strategy if isinstance(aggregation, PrivateMean) else aggregation
    if by_flower is None:
        alone = options if private is None else replace(options, train_metrics_aggr_fn=None)
        made: Aggregation = Mean(alone, weights == weighting.UNBIASED)
    else:
        options = inherited(options, by_flower)
        made = FlowerAggregation(by_flower, options, metrics=private is None)
    if private is not None:
        made = ByPrivateMean(private, account_of(private, traits.law, clients), made, options, resumed)
    return made, weights, options


def _without_metrics(options: RoundOptions) -> RoundOptions:
    """Return the options of a private run with hidden metrics, where no client evaluates the model."""
    for name in ("evaluate_clients", "train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"):
        if value := getattr(options, name):
            allowed = "left out of a private run, because no noise covers what clients report"
            raise ConfigError(name, value, allowed, 'Leave it out, or give the PrivateMean metrics="clear".')
    return replace(options, evaluate_clients=0)
