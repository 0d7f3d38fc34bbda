"""What the keys of a private run ask for, and which others do not go with them."""

from collections.abc import Iterator

from aoi_fl.server.keys import RunKeys

_KEYS = ("clip", "noise_multiplier", "bands", "delta", "max_epsilon")
_SEPARATED = ("markov-optimal", "systematic", "oldest-age")
# Policies that choose by what clients report of their data, which no noise of the model hides.
_BY_DATA = ("pow-d", "rpow-d", "oort", "fedcs", "refl", "f3ast")


def separation(config: RunKeys) -> int:
    """Return b of a run's policy, the least number of rounds between two participations; 1 for none."""
    # Imported here, since a check of keys alone needs no NumPy.
    from aoi_fl.science.markov import MarkovPolicy
    from aoi_fl.science.privacy.bounds import bounds
    from aoi_fl.science.selection import OldestAgeSelector
    from aoi_fl.science.systematic import SystematicPolicy

    n, k, rounds = config.num_clients, config.clients_per_round, config.num_server_rounds
    if config.rates != "equal" or config.absence == "learned" or config.adaptive_dropout or k > n:
        return 1
    match config.policy:
        case "markov-optimal":
            return bounds(MarkovPolicy.optimal(n, k, config.max_age), rounds).min_separation
        case "systematic":
            policy = SystematicPolicy.equal(n, k, config.phases, config.jitter, config.seed)
            return bounds(policy, rounds).min_separation
        case "oldest-age":
            return bounds(OldestAgeSelector(k, config.seed), rounds, n).min_separation
        case _:
            return 1


def bands(config: RunKeys) -> int:
    """Return the number of bands that a run's noise has."""
    return (config.bands or min(separation(config), config.num_server_rounds)) if config.privacy == "banded" else 1


def private_conflicts(config: RunKeys) -> Iterator[str]:
    """Yield what does not go together with the privacy that a run asks for."""
    if config.privacy == "none":
        for name in _KEYS:
            if getattr(config, name) != RunKeys.model_fields[name].default:
                key = name.replace("_", "-")
                yield (
                    f"{key} is {getattr(config, name):g}, but privacy is none, which does not use it: leave it out, or "
                    "set privacy to white or banded"
                )
        return
    asked = f"privacy is {config.privacy}"
    if config.weights not in ("auto", "equal"):
        yield f"{asked}, but weights is {config.weights}: every client weighs the same in a private run; leave it out"
    if config.late_rounds:
        yield (
            f"{asked}, but late-rounds is {config.late_rounds}: a late update would bring two participations of a "
            "client closer together; leave it out"
        )
    if config.policy in _BY_DATA or config.sensitivities == "estimated":
        yield (
            f"{asked}, but policy {config.policy} chooses by what clients report of their data, which no noise of the "
            "model hides: choose another policy, for instance markov-optimal"
        )
    if config.delta * config.num_clients >= 1:
        yield (
            f"delta is {config.delta:g}, which allows to give away one of {config.num_clients} clients whole: set it "
            f"below 1/num-clients, {1 / config.num_clients:.3g}"
        )
    if config.privacy == "white" and config.bands > 1:
        yield f"{asked}, which has one band, but bands is {config.bands}: leave bands out, or set privacy to banded"
    if config.privacy == "banded":
        apart = separation(config)
        if apart == 1:
            why = f"policy {config.policy}"
            why += " with learned absence or dropout" if config.absence == "learned" or config.adaptive_dropout else ""
            why += f" with rates {config.rates}" if config.rates != "equal" else ""
            why += f" with jitter {config.jitter:g}" if config.jitter else ""
            yield (
                f"{asked}, but {why} lets a client take part in two rounds running: set privacy to white, or choose "
                f"one of the policies {', '.join(_SEPARATED)} with equal rates and at most half of the clients a round"
            )
        elif config.bands > apart:
            yield (
                f"bands is {config.bands}, but under policy {config.policy} clients take part as soon as {apart} "
                f"rounds after their last time: set bands to at most {apart}"
            )
