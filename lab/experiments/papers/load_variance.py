"""Σ over the rounds of a run: both estimators, for the paper's four policies, beside Theorems 3 to 5."""

from functools import cache

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import pick
from aoi_fl.lab.experiments.harness.stats import agreement, difference, interval, share
from aoi_fl.lab.experiments.harness.verdicts import side
from aoi_fl.lab.experiments.oracles.weight_laws import weight_law
from aoi_fl.lab.experiments.oracles.weight_variance import proportional_weight_variance
from aoi_fl.science.sizes import make_sizes

_MARKS = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
_THEIRS = {"random": 0.204, "proportional": 0.116, "markov-optimal": 0.055, "markov-increasing": 0.061}
_DRAWS = 1000  # more populations of Zipf sizes
_ESTIMATES = ("variance", "dispersion")


@cache
def law(policy):
    """Return the exact law of a policy's weights."""
    return weight_law(policy, setting.sizes(), setting.PER_ROUND, _MARKS[-1])


@cache
def draws_above():
    """Count the draws of Zipf sizes, of 1000, with a Σ under proportional selection above the Markov policies'.

    Both are closed forms, Theorems 4 and 5; the latter does not depend on sizes.
    """
    sigma = law("markov-optimal").variance
    return sum(
        proportional_weight_variance(make_sizes(setting.SIZES, setting.CLIENTS, seed), setting.PER_ROUND) > sigma
        for seed in range(1, _DRAWS + 1)
    )


class LoadVariance(setting.PolicyFigure):
    """Journal, Fig. 2."""

    def measured(self, history):
        """Return both estimates over rounds 1 … t, for some t."""
        weights, rows = setting.weights_of(history), []
        for t in _marks(history.rounds):
            square, mean = (weights[:t] ** 2).sum() / t, weights[:t].mean(axis=0)
            rows.append({"rounds": t, "variance": square - mean @ mean, "dispersion": square - 1 / setting.CLIENTS})
        return rows

    def conclude(self, rows, settings):
        laws = {policy: law(policy) for policy in self.policies}
        marks = _marks(settings["rounds"])
        points = []
        for policy, of in laws.items():
            for t in marks:
                exact = {"variance": of.estimate(t), "dispersion": of.dispersion}
                points += [(pick(rows, column, policy=policy, rounds=t), exact[column]) for column in exact]
        met = agreement(points)
        last = marks[-1]
        ours = {p: [interval(pick(rows, c, policy=p, rounds=last)) for c in _ESTIMATES] for p in laws}
        often = share(draws_above(), _DRAWS)
        equal = 1 / setting.PER_ROUND - 1 / setting.CLIENTS
        lines = [
            [
                p,
                f"{of.variance:.4f}",
                ours[p][0].show(4),
                f"{of.dispersion:.4f}",
                ours[p][1].show(4),
                f"{_THEIRS.get(p, '')}",
            ]
            for p, of in laws.items()
        ]
        sigma = {p: of.variance for p, of in laws.items()}
        at = ", ".join(f"{p} {ours[p][0].show(4)}" for p in laws)
        ahead = [
            _ahead(rows, last, markov, rival)
            for markov in ("markov-optimal", "markov-increasing")
            for rival in ("random", "proportional")
        ]
        apart = _ahead(rows, last, "markov-optimal", "markov-increasing")
        same = abs(sigma["markov-optimal"] - sigma["markov-increasing"]) < 1e-9
        claims = {
            "theorems": (f"simulation and theory {met}", met.verdict("holds" if met.holds else "refuted")),
            "lower": (
                f"one draw of the sizes: {at}; over draws of Zipf(2.0) sizes, Markov is below proportional in {often} "
                f"of {_DRAWS} (Theorems 4 and 5); with equal sizes random has {equal:.4f}, below Markov's "
                f"{sigma['markov-optimal']:.4f}, which is outside of Fig. 2",
                met.verdict(_order(ahead, draws_above() / _DRAWS)),
            ),
            "optimal": (
                f"Theorem 5: {sigma['markov-optimal']:.4f} and {sigma['markov-increasing']:.4f}, "
                f"{'the same' if same else 'different'}; measured difference, paired, {apart.show(4)}",
                met.verdict("refuted" if same else side([apart], -1)),
            ),
        }
        return self.concluded(claims, lines, met=met, draws=_DRAWS, often=often, last=last)


def _marks(rounds):
    """Return the rounds after which both estimates are taken."""
    return [t for t in _MARKS if t <= rounds]


def _ahead(rows, rounds, policy, rival):
    """Return the difference of Σ from a rival's, in pairs."""
    return difference(*(pick(rows, "variance", policy=p, rounds=rounds) for p in (policy, rival)))


def _order(ahead, often):
    """Judge the order at the present sizes if 95 % of the draws share it; if 5 % at most do, it is refuted."""
    if often <= 0.05:
        return "refuted"
    return side(ahead, -1) if often >= 0.95 else "undecided"
