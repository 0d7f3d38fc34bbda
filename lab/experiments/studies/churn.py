"""Clients that join and leave, and the load that those present then get."""

from dataclasses import replace

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, pick
from aoi_fl.lab.experiments.harness.stats import agreement, interval
from aoi_fl.lab.experiments.oracles.markov_chain import transition
from aoi_fl.science import draws
from aoi_fl.science.phases import newcomer_phase
from aoi_fl.science.rule import Clocks
from aoi_fl.science.systematic import SystematicPolicy

_LEAVING = (0.01, 0.02, 0.05, 0.1, 0.2)  # probability that a client present leaves after a round
_KINDS = {
    "stationary": "newcomers, first age from the stationary law",
    "zero": "newcomers, first age 0",
    "gap": "newcomers, each with its phase in the widest gap",
    "returning": "the same clients come back, ages grown meanwhile",
}
_MARKOV = ("markov-optimal", "markov-increasing")
_PLAYED = {**dict.fromkeys(_MARKOV, ("stationary", "zero", "returning")), setting.SYSTEMATIC: ("gap", "returning")}
_RATE = setting.PER_ROUND / setting.CLIENTS
_SPREAD_AT = 0.1  # the share leaving for the table's spread of the rounds
_WARM_UP = 300  # rounds before counting


def expected_rate(policy, kind, leaving):
    """Return the exact probability that a client present takes part in a round.

    A stationary newcomer is in the steady state at once. One of age 0 takes part in its j-th round with probability u_j
    (the renewal sequence), and a client present is in its j-th round with probability λ(1−λ)^(j−1): λ/z · E[z^X]/(1 −
    E[z^X]) with z = 1−λ. A client that leaves and returns with probability λ is a Markov chain on (min(age, m),
    present).

    The phases of systematic newcomers do not depend on the round. A systematic client that returns makes up for a
    stride of X rounds unless it was away in all of them, which has probability ½ z^(X−1).
    """
    if policy == setting.SYSTEMATIC:
        mean = setting.CLIENTS / setting.PER_ROUND
        shorter, longer = divmod(mean, 1)  # the shorter of its two strides, and the share of the longer one
        away = (1 - leaving) ** (shorter - 1) * (1 - longer * leaving)  # E[z^(X−1)]
        return (2 - away) / mean if kind == "returning" else 1 / mean
    table = setting.markov(policy)
    if kind == "stationary":
        return 1 / table.interval_mean
    if kind == "zero":
        pmf = table.interval_pmf()
        passed = pmf @ (1 - leaving) ** np.arange(1, len(pmf) + 1)  # E[z^X]
        return leaving / (1 - leaving) * passed / (1 - passed)
    states = table.max_age + 1
    here, away = transition(table.hazards), transition(np.zeros(states))
    step = np.block([[(1 - leaving) * here, leaving * here], [leaving * away, (1 - leaving) * away]])
    system = np.vstack([step.T - np.eye(2 * states), np.ones(2 * states)])
    law = np.linalg.lstsq(system, np.append(np.zeros(2 * states), 1.0), rcond=None)[0]
    present = law[:states]
    return present @ table.probabilities / present.sum()


class Churn(Experiment):
    """Clients that join and leave, which the papers leave out."""

    def cells(self, options):
        return [
            {"policy": p, "kind": kind, "leaving": leaving}
            for p, kinds in _PLAYED.items()
            for kind in kinds
            for leaving in _LEAVING
        ]

    def play(self, unit, options):
        """Return the share of clients present that took part, the empty rounds, and the spread of |S|."""
        rounds = self.settings(options)["rounds"]
        present, took_part = _play(unit["policy"], unit["kind"], unit["leaving"], rounds, unit["seed"])
        return [
            {
                "rate": took_part.sum() / present.sum(),
                "empty": int((took_part == 0).sum()),
                "deviation": np.std(took_part),
            }
        ]

    def conclude(self, rows, settings):
        points, lines = [], []
        for policy, kinds in _PLAYED.items():
            for kind in kinds:
                found = {x: pick(rows, "rate", policy=policy, kind=kind, leaving=x) for x in _LEAVING}
                points += [(found[x], expected_rate(policy, kind, x)) for x in _LEAVING]
                cells = [f"{interval(found[x]).show(4)} ({expected_rate(policy, kind, x):.4f})" for x in _LEAVING]
                spread = interval(pick(rows, "deviation", policy=policy, kind=kind, leaving=_SPREAD_AT)).show(1)
                lines.append([policy, _KINDS[kind], *cells, spread])
        return self.concluded({}, lines, met=agreement(points))


def _play(policy, kind, leaving, rounds, seed):
    """Return how many clients were present, and how many took part, in each round after the warm-up."""
    places = setting.CLIENTS * (2 if kind == "returning" else 1)
    rule = setting.markov(policy) if policy in _MARKOV else SystematicPolicy.rated(np.full(places, _RATE), seed=seed)

    def first_ages(round_):
        """Return (places,) the ages of clients that join after a round."""
        return rule.first_age(round_ + 1, draws.uniforms(seed, round_, "first-age", places))

    last = -first_ages(0)
    clocks = Clocks(last, rule.counts(last))
    here = np.ones(places, dtype=np.bool_)
    if kind == "returning":
        here = draws.uniforms(seed, 0, "present", places) < 0.5
    present, took_part = [], []
    for t in range(1, _WARM_UP + rounds + 1):
        willing = here & rule.participates(clocks, t, draws.uniforms(seed, t, "participate", places))
        if t > _WARM_UP:
            present.append(int(here.sum()))
            took_part.append(int(willing.sum()))
        clocks = rule.advance(clocks, t, willing)
        moves = draws.uniforms(seed, t, "churn", places) < leaving
        if kind == "returning":
            here = here ^ moves
            continue
        if kind == "gap":
            phases = rule.phases.copy()
            for place in np.flatnonzero(moves):
                phases[place] = newcomer_phase(np.delete(phases, place))
            rule = replace(rule, phases=phases)
        # A place that falls free goes to a newcomer at once.
        last = np.where(moves, t - (0 if kind == "zero" else first_ages(t)), clocks.last)
        clocks = Clocks(last, rule.counts(last))
    return np.array(present), np.array(took_part)
