"""The setting of Javani & Wang: n = 100 clients, k = 15 a round, m = 10, Zipf(2.0) sizes, and the paper's policies."""

from abc import abstractmethod

import numpy as np

from aoi_fl.config.keys import RunKeys
from aoi_fl.config.policies import REGISTRY
from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.protocol.clients import section5_instance
from aoi_fl.science.interval_law import StrideLaw
from aoi_fl.science.markov import MarkovPolicy
from aoi_fl.science.selection import Population, everyone
from aoi_fl.science.simulate import simulate
from aoi_fl.science.sizes import make_sizes

CLIENTS, PER_ROUND, MAX_AGE = 100, 15, 10
SIZES, SIZES_SEED = "zipf:2.0", 1  # one population for all seeds, as in the paper's figures
POLICIES = ("random", "proportional", "markov-optimal", "markov-increasing")
SYSTEMATIC = "systematic"  # beside the paper's, where its law is known too

PAPER_SIZES = {"clients": CLIENTS, "per_round": PER_ROUND, "max_age": MAX_AGE}


TRAINING = {"local-epochs": 5, "batch-size": 50, "learning-rate": 0.1, "learning-rate-decay": 0.998}


# The size of the papers' federations, as run keys.
PAPER_KEYS = {"num-clients": CLIENTS, "clients-per-round": PER_ROUND, "max-age": MAX_AGE}


class Trained(Experiment):
    """An experiment that trains as the papers do; the digits have training of their own."""

    takes = ("rounds",)

    def settings(self, options):
        found = {"dataset": ", ".join(self.datasets(options))} | super().settings(options)
        return found if found["dataset"] == "digits" else TRAINING | found


def sizes():
    """Return the clients' data sizes."""
    return make_sizes(SIZES, CLIENTS, SIZES_SEED)


def markov(name):
    """Return the table of a Markov policy; for ``random``, the one with the same law of X for each client."""
    if name == "random":
        return MarkovPolicy.uniform(CLIENTS, PER_ROUND, MAX_AGE)
    return policy(name, 0)


def law(name):
    """Return the law of X of a policy under which each client has the same one."""
    return StrideLaw(PER_ROUND / CLIENTS) if name == SYSTEMATIC else markov(name)


def section5(clients, seed):
    """Return an instance of Section 5 of Xu et al., with all clients available."""
    table = section5_instance(clients, seed)
    return Population(table.ages, table.sizes, np.ones(clients, np.bool_), table.payments, table.sensitivities)


def policy(name, seed, **keys):
    """Return a policy in this setting, or with other run keys: a selector, or the rule by which clients decide."""
    return REGISTRY[name].build(RunKeys.model_validate({"policy": name, **PAPER_KEYS, "seed": seed, **keys}).flat())


def play(name, rounds, seed, dealt=None):
    """Simulate a policy, with ``dealt`` sizes if given; Markov clients start stationary."""
    return simulate(policy(name, seed), everyone(sizes() if dealt is None else dealt), rounds, seed)


def weights_of(history):
    """Return (T, n) weights ω."""
    weights = np.zeros((history.rounds, history.clients))
    rounds = np.repeat(np.arange(history.rounds), np.diff(history.offsets))
    weights[rounds, history.members] = history.weights
    return weights


def ages_of(history):
    """Return (T, n) ages after the refreshes of each round."""
    return np.array([ages.copy() for ages in history.ages()])[1:]


class PolicyFigure(Experiment):
    """A figure of the journal on policies without learning, with systematic participation beside them."""

    minutes = 0.3
    whole_seeds = True
    policies = (*POLICIES, SYSTEMATIC)
    factors = {"policy": policies}
    counts = (20, 8)
    conditions = {**PAPER_SIZES, "sizes": f"{SIZES}, drawn with seed {SIZES_SEED}", "rounds": [1000, 200]}

    def play(self, unit, options):
        """Return what is measured of a policy's selections."""
        return self.measured(play(unit["policy"], self.settings(options)["rounds"], unit["seed"]))

    @abstractmethod
    def measured(self, history):
        """Return the rows of a history."""
