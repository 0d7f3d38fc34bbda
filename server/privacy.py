"""What the keys of a private run ask for, and which others do not go with them."""

from collections.abc import Iterator

from aoi_fl.config.fields import kebab
from aoi_fl.science.errors import ConfigError
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


def private_conflicts(config: RunKeys) -> Iterator[ConfigError]:
    """Yield an error for each combination that is not possible with the privacy of a run."""
    privacy = config.privacy
    if privacy == "none":
        for name in _KEYS:
            if (value := getattr(config, name)) != RunKeys.model_fields[name].default:
                allowed = "left out: privacy is none, which does not use it"
                yield ConfigError(kebab(name), value, allowed, "Leave it out, or set privacy to white or banded.")
        return
    if config.weights not in ("auto", "equal"):
        allowed = f"auto or equal with privacy={privacy}, where every client weighs the same"
        yield ConfigError("weights", config.weights, allowed, "Leave it out.")
    if config.late_rounds:
        allowed = f"0 with privacy={privacy}: a late update would bring two participations of a client closer together"
        yield ConfigError("late-rounds", config.late_rounds, allowed, "Leave it out.")
    if config.policy in _BY_DATA or config.sensitivities == "estimated":
        allowed = f"none, because policy {config.policy} selects by reports about data, which no noise hides"
        yield ConfigError("privacy", privacy, allowed, "Choose another policy, for instance markov-optimal.")
    if config.delta * config.num_clients >= 1:
        allowed = f"below 1/num-clients, {1 / config.num_clients:.3g}"
        yield ConfigError("delta", config.delta, allowed, "Lower it.")
    if privacy == "white" and config.bands > 1:
        yield ConfigError("bands", config.bands, "1 with privacy=white", "Leave bands out, or set privacy to banded.")
    if privacy == "banded":
        apart = separation(config)
        if apart == 1:
            why = f"policy {config.policy}"
            why += " with learned absence or dropout" if config.absence == "learned" or config.adaptive_dropout else ""
            why += f" with rates {config.rates}" if config.rates != "equal" else ""
            why += f" with jitter {config.jitter:g}" if config.jitter else ""
            remedy = (
                f"Set privacy to white, or choose one of the policies {', '.join(_SEPARATED)} with equal rates and at "
                "most half of the clients a round."
            )
            allowed = f"white, because {why} lets a client take part in two consecutive rounds"
            yield ConfigError("privacy", privacy, allowed, remedy)
        elif config.bands > apart:
            allowed = f"at most {apart}, the fewest rounds between two participations under policy {config.policy}"
            yield ConfigError("bands", config.bands, allowed, f"Set bands to at most {apart}.")
