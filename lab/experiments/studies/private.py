"""Private training: age-based participation with banded noise against random selection with white noise."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, grouped
from aoi_fl.lab.experiments.harness.drawing import COLOURS, legend_below
from aoi_fl.lab.experiments.harness.federation import evaluated, played
from aoi_fl.lab.experiments.harness.findings import Conclusion, Table
from aoi_fl.lab.experiments.harness.stats import interval
from aoi_fl.lab.experiments.harness.study import Contrast, Hypothesis, Measure, Study, above, expect, within

CLIENTS, PER_ROUND, ROUNDS, DELTA = 3000, 100, 200, 1e-4
CLIP, LOCAL_EPOCHS = 0.5, 2
EPSILONS = (8, 2, 4, 16)  # in the order of the runs
_CASE = "ε = {}"
_LEAST = -2.3  # points that are drawn; below, they are written
_RANDOM, _SYSTEMATIC, _MARKOV, _FLOWER = (
    "random, white, counted as coins",
    "systematic, banded",
    "markov-optimal, banded, amplified",
    "random, white, every round counted",
)
_KEYS = {
    _RANDOM: {"policy": "random", "privacy": "white"},
    _SYSTEMATIC: {"policy": "systematic", "coordination": "reserve", "privacy": "banded"},
    _MARKOV: {"policy": "markov-optimal", "max-age": 30, "coordination": "reserve", "privacy": "banded"},
    _FLOWER: {"policy": "random", "privacy": "white"},
}
# By `aoi privacy --clients 3000 --per-round 100 --rounds 200 --delta 1e-4 --epsilon E`. For the Markov policy it is an
# estimate within 3 % of the bound, for amplified random selection that of independent coins, which is no bound.
_EVERY_ROUND = {2: 1.73435, 4: 0.95872, 8: 0.54308, 16: 0.31775}
NOISE = {
    _RANDOM: {2: 0.08032, 4: 0.0582, 8: 0.04444, 16: 0.03454},
    _MARKOV: {2: 1.2529, 4: 0.6948, 8: 0.424, 16: 0.27147},
    _SYSTEMATIC: _EVERY_ROUND,
    _FLOWER: _EVERY_ROUND,
}


def _above(text, policy, base, epsilons):
    return expect(text, map(_CASE.format, epsilons), policy, "final", 1, base)


class PrivateLearning(Study):
    """Client-level differential privacy on MNIST, with four ways to spend ε."""

    name = "privacy"
    title = "Private training: banded noise under age policies, white noise under random selection"
    source = "In no paper; MNIST in 3,000 clients of 20 images, IID"
    minutes = 170
    data = ("mnist",)
    cases = tuple(_CASE.format(epsilon) for epsilon in EPSILONS)
    policies = tuple(_KEYS)
    measures = (
        Measure("final", "final accuracy, %", 2, 100.0, drawn=True),
        Measure("mean", "mean accuracy of the second half, %", 2, 100.0),
        Measure("epsilon", "ε in the ledger, without amplification", 1, compared=False),
    )
    hypotheses = (
        _above("At ε = 8 Markov clients with banded noise learn better than random ones", _MARKOV, _RANDOM, (8,)),
        _above("At ε = 8 systematic ones with banded noise do too, without amplification", _SYSTEMATIC, _RANDOM, (8,)),
        _above("At ε = 2 Markov clients with banded noise learn better than random ones", _MARKOV, _RANDOM, (2,)),
        Hypothesis(
            "At every ε both learn better than random clients of which every round is counted",
            tuple(
                Contrast(case, policy, "final", 1, _FLOWER)
                for case in (_CASE.format(e) for e in EPSILONS)
                for policy in (_SYSTEMATIC, _MARKOV)
            ),
        ),
    )
    planned = 5
    committed = "128eb9eb"

    def settings(self, options):
        clients, per_round = (90, 9) if options.quick else (CLIENTS, PER_ROUND)
        keys = {
            **setting.TRAINING,
            "model": "lr",
            "num-clients": clients,
            "clients-per-round": per_round,
            "local-epochs": LOCAL_EPOCHS,
            "clip": CLIP,
            "delta": DELTA,
            "train-together": "always",
        }
        found = setting.learning(self, options, (ROUNDS, 6), **keys)
        return {**found, "evaluate-every": max(found["num-server-rounds"] // 20, 1)}

    def own(self, unit):
        """Return the keys of a unit's policy and noise."""
        epsilon = int(unit["case"].rpartition(" ")[2])
        return {**_KEYS[unit["policy"]], "noise-multiplier": NOISE[unit["policy"]][epsilon]}

    def play(self, unit, options):
        """Train a federation, and return its accuracy and the ε in its ledger."""
        from aoi_fl.server.ledger import read

        own = self.own(unit)
        if options.quick:
            own.pop("max-age", None)
        ledger = played(self.name, {**self.settings(options), **own, "seed": unit["seed"]}, options)
        rows = evaluated(ledger)
        half = [row["accuracy"] for row in rows if row["round"] > rows[-1]["round"] / 2]
        spent = read(ledger, "rounds")[-1]["epsilon"]
        return [
            {
                "final": rows[-1]["accuracy"],
                "mean": round(float(np.mean(half)), 6),
                "epsilon": None if spent is None else round(spent, 3),
            }
        ]

    def summary(self, rows, settings):
        return (
            f"Client-level differential privacy of {settings['num-clients']} clients at δ = {settings['delta']:g}: "
            f"{settings['clients-per-round']} clients a round, {settings['num-server-rounds']} rounds, "
            f"{settings['model']} on {settings['dataset']}, clip {settings['clip']:g}. The clip and the local epochs "
            "come from runs of seed 100. Amplification has conditions that no run proves. Random selection counts as "
            "independent coins, which favours it: for exactly k of n the bound is higher. The ledger counts without "
            "amplification. "
            "[What each ε means](../privacy.md); [the error of the noise without training](privacy-error.md). "
        )

    def plot(self, rows, settings, figure):
        """Draw the final accuracy above random selection's by its amplified ε, against ε."""
        axes = figure.subplots()
        axes.axhline(0, color=COLOURS[0])
        for policy, colour in zip((_SYSTEMATIC, _MARKOV, _FLOWER), COLOURS[1:], strict=False):
            found = {
                epsilon: interval(above(rows, _CASE.format(epsilon), policy, _RANDOM, self.measures[0]))
                for epsilon in sorted(EPSILONS)
            }
            if max(of.mean for of in found.values()) < _LEAST:
                said = ", ".join(f"{of.mean:.0f}" for of in found.values())
                axes.text(2, _LEAST, f" ↓ {policy}: {said}", va="bottom", color=colour)
                continue
            ends = [*found.values()]
            bars = {"yerr": [of.bar for of in ends], "capsize": 3}
            axes.errorbar([*found], [of.mean for of in ends], color=colour, marker="o", label=policy, **bars)
        axes.text(16, 0, f"{_RANDOM} ", va="top", ha="right", color=COLOURS[0])
        axes.set(
            xscale="log", xlabel="ε", ylabel="points of final accuracy above random,\n95 % interval", ylim=(_LEAST, 1)
        )
        axes.set_xticks(sorted(EPSILONS), [f"{epsilon}" for epsilon in sorted(EPSILONS)])
        axes.minorticks_off()
        legend_below(figure, axes)


