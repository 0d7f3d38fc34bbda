"""``aoi simulate``: what a policy does when it is played without learning."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from aoi_fl.cli.keys import Config, Number, given
from aoi_fl.cli.load import show_freshness, show_load
from aoi_fl.cli.misplaced import RATED, reject_misplaced
from aoi_fl.cli.options import (
    Clients,
    Exponent,
    Jitter,
    Json,
    MaxAge,
    PerRound,
    Phases,
    Rates,
    Seed,
    Sizes,
    check_memory,
    rates_by,
    reject,
)
from aoi_fl.cli.output import print_facts, print_json, print_table
from aoi_fl.cli.players import budgeted_clients, make_player, make_rated, required_budget
from aoi_fl.cli.run import seconds
from aoi_fl.cli.simulated_time import cost_of, make_clock
from aoi_fl.cli.wait import waiting
from aoi_fl.config.policies import BUDGETED, POLICIES
from aoi_fl.science.names import Ageing, PhaseRule, Start, Weighting

if TYPE_CHECKING:
    from aoi_fl.science.selection import Selector
    from aoi_fl.science.simulate import Decentralised


def simulate(
    context: typer.Context,
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}.")],
    clients: Clients = 100,
    per_round: PerRound = 15,
    max_age: MaxAge = 10,
    rounds: Annotated[int, typer.Option(click_type=Number(1, 1_000_000), help="Rounds to play.")] = 1000,
    candidates: Annotated[
        int, typer.Option(click_type=Number(0, 1_000_000), help="Clients that pow-d, rpow-d and fedcs draw; 0: 2k.")
    ] = 0,
    exponent: Exponent = 1.0,
    seed: Seed = 1,
    sizes: Sizes = "equal",
    rates: Rates = "equal",
    phases: Phases = "spread",
    jitter: Jitter = 0.0,
    weights: Annotated[
        str, typer.Option(help="Aggregation weights: equal, size or unbiased; auto: the policy's own.")
    ] = "auto",
    there: Annotated[
        float,
        typer.Option(click_type=Number(0.001, 1.0), help="Share of the rounds that a client is there, by a coin."),
    ] = 1.0,
    absence: Annotated[
        str, typer.Option(help="Rates of clients that are not always there: ignored, or learned and made up for.")
    ] = "ignored",
    start: Annotated[str, typer.Option(help="First ages of Markov clients: stationary or zero.")] = "stationary",
    budget: Annotated[
        float | None, typer.Option(click_type=Number(1e-9, 1e12), help="What a budgeted policy may spend in a round.")
    ] = None,
    total_budget: Annotated[
        float, typer.Option(click_type=Number(0, 1e18), help="What all rounds together may spend; 0: no bound.")
    ] = 0.0,
    clients_file: Annotated[
        Path | None,
        typer.Option(
            help="CSV file: of budgeted policies with name,size,payment,sensitivity,age (else clients are drawn by "
            "--seed); with --rates given with rate."
        ),
    ] = None,
    strict_budget: Annotated[bool, typer.Option("--strict-budget", help="Spend less than the budget only.")] = False,
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="Stop at the first client too dear, instead of skipping it.")
    ] = False,
    ageing: Annotated[
        str, typer.Option(help="What an age costs, for wics: linear (the paper's), quadratic or root.")
    ] = "linear",
    clock: Annotated[
        str | None, typer.Option(metavar="TRACE", help="Simulate time: always, bernoulli:P, generated or a file.")
    ] = None,
    deadline: Annotated[
        float, typer.Option(click_type=Number(1e-9, 1_000_000.0), help="Seconds of a round, at most; with --clock.")
    ] = 600.0,
    over_selection: Annotated[
        float,
        typer.Option(
            click_type=Number(1.0, 100.0), help="By which factor more are chosen than a round waits for; with --clock."
        ),
    ] = 1.0,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of simulated time: 6h, 90min, 3d or seconds; with --clock.")
    ] = None,
    model_bytes: Annotated[
        float,
        typer.Option(
            click_type=Number(0, 1e12),
            help="Loaded before a training, and as many after; with a --clock that has bandwidths.",
        ),
    ] = 0.0,
    trace: Annotated[bool, typer.Option("--trace", help="Also show who took part in each round.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Play a policy without learning, for the load on the clients."""
    import numpy as np

    from aoi_fl.science import draws
    from aoi_fl.science import simulate as simulation
    from aoi_fl.science.absence import achievable
    from aoi_fl.science.load import data_a_participation, measure
    from aoi_fl.science.selection import Population
    from aoi_fl.science.sizes import make_sizes
    from aoi_fl.science.total_budget import BoundedSelector
    from aoi_fl.server.over_selection import check_over_selection, over_selected

    reject_misplaced(context, policy, absence)
    end = seconds(until) if until else math.inf
    if until and not given(context, "rounds"):
        rounds = min(math.ceil(end), 1_000_000)  # none takes less than a second
    if over_selection > 1:
        check_over_selection(over_selection, per_round, clients, weights)
    wanted, per_round = per_round, over_selected(per_round, over_selection)
    table = None
    player: Decentralised | Selector
    if policy in BUDGETED:
        from aoi_fl.science.budget import BudgetedSelector
        from aoi_fl.science.staleness import measure_freshness

        budget, total = required_budget(policy, budget), total_budget or np.inf
        table = budgeted_clients(clients_file, clients, budget, seed, strict_budget, total)
        a_round = min(len(table.names), budget / float(np.mean(table.payments)))
        check_memory(len(table.names), 0 if until else rounds * a_round, clock)
        chooser = BudgetedSelector(budget, BUDGETED[policy], seed, strict_budget, stop_at_first, cast(Ageing, ageing))
        player = BoundedSelector(chooser, total)
        everyone = np.ones(len(table.names), dtype=np.bool_)
        population = Population(table.ages, table.sizes, everyone, table.payments, table.sensitivities)
        title = f"{policy}: {len(table.names)} clients, budget {budget:g}, {{}} rounds, seed {seed}"
    else:
        a_round = per_round
        check_memory(clients, 0 if until else rounds * a_round, clock)
        own, capped = rates_by(rates, sizes, clients_file, clients, per_round, seed)
        if absence == "learned" or policy == "systematic" or rates != "equal":
            player = make_rated(policy, own, absence == "learned", cast(PhaseRule, phases), jitter, seed)
        else:
            limit = deadline if clock else None
            player = make_player(policy, clients, per_round, max_age, exponent, candidates, limit, seed)
        population = Population(
            ages=np.zeros(clients, dtype=np.int64),
            sizes=make_sizes(sizes, clients, seed),
            available=np.ones(clients, dtype=np.bool_),
        )
        title = f"{policy}: {clients} clients, {wanted} a round, {{}} rounds, seed {seed}"
        title += f"; {per_round} are chosen" if per_round > wanted else ""
        title += f"; {capped} clients have a rate capped at 1" if capped else ""
    if clock is None:
        of_time = ["deadline", "over_selection", "until", "model_bytes"]
        reject(context, of_time, "time that is not simulated", "leave it out, or give --clock")
    else:
        reject(context, ["over_selection"] if policy in BUDGETED else [], f"policy {policy}", "leave it out")
        reject(context, ["there"], f"clock {clock}, which says who is there", "leave one of them out")
    with waiting(f"Playing {rounds} rounds"):
        ticking = None
        if clock is not None:
            how: dict[str, Any] = {"deadline": deadline, "until": end, "model": model_bytes}
            how["enough"] = wanted if over_selection > 1 else None
            ticking = make_clock(clock, population, None if table else (wanted, over_selection), seed, **how)
            if until:  # in a round that lasts no longer than a question nobody takes part
                quickest = max(1.0, min(float(ticking.seconds.min()), deadline))
                check_memory(len(population.ages), min(rounds, end / quickest) * a_round, clock)
        history = simulation.simulate(
            player,
            population,
            rounds,
            seed,
            cast(Start, start),
            None if weights == "auto" else cast(Weighting, weights),
            None if there == 1 else lambda t: draws.uniforms(seed, t, "there", len(population.ages)) < there,
            clock=ticking,
        )
        metrics, never = measure(history), int((history.counts == 0).sum())
        work = data_a_participation(history, population.sizes)
    beyond = None
    if policy in RATED and (there < 1 or ticking is not None):
        share = np.full(clients, there) if ticking is None else ticking.there / history.rounds
        beyond = float((own - achievable(own, share)).sum())
    freshness = None
    if table and isinstance(player, BoundedSelector):
        costs, paid = cast(Ageing, ageing), player.account
        freshness = measure_freshness(
            history, table.payments, table.sensitivities, table.sizes, paid.budget, costs, paid.spent
        )
    title = title.format(history.rounds)
    if history.rounds < rounds:
        over = ticking is not None and ticking.now >= ticking.until
        title += f"; then {'time is over' if over else f'the total budget of {total_budget:g} is spent'}"
    selections = [history.selection(t).clients.tolist() for t in range(1, history.rounds + 1)] if trace else []
    if as_json:
        fresh = asdict(freshness) if freshness else {}
        fresh |= {"rounds": history.rounds} if total_budget or until else {}
        fresh |= {"clients_never_reached": never, "data_a_participation": work}
        fresh |= {} if beyond is None else {"out_of_reach": beyond}
        fresh |= {} if ticking is None else cost_of(ticking, history)
        print_json(asdict(metrics) | fresh | ({"selections": selections} if trace else {}))
        return
    show_load(metrics, title, never, work, beyond)
    if freshness:
        show_freshness(freshness, ageing)
    if ticking is not None:
        print_facts("In simulated time", [(name.replace("_", " "), v) for name, v in cost_of(ticking, history).items()])
    if trace:
        print_table(
            "Selections", ["round", "clients"], [(t, " ".join(map(str, s))) for t, s in enumerate(selections, 1)]
        )
