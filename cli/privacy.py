"""``aoi privacy``: a policy's differential privacy, and its cost in accuracy."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from aoi_fl.cli.keys import Number, parse, refuse, typed
from aoi_fl.cli.options import Json, rates_by
from aoi_fl.cli.output import print_facts, print_json, print_table
from aoi_fl.cli.simulate import build
from aoi_fl.config import policies as table
from aoi_fl.config.policies import BUDGETED, DEFAULT, POLICIES
from aoi_fl.science.errors import ConfigError, install

if TYPE_CHECKING:
    from aoi_fl.config.run import RunConfig
    from aoi_fl.science.privacy.account import Account
    from aoi_fl.science.privacy.bounds import ParticipationBounds
    from aoi_fl.science.selection import Selector
    from aoi_fl.science.simulate import Decentralised

_ROUGH = 600  # samples of a rough Monte Carlo estimate


def privacy(
    context: typer.Context,
    delta: Annotated[float, typer.Option(click_type=Number(1e-300, 1 - 1e-9), help="δ, below 1/n.")] = 1e-5,
    bands: Annotated[
        int | None,
        typer.Option(click_type=Number(1, 100_000), help="Bands of the noise; 1 is white. By default the separation."),
    ] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(click_type=Number(1e-6, 1e6), help="Noise over the sensitivity of all participations."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(click_type=Number(1e-6, 1e6), help="ε to find the noise multiplier for.")
    ] = None,
    no_amplification: Annotated[
        bool, typer.Option("--no-amplification", help="Assume that the participation of each client is public.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the epsilon of a private run, and its noise.

    A client takes part at least b rounds apart, at most K times. Noise with up to b bands costs less accuracy.
    """
    if (noise_multiplier is None) == (epsilon is None):
        raise ConfigError(
            "--epsilon", epsilon, "given without --noise-multiplier, or left out with it", "Give one of the two."
        )
    from aoi_fl.science.privacy.bounds import ParticipationBounds, bounds

    policy = typed(context).get("policy", DEFAULT)
    names = POLICIES if policy == "all" else (policy,)
    shown = []
    for name in names:
        config = _configured(context, name, alone=policy != "all")
        clients, per_round, rounds = config.num_clients, config.clients_per_round, config.num_server_rounds
        player, found = None, ParticipationBounds(1, rounds, exact=False)  # under a budget payments guarantee nothing
        if config.policy not in BUDGETED:
            player = build(config, rates_by(config)[0] if "rates" in table.row_of(name).keys else None)
            found = bounds(player, rounds, clients)
        wanted = found.min_separation if bands is None else bands
        kept = min(wanted, rounds, found.min_separation if policy == "all" else wanted)
        shown.append(
            {"policy": name}
            | _promise(player, clients, rounds, found, kept, delta, noise_multiplier, epsilon, not no_amplification)
        )
    from aoi_fl.science.privacy.account import ADVERSARY, ASSUMPTIONS, NEIGHBOURS

    grounds = {"neighbours": NEIGHBOURS, "adversary": ADVERSARY, "assumptions": list(ASSUMPTIONS)}
    if any(row["amplified"] for row in shown):
        from aoi_fl.science.privacy.amplification import AMPLIFICATION, COINS

        grounds["assumptions"] = [*ASSUMPTIONS, AMPLIFICATION]
        if any(row["amplified"] and row["policy"] == "random" for row in shown):
            grounds["assumptions"] = [*ASSUMPTIONS, AMPLIFICATION, COINS]
    setting = {"clients": clients, "per_round": per_round, "rounds": rounds, "delta": delta}
    if as_json:
        print_json(setting | ({"policies": shown} if policy == "all" else shown[0]) | grounds)
        return
    title = f"{clients} clients, {per_round} a round, {rounds} rounds, δ = {delta:g}"
    if policy == "all":
        columns = ("min_separation", "max_participations", "bands", "noise_multiplier", "error", "epsilon", "policy")
        heads = ["b", "K", "bands", "noise multiplier", "error, in clips", "ε", "policy"]
        print_table(title, heads, [[row[column] for column in columns] for row in shown])
    else:
        print_facts(f"{policy}: {title}", [(_NAMES[key], value) for key, value in shown[0].items() if key in _NAMES])
    if policy in ("random", "all") and not no_amplification and not shown[names.index("random")]["amplified"]:
        print(f"\nrandom: without amplification, which needs white noise and dp-accounting ({install('privacy')})")
    print(f"\nNeighbours are {NEIGHBOURS}.\nThe adversary {ADVERSARY}.")
    for assumption in grounds["assumptions"]:
        print(f"Assumed: {assumption}.")


_NAMES = {
    "min_separation": "b, rounds between two participations, at least",
    "max_participations": "K, participations of a client, at most",
    "bands": "bands of the noise",
    "noise_multiplier": "noise multiplier",
    "deviation": "noise of a round, in clips",
    "error": "error of the prefix sums, in clips",
    "epsilon": "ε",
    "epsilon_error": "standard error of ε, from Monte Carlo",
    "epsilon_without_amplification": "ε without amplification",
}


def _configured(context: typer.Context, name: str, *, alone: bool) -> RunConfig:
    """Return a policy's configuration; with ``--policy all`` it has only the keys that it uses."""
    from aoi_fl.config.run import RunConfig

    if alone:
        config = parse(context)
        if config.rates != "size":
            refuse(context, ["sizes"], f"rates={config.rates} does not use it", "Leave it out, or give --rates size.")
        return config
    unused = table.KEYS - table.row_of(name).keys
    keys = {key: value for key, value in typed(context).items() if key not in unused | {"policy", "sizes"}}
    return RunConfig.parse({"num-server-rounds": 100} | keys | {"policy": name})


def _promise(
    player: Decentralised | Selector | None,
    clients: int,
    rounds: int,
    found: ParticipationBounds,
    bands: int,
    delta: float,
    multiplier: float | None,
    epsilon: float | None,
    amplify: bool,
) -> dict[str, Any]:
    """Return the values to show for one policy."""
    from aoi_fl.science.privacy.account import Account, multiplier_of
    from aoi_fl.science.privacy.amplification import SAMPLES, Estimate, amplified, calibrate

    @cache
    def spent(account: Account, samples: int = SAMPLES) -> Estimate | None:
        return amplified(player, clients, account, delta, samples) if amplify and player is not None else None

    account = Account(found, rounds, multiplier or multiplier_of(cast(float, epsilon), delta), bands)
    estimate = spent(account)
    if epsilon is not None and estimate is not None:

        def at(samples: int, noise: float) -> float:
            hidden = spent(replace(account, noise_multiplier=noise), samples)
            return math.inf if hidden is None else hidden.epsilon

        near = calibrate(lambda noise: at(_ROUGH, noise), epsilon, account.noise_multiplier)
        noise = calibrate(lambda noise: at(SAMPLES, noise), epsilon, near, within=0.02)
        account = replace(account, noise_multiplier=noise)
        estimate = spent(account)
    plain = account.epsilon(delta)
    hidden = estimate is not None and estimate.epsilon < plain
    return {
        "min_separation": found.min_separation,
        "max_participations": found.max_participations,
        "exact": found.exact,
        "bands": bands,
        "noise_multiplier": account.noise_multiplier,
        "deviation": account.deviation,
        "error": account.error,
        "epsilon": estimate.epsilon if estimate is not None and hidden else plain,
        "epsilon_error": estimate.error if estimate is not None and hidden else 0.0,
        "epsilon_without_amplification": plain,
        "amplified": hidden,
    }
