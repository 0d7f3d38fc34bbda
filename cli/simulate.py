"""``aoi simulate``: simulate a policy's load, without learning."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from click.core import ParameterSource

from aoi_fl.cli.keys import parse, typed
from aoi_fl.cli.load import show_freshness, show_load
from aoi_fl.cli.log import announce, say
from aoi_fl.cli.options import Json, check_memory, rates_by
from aoi_fl.config.policies import BUDGETED, REGISTRY, users_of
from aoi_fl.report.output import print_facts, print_json, print_table
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.names import Start, Weighting

if TYPE_CHECKING:
    from aoi_fl.config.run import RunConfig
    from aoi_fl.lab.simulated_time.round_clock import RoundClock
    from aoi_fl.protocol.clients import ClientTable
    from aoi_fl.science.selection import Population
    from aoi_fl.science.types import Floats

KEYS = (
    "policy",
    "num-clients",
    "clients-per-round",
    "num-server-rounds",
    "seed",
    "max-age",
    "exponent",
    "rates",
    "sizes",
    "clients-file",
    "phases",
    "jitter",
    "candidates",
    "weights",
    "compensate",
    "budget",
    "total-budget",
    "ageing",
    "clock",
    "train-timeout",
    "over-selection",
    "until",
)
_DEADLINE = 2.0  # seconds, of a policy with a deadline; without a clock the median client takes 1


@dataclass(frozen=True)
class _Setting:
    """The setting of a simulation.

    Attributes
    ----------
    policy : the selector or participation rule
    population : n clients
    rates : (n,) each client's rate, if clients decide
    table : the clients' payments under a budget
    per_round : clients per round, on average under a budget
    title : title of the output
    """

    policy: Any
    population: Population
    rates: Floats | None
    table: ClientTable | None
    per_round: float
    title: str


def simulate(
    context: typer.Context,
    there: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="Probability that a client is available in a round.")
    ] = 1.0,
    start: Annotated[str, typer.Option(help="First ages of Markov clients: stationary or zero.")] = "stationary",
    model_bytes: Annotated[
        float, typer.Option(min=0, max=1e12, help="Size of the model, for a --clock that has bandwidths.")
    ] = 0.0,
    trace: Annotated[bool, typer.Option("--trace", help="Also show the clients of each round.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate the load of a policy, without learning."""
    import numpy as np

    from aoi_fl.science import draws
    from aoi_fl.science import simulate as simulation
    from aoi_fl.science.absence import achievable
    from aoi_fl.science.load import data_a_participation, measure
    from aoi_fl.science.staleness import measure_freshness

    config = parse(context, num_server_rounds=_rounds(context))
    _check_used(context, config)
    setting = _setting(config)
    n, rounds, ticking = len(setting.population.ages), config.num_server_rounds, None
    announce(f"simulating {rounds} rounds")
    if config.clock:
        ticking = _clock(config, setting, model_bytes)
    history = simulation.simulate(
        setting.policy,
        setting.population,
        rounds,
        config.seed,
        cast(Start, start),
        None if config.weights in ("auto", REGISTRY[config.policy].weight) else cast(Weighting, config.weights),
        None if there == 1 else lambda t: draws.uniforms(config.seed, t, "there", n) < there,
        clock=ticking,
    )
    load, table, times, freshness = measure(history), setting.table, {}, None
    values = {
        "clients_never_reached": int((history.counts == 0).sum()),
        "data_a_participation": data_a_participation(history, setting.population.sizes),
    }
    if setting.rates is not None and (ticking is not None or there < 1):
        share = np.full(n, there) if ticking is None else ticking.there / history.rounds
        values["out_of_reach"] = float((setting.rates - achievable(setting.rates, share)).sum())
    if table is not None:
        account, owned = setting.policy.account, (table.payments, table.sensitivities, table.sizes)
        freshness = measure_freshness(history, *owned, account.budget, config.ageing, account.spent)
    if ticking is not None:
        times = {
            "simulated_hours": ticking.now / 3600,
            "seconds_a_round": ticking.now / history.rounds,
            "device_hours": ticking.worked / 3600,
            "device_hours_in_vain": ticking.wasted / 3600,
        }
    selections = [history.selection(t).clients.tolist() for t in range(1, history.rounds + 1)] if trace else []
    if as_json:
        more: dict[str, Any] = {"selections": selections} if trace else {}
        more |= {"rounds": history.rounds} if config.total_budget or config.until else {}
        print_json(asdict(load) | (asdict(freshness) if freshness else {}) | values | times | more)
        return
    title = setting.title.format(history.rounds)
    if history.rounds < rounds:
        over = ticking is not None and ticking.now >= ticking.until
        title += f"; then {'time is over' if over else f'the total budget of {config.total_budget:g} is spent'}"
    show_load(load, title, values)
    if freshness:
        show_freshness(freshness, config.ageing)
    if times:
        print_facts("In simulated time", [(name.replace("_", " "), value) for name, value in times.items()])
    if trace:
        print_table(
            "Selections", ["round", "clients"], [(t, " ".join(map(str, s))) for t, s in enumerate(selections, 1)]
        )


def _rounds(context: typer.Context) -> int | str:
    """Return the rounds; if not set, ``until`` in seconds, because a round takes at least 1 s."""
    from aoi_fl.config.fields import seconds

    given = typed(context)
    if given.get("until") and "num-server-rounds" not in given:
        return min(math.ceil(seconds(given["until"])), 1_000_000)
    return given.get("num-server-rounds", 1000)