_MIN_SEP, _COUNTED, _SECRET, _CEILING = (
    "min-separation sampling, banded, amplified",
    "systematic, banded, every round counted",
    "random, white, amplified",
    "random, no noise",
)
_UNEQUAL = ("ε = 8", "ε = 2")
_SAMPLED = {"policy": "markov-optimal", "coordination": "reserve", "privacy": "banded"}
_OF_ARMS = ("clip", "learning-rate", "delta")  # keys that each arm has for itself
# By `aoi privacy --clients 1000 --per-round 50 --rounds 200 --delta 1e-4 --epsilon E --amplified`; of min-separation
# sampling the b in 20, 17, 14, 12, 10, 8, 6, 4 with the least error of the prefix sums. Clip and learning rate have the
# best final accuracy of seed 100, of 0.125, 0.25, 0.5 and 0.05, 0.1, 0.2.
_RIVALS = {
    (_MIN_SEP, "ε = 8"): _SAMPLED | {"max-age": 13, "noise-multiplier": 0.310252, "clip": 0.25, "learning-rate": 0.05},
    (_MIN_SEP, "ε = 2"): _SAMPLED | {"max-age": 9, "noise-multiplier": 0.742881, "clip": 0.125, "learning-rate": 0.1},
    (_MARKOV, "ε = 8"): _SAMPLED | {"max-age": 20, "noise-multiplier": 0.444157, "clip": 0.25, "learning-rate": 0.1},
    (_MARKOV, "ε = 2"): _SAMPLED | {"max-age": 20, "noise-multiplier": 1.35927, "clip": 0.125, "learning-rate": 0.1},
    (_COUNTED, "ε = 8"): _KEYS[_SYSTEMATIC] | {"noise-multiplier": 0.54308, "clip": 0.25, "learning-rate": 0.1},
    (_COUNTED, "ε = 2"): _KEYS[_SYSTEMATIC] | {"noise-multiplier": 1.73436, "clip": 0.125, "learning-rate": 0.2},
    (_SECRET, "ε = 8"): _KEYS[_RANDOM] | {"noise-multiplier": 0.0880332, "clip": 0.125, "learning-rate": 0.1},
    (_SECRET, "ε = 2"): _KEYS[_RANDOM] | {"noise-multiplier": 0.158643, "clip": 0.125, "learning-rate": 0.2},
    (_CEILING, "no noise"): {"policy": "random", "weights": "equal", "learning-rate": 0.1},
}


