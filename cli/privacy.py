"""``aoi privacy``: a policy's differential privacy, and its cost in accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from aoi_fl.cli.keys import parse, typed
from aoi_fl.cli.options import Json, rates_by
from aoi_fl.cli.simulate import build
from aoi_fl.config import policies as table
from aoi_fl.config.policies import BUDGETED, DEFAULT, POLICIES
from aoi_fl.report.output import print_facts, print_json, print_table
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.config.run import RunConfig
    from aoi_fl.science.selection import Selector
    from aoi_fl.science.simulate import Decentralised

KEYS = (
    "policy",
    "num-clients",
    "clients-per-round",
    "max-age",
    "exponent",
    "rates",
    "sizes",
    "clients-file",
    "phases",
    "jitter",
    "num-server-rounds",
    "seed",
)


def privacy(
    context: typer.Context,
    delta: Annotated[float, typer.Option(min=1e-15, max=0.5, help="δ, below 1/n.")] = 1e-5,
    bands: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Bands of the noise; 1 is white. By default the separation."),
    ] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option(min=1e-6, max=1e6, help="Noise over the sensitivity of all participations."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(min=1e-6, max=1e6, help="ε to find the noise multiplier for.")
    ] = None,
    amplified: Annotated[
        bool, typer.Option("--amplified", help="Count that participation is secret; see the conditions printed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the epsilon of a private run, and its noise.

    A client takes part at least b rounds apart, at most K times. Noise with up to b bands costs less accuracy. The
    run's ledger and max-epsilon count the same epsilon; with --amplified they count more than this command.
    """
    if (noise_multiplier is None) == (epsilon is None):
        raise ConfigError(
            "--epsilon", epsilon, "given without --noise-multiplier, or left out with it", "Give one of the two."
        )
    policy = typed(context).get("policy", DEFAULT)
    several = policy == "all"
    shown: list[dict[str, Any]] = []
    for name in POLICIES if several else (policy,):
        try:
            config = _configured(context, name, delta, alone=not several)
            values = _promise(config, delta, bands, noise_multiplier, epsilon, amplified, several) | {"refused": None}
        except ConfigError as error:
            if not several or error.key != "policy":
                raise
            values = dict.fromkeys(_NAMES) | {"amplified": False, "refused": str(error.allowed)}
        shown.append({"policy": name} | values)
    from aoi_fl.science.privacy.account import ADVERSARY, ASSUMPTIONS, NEIGHBOURS

    grounds: dict[str, Any] = {"neighbours": NEIGHBOURS, "adversary": ADVERSARY, "assumptions": ASSUMPTIONS}
    if amplified:
        from aoi_fl.lab.privacy.amplification import CONDITIONS, CONFIDENCE

        grounds |= {"conditions": CONDITIONS, "confidence": CONFIDENCE}
    clients, per_round, rounds = config.num_clients, config.clients_per_round, config.num_server_rounds
    if as_json:
        setting = {"clients": clients, "per_round": per_round, "rounds": rounds, "delta": delta}
        print_json(setting | ({"policies": shown} if several else shown[0]) | grounds)
        return
    title = f"{clients} clients, {per_round} a round, {rounds} rounds, δ = {delta:g}"
    names = {key: text for key, text in _NAMES.items() if amplified or key != "epsilon_amplified"}
    if several:
        heads = [text.partition(",")[0] for text in names.values()]
        print_table(title, [*heads, "policy"], [[_exact(row, key) for key in (*names, "policy")] for row in shown])
    else:
        print_facts(f"{policy}: {title}", [(text, _exact(shown[0], key)) for key, text in names.items()])
    for row in shown:
        if row["refused"]:
            print(f"{row['policy']}: no private run; it needs {row['refused']}.")
    print(f"\nNeighbours are {NEIGHBOURS}.\nThe adversary {ADVERSARY}.")
    for assumption in ASSUMPTIONS:
        print(f"Assumed: {assumption}.")
    if amplified:
        for condition in CONDITIONS:
            print(f"Only if: {condition}.")
        print("A dash: no bound below ε is known. Systematic clients need --phases random, random ones --bands 1.")
        print(f"Confidence: {CONFIDENCE}.")


_NAMES = {  # up to a comma the head of a column
    "min_separation": "b, rounds between two participations, at least",
    "max_participations": "K, participations of a client, at most",
    "bands": "bands of the noise",
    "noise_multiplier": "noise multiplier",
    "deviation": "noise of a round, in clips",
    "error": "error of the prefix sums, in clips",
    "epsilon": "ε, as the run counts it",
    "epsilon_amplified": "ε with amplification, at most",
}


def _exact(row: dict[str, Any], key: str) -> Any:
    """Return a value to show; a noise multiplier with all its digits, for it is typed again."""
    return repr(row[key]) if key == "noise_multiplier" and row[key] is not None else row[key]


def _configured(context: typer.Context, name: str, delta: float, *, alone: bool) -> RunConfig:
    """Return the configuration of a policy's private run; with ``--policy all`` it has only the keys that it uses.

    Raises ConfigError as the run does.
    """
    from aoi_fl.config.run import RunConfig

    if alone:
        return parse(context, privacy="white", delta=delta)
    unused = (table.KEYS - table.REGISTRY[name].keys) | {"sizes"}
    keys = {key: value for key, value in typed(context).items() if key not in unused}
    return RunConfig.parse({"num-server-rounds": 100, "privacy": "white", "delta": delta} | keys | {"policy": name})


def _promise(
    config: RunConfig,
    delta: float,
    bands: int | None,
    multiplier: float | None,
    epsilon: float | None,
    amplify: bool,
    several: bool,
) -> dict[str, Any]:
    """Return the values to show for one policy."""
    from aoi_fl.config.rules import check, separation, too_many_bands
    from aoi_fl.science.privacy.account import Account, multiplier_of
    from aoi_fl.science.privacy.bounds import min_separation

    clients, rounds = config.num_clients, config.num_server_rounds
    player: Decentralised | Selector | None = None  # under a budget payments guarantee nothing
    if config.policy not in BUDGETED:
        player = build(config, rates_by(config)[0] if "rates" in table.REGISTRY[config.policy].keys else None)
    most = min(separation(config), rounds)
    wanted = most if bands is None else min(bands, most) if several else bands
    check(too_many_bands(config, wanted))
    noise = multiplier or multiplier_of(cast(float, epsilon), delta)
    account = Account(min_separation(player, clients), rounds, noise, wanted)
    hidden = None
    if amplify and player is not None:
        from aoi_fl.lab.privacy.amplification import calibrated

        account, hidden = calibrated(player, clients, account, delta, config.phases, epsilon)
    return {
        "min_separation": account.separation,
        "max_participations": account.participations(rounds),
        "bands": wanted,
        "noise_multiplier": account.noise_multiplier,
        "deviation": account.deviation,
        "error": account.error,
        "epsilon": account.epsilon(delta),
        "epsilon_amplified": hidden,
        "amplified": hidden is not None,
    }
