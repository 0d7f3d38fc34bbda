"""Clients that join and leave, and the load that those present then get."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, pick
from aoi_fl.lab.experiments.harness.drawing import Panel
from aoi_fl.lab.experiments.harness.findings import Conclusion, Table
from aoi_fl.lab.experiments.harness.stats import agreement, interval
from aoi_fl.science import age, draws
from aoi_fl.science.phases import make_phases, newcomer_phase
from aoi_fl.science.strides import Strides

_LEAVING = (0.01, 0.02, 0.05, 0.1, 0.2)  # probability that a client present leaves after a round
_KINDS = {
    "stationary": "newcomers, first age from the stationary law",
    "zero": "newcomers, first age 0",
    "gap": "newcomers, each with its phase in the widest gap",
    "returning": "the same clients come back, ages grown meanwhile",
}
_AGES = ("stationary", "zero", "returning")
_PLAYED = {"markov-optimal": _AGES, "markov-increasing": _AGES, setting.SYSTEMATIC: ("gap", "returning")}
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
    step = np.zeros((2 * states, 2 * states))  # first the states of clients present, then of those away
    for a, p in enumerate(table.probabilities):
        older = min(a + 1, table.max_age)
        for target, chance in ((0, p), (older, 1 - p)):
            step[a, target] += chance * (1 - leaving)
            step[a, states + target] += chance * leaving
        step[states + a, older] += leaving
        step[states + a, states + older] += 1 - leaving
    system = np.vstack([step.T - np.eye(2 * states), np.ones(2 * states)])
    law = np.linalg.lstsq(system, np.append(np.zeros(2 * states), 1.0), rcond=None)[0]
    present = law[:states]
    return present @ table.probabilities / present.sum()


class Churn(Experiment):
    """Clients that join and leave, which the papers leave out."""

    name = "churn"
    title = "Share of the clients present that take part, with clients joining and leaving"
    source = "Not in the papers: their clients stay"
    charts = (Panel("rate", "share taking part", "leaving", ("kind",), ("policy",), log="x"),)
    minutes = 1.2

    def settings(self, options):
        return {**setting.PAPER_SIZES, "rounds": 300 if options.quick else 1000}

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
        met = agreement(points)
        paragraph = (
            f"About {setting.CLIENTS} clients are present at a time, k/n is {setting.PER_ROUND / setting.CLIENTS}. "
            f"Measured shares and theory {met}. First ages drawn from the stationary law keep the promised load "
            "whatever the churn, as systematic newcomers do; starting newcomers at age 0 lowers it, and clients that "
            "return with grown ages, or have a round to make up for, raise it. The increasing policy's p_a is ours, "
            "since none is printed."
        )
        head = ("policy", "newcomers", *(f"{x:g}" for x in _LEAVING), f"clients a round, SD, at {_SPREAD_AT:g}")
        return Conclusion(
            paragraph,
            (),
            (Table("Share taking part, measured (exact), by the share that leaves a round", head, lines),),
        )


def _play(policy, kind, leaving, rounds, seed):
    """Return how many clients were present, and how many took part, in each round after the warm-up."""
    places = setting.CLIENTS * (2 if kind == "returning" else 1)
    crowd = _Systematic(places, seed) if policy == setting.SYSTEMATIC else _Markov(policy, kind, places, seed)
    here = np.ones(places, dtype=np.bool_)
    if kind == "returning":
        here = draws.uniforms(seed, 0, "present", places) < 0.5
    present, took_part = [], []
    for t in range(1, _WARM_UP + rounds + 1):
        willing = here & crowd.due(t)
        if t > _WARM_UP:
            present.append(int(here.sum()))
            took_part.append(int(willing.sum()))
        crowd.pass_round(willing)
        moves = draws.uniforms(seed, t, "churn", places) < leaving
        if kind == "returning":
            here = here ^ moves
        else:  # a place that falls free goes to a newcomer at once
            crowd.replace(moves, t)
    return np.array(present), np.array(took_part)


class _Markov:
    """Clients with ages and a coin a round."""

    def __init__(self, policy, kind, places, seed):
        self._table = setting.markov(policy).probabilities
        self._kind, self._places, self._seed = kind, places, seed
        self._ages = self._first(0)

    def due(self, round_):
        """Return (places,) the participants, if present."""
        return draws.uniforms(self._seed, round_, "participate", self._places) < age.hazards(self._table, self._ages)

    def pass_round(self, took_part):
        """Grow older, those present and those away."""
        self._ages = np.where(took_part, 0, self._ages + 1)

    def replace(self, where, round_):
        """Let newcomers take places after a round."""
        self._ages = np.where(where, 0 if self._kind == "zero" else self._first(round_), self._ages)

    def _first(self, round_):
        return age.first_age(self._table, draws.uniforms(self._seed, round_, "first-age", self._places))


class _Systematic:
    """Clients with a rate and a phase; an absent one makes up its round in the first one that it can."""

    def __init__(self, places, seed):
        self._rates = np.full(places, setting.PER_ROUND / setting.CLIENTS)
        self._phases = make_phases("spread", self._rates, seed)
        self._strides = Strides(self._rates, self._phases)
        self._owing = np.zeros(places, dtype=np.bool_)

    def due(self, round_):
        """Return (places,) the participants, if present."""
        self._owing |= self._strides.begin(round_)
        return self._owing

    def pass_round(self, took_part):
        """Cross off the participations."""
        self._owing = self._owing & ~took_part

    def replace(self, where, round_):
        """Let newcomers take places in sequence, each with its phase in the widest gap."""
        for place in np.flatnonzero(where):
            self._phases[place] = newcomer_phase(np.delete(self._phases, place))
        self._owing &= ~where
        self._strides = Strides(self._rates, self._phases)