def _check_used(context: typer.Context, config: RunConfig) -> None:
    """Refuse options that this simulation does not use."""
    unused = {"there"} if config.clock else {"model-bytes", "train-timeout", "over-selection"}
    if config.policy not in users_of("max-age"):
        unused.add("start")
    if config.policy in BUDGETED and config.clients_file:
        unused.add("num-clients")
    has = f"policy {config.policy}, clock {config.clock or 'none'} and clients-file {config.clients_file or 'none'}"
    given = {
        name.replace("_", "-"): value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    for name, value in (given | typed(context)).items():
        if name in unused:
            raise ConfigError(name, value, f"left out of a simulation with {has}", "Leave it out.")


def _setting(config: RunConfig) -> _Setting:
    """Return a policy's setting; under a budget clients are from a file, or drawn as in Xu et al. (2024)."""
    import numpy as np

    from aoi_fl.science.selection import Population
    from aoi_fl.science.sizes import make_sizes

    n, per_round, table, own = config.num_clients, float(config.sent), None, None
    owned: tuple[Any, ...]
    title, about = f"{config.clients_per_round} a round", ""
    if config.policy in BUDGETED:
        table = _table(config)
        n, title = len(table.names), f"budget {config.budget:g}"
        per_round = min(n, config.budget / float(np.mean(table.payments)))
        policy = REGISTRY[config.policy].build(config.flat())
        owned = table.ages, table.sizes, np.ones(n, dtype=np.bool_), table.payments, table.sensitivities
    else:
        rates, capped = rates_by(config)
        policy = build(config, rates, timed=bool(config.clock))
        if excess := getattr(policy, "excess", ""):
            say(excess)
        own = rates if "rates" in REGISTRY[config.policy].keys else None
        about += f"; {config.sent} are chosen" if config.sent > config.clients_per_round else ""
        about += f"; {capped} clients have a rate capped at 1" if capped else ""
        owned = np.zeros(n, dtype=np.int64), make_sizes(config.sizes, n, config.seed), np.ones(n, dtype=np.bool_)
    check_memory(n, 0 if config.until else config.num_server_rounds * per_round, config.clock)
    title = f"{config.policy}: {n} clients, {title}, {{}} rounds, seed {config.seed}{about}"
    return _Setting(policy, Population(*owned), own, table, per_round, title)


def _table(config: RunConfig) -> ClientTable:
    """Return the clients of a budgeted policy, and print warnings about them."""
    from aoi_fl.protocol.clients import check_clients, read_clients_file, section5_instance

    file, total = config.clients_file, config.total_budget or math.inf
    table = read_clients_file(Path(file)) if file else section5_instance(config.num_clients, config.seed)
    for warning in check_clients(table.payments, table.sensitivities, config.budget, table.names, total):
        say(warning)
    return table


def build(config: RunConfig, rates: Floats | None, *, timed: bool = False) -> Any:
    """Return the rule or selector for as many clients per round as receive the model.

    Parameters
    ----------
    config : the run's configuration
    rates : (n,) each client's own rate, used if the key ``rates`` is not equal
    timed : whether time is simulated; without it a policy with a deadline gets a default one
    """
    from aoi_fl.science.client_stats import drawn_reports

    keys = config.flat() | {"clients-per-round": config.sent}
    if not timed:
        keys["train-timeout"] = _DEADLINE
    row = REGISTRY[config.policy]
    policy = row.build(keys, None if config.rates == "equal" else rates)
    if hasattr(policy, "plan"):
        allowed = "a selector or a rule, because a whole Policy needs clients that answer"
        raise ConfigError("policy", config.policy, allowed, "Use aoi run, or a selector.")
    if row.evaluates:
        reports = drawn_reports(config.num_clients, config.seed)
        policy.ask = lambda round_, clients: reports(round_, clients).losses
    return policy


def _clock(config: RunConfig, setting: _Setting, model_bytes: float) -> RoundClock:
    """Make the devices' clock; a mean training processes the clients' mean number of examples.

    Raises
    ------
    ConfigError : the trace does not exist, or a model's size is given and the trace has no bandwidths.
    """
    import numpy as np

    from aoi_fl.lab.simulated_time.round_clock import RoundClock
    from aoi_fl.lab.simulated_time.traces import make_trace, too_few

    sizes, wanted = setting.population.sizes.astype(float), config.clients_per_round
    end = config.until or math.inf
    trace = make_trace(config.clock, len(sizes), config.seed)
    if model_bytes and np.isinf(trace.download).all() and np.isinf(trace.upload).all():
        allowed = f"left out: the devices of clock {config.clock} load a model in no time"
        raise ConfigError("model-bytes", model_bytes, allowed, "Leave it out, or use a trace with bandwidths.")
    clock = RoundClock(
        trace.devices(float(sizes.mean())),
        sizes,
        seed=config.seed,
        deadline=config.train_timeout,
        until=end,
        model=model_bytes,
        enough=wanted if config.over_selection > 1 else None,
    )
    fastest = float(clock.seconds.min())
    if setting.table is None and (few := too_few(trace, wanted, config.over_selection)):
        say(few)
    if fastest > clock.deadline:
        why = f"the deadline is {clock.deadline:g} s, and the fastest of the clients takes {fastest:.4g} s"
        say(f"{why}: no client can meet it. Raise it.")
    if config.until:  # a round lasts at least a second, or the fastest client's time
        rounds = min(config.num_server_rounds, end / max(1.0, min(fastest, config.train_timeout)))
        check_memory(len(sizes), rounds * setting.per_round, config.clock)
    return clock