class PrivateRival(PrivateLearning):
    """Client-level differential privacy on unequal data, against min-separation sampling, each arm tuned.

    Min-separation sampling takes a client with one probability in each round from the b-th after its last one on. That
    is the Markov policy of least Var[X] with the maximum age b − 1 below n/k (Dong & Ganesh 2026, with a warm start).
    """

    name = "private-rival"
    page = "privacy"
    title = "Private training on unequal data: min-separation sampling and the policies by age"
    source = "In no paper; MNIST in 1,000 clients, Dirichlet 0.3"
    minutes = 75
    cases = (*_UNEQUAL, "no noise")
    policies = (_MIN_SEP, _MARKOV, _COUNTED, _SECRET, _CEILING)
    hypotheses = (
        within(
            "Markov clients are within half a point of min-separation sampling",
            _UNEQUAL,
            _MARKOV,
            "final",
            _MIN_SEP,
            0.5,
        ),
        _above("Markov clients learn better than random ones with amplified white noise", _MARKOV, _SECRET, (8, 2)),
        _above("Min-separation sampling learns better than random clients with white noise", _MIN_SEP, _SECRET, (8, 2)),
        expect(
            "At ε = 8 systematic clients of which every round is counted are at most a point below",
            _UNEQUAL[:1],
            _COUNTED,
            "final",
            1,
            _MIN_SEP,
            -1.0,
        ),
    )
    planned, first = 10, 1
    committed = "ff5b90c4"
    plot = Study.plot

    @property
    def pairs(self):
        return [(case, policy) for case in _UNEQUAL for policy in self.policies[:-1]] + [(self.cases[-1], _CEILING)]

    def settings(self, options):
        """Return the settings; clip and rate are each arm's own."""
        unequal = {"partition": "dirichlet:0.3", "num-clients": 1000, "clients-per-round": 50}
        given = super().settings(options) | ({} if options.quick else unequal)
        return {key: value for key, value in given.items() if key not in _OF_ARMS}

    def own(self, unit):
        """Return the keys of a unit's arm."""
        arm = unit["policy"], unit["case"]
        return {**_RIVALS[arm], **({} if unit["policy"] == _CEILING else {"delta": DELTA})}

    def summary(self, rows, settings):
        return (
            f"Client-level differential privacy of {settings['num-clients']} clients at δ = {DELTA:g}: "
            f"{settings['clients-per-round']} clients a round, {settings['num-server-rounds']} rounds, "
            f"{settings['model']} on {settings['dataset']}, {settings.get('partition', 'IID')}. "
            "Clip and learning rate of each arm are the best of seed 100. All clients are available, so the weights of "
            "availability are equal, and a private run has no others. Amplification has conditions that no run proves, "
            "and the ledger counts without it. "
            "*No noise* is the ceiling."
        )


# The lines of the picture: of equal ones, one stands for all.
_SHOWN = {
    ("random", "white", "no"): "any policy, white",
    ("systematic", "white", "no"): "policies by age, white",
    ("random", "white", "yes"): "random, white, amplified",
    ("systematic", "banded", "no"): "policies by age, banded",
    ("markov-optimal", "banded", "yes"): "markov, banded, amplified",
}
_TICKS = (2, 5, 10, 20)


class PrivacyError(Experiment):
    """The error of the noise at one ε, for every policy, against the number of clients a round."""

    name = "privacy-error"
    title = "Error of the prefix sums against n/k at ε = 8"
    source = "In no paper; no training"
    minutes = 3

    def settings(self, options):
        return {"clients": 600, "rounds": options.rounds or 100, "epsilon": 8.0, "delta": 1e-3}

    def units(self, options):
        return [{"ratio": ratio} for ratio in ((2, 6) if options.quick else (2, 3, 4, 6, 8, 10, 15, 20, 30))]

    def play(self, unit, options):
        """Return each policy's error, with and without amplification."""
        from dataclasses import replace

        from aoi_fl.lab.privacy.amplification import amplified, calibrate
        from aoi_fl.science.markov import MarkovPolicy
        from aoi_fl.science.privacy.account import Account, multiplier_of
        from aoi_fl.science.privacy.bounds import kept_bounds
        from aoi_fl.science.selection import OldestAgeSelector, RandomSelector
        from aoi_fl.science.systematic import SystematicPolicy

        known = self.settings(options)
        n, rounds, epsilon, delta = known["clients"], known["rounds"], known["epsilon"], known["delta"]
        k = n // unit["ratio"]
        players = {
            "markov-optimal": MarkovPolicy.optimal(n, k),
            "systematic": SystematicPolicy.equal(n, k, "random"),
            "oldest-age": OldestAgeSelector(k, 1),
            "random": RandomSelector(k, 1),
            "any other": None,
        }
        rows = []
        for name, player in players.items():
            found = kept_bounds(player, rounds, n)
            for bands in sorted({1, min(found.min_separation, rounds)}):
                account = Account(found, rounds, multiplier_of(epsilon, delta), bands)
                rows.append({"policy": name, "bands": bands, "amplified": "no", "error": round(account.error, 4)})
                if player is None or amplified(player, n, account, delta) is None:
                    continue

                def spent(noise, account=account, player=player):
                    louder = replace(account, noise_multiplier=noise)
                    return amplified(player, n, louder, delta) or louder.epsilon(delta)

                noise = calibrate(spent, epsilon, account.noise_multiplier)
                error = replace(account, noise_multiplier=noise).error
                rows.append({"policy": name, "bands": bands, "amplified": "yes", "error": round(error, 4)})
        return rows

    def conclude(self, rows, settings):
        ratios = sorted({row["ratio"] for row in rows})
        lines = [
            [
                policy,
                noise,
                amplified,
                *(next((f"{row['error']:.2f}" for row in found if row["ratio"] == ratio), "–") for ratio in ratios),
            ]
            for (policy, noise, amplified), found in _lines(rows).items()
        ]
        caption = "RMSE of the prefix sums in clips, by n/k"
        text = (
            f"{settings['clients']} clients, {settings['rounds']} rounds, ε = {settings['epsilon']:g} at "
            f"δ = {settings['delta']:g}; a smaller error is better. *Banded* noise has as many bands as clients take "
            "part rounds apart. Amplified ε are bounds, under the conditions of `aoi privacy --amplified`. "
            "[What each ε means](../privacy.md); [with training](privacy.md)."
        )
        return Conclusion(text, (), (Table(caption, ["policy", "noise", "amplified", *map(str, ratios)], lines),))

    def plot(self, rows, settings, figure):
        axes, lines = figure.subplots(), _lines(rows)
        for (line, label), colour in zip(_SHOWN.items(), COLOURS, strict=False):
            points = sorted((row["ratio"], row["error"]) for row in lines.get(line, ()))
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", color=colour)
                side = "top" if label.startswith("random") else "bottom"  # the lines of two end close together
                axes.annotate(label, points[-1], (7, 0), textcoords="offset points", va=side, color=colour)
        axes.set(xscale="log", yscale="log", xlabel="n/k", ylabel="error of the prefix sums, clips")
        ratios = sorted({row["ratio"] for row in rows})
        axes.set_xticks(ratios, [f"{ratio}" for ratio in ratios])
        axes.set_yticks(_TICKS, [f"{tick}" for tick in _TICKS])
        axes.minorticks_off()
        axes.set_xlim(right=3.2 * ratios[-1])


def _lines(rows):
    named = [{**row, "noise": "white" if row["bands"] == 1 else "banded"} for row in rows]
    return grouped(named, "policy", "noise", "amplified")
