"""Fairness in accuracy: the spread over clients of the model's accuracy on their own examples."""

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.findings import JOURNAL
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.study import Contrast, Hypothesis, Measure, Study, expect

_CASE = "Dirichlet 0.3"
_ALPHA = 0.3
_RANDOM, _MARKOV = "random, size weights", "markov-optimal, equal weights"  # the paper's weights
_RANDOM_EQUAL, _MARKOV_SIZE = "random, equal weights", "markov-optimal, size weights"
_WEIGHTS = {_RANDOM: "size", _MARKOV: "equal", _RANDOM_EQUAL: "equal", _MARKOV_SIZE: "size"}
_EVALUATIONS = 5  # after the last rounds
_LOWEST = 0.1  # of the clients


class ClientAccuracy(Study):
    """Random selection and Markov optimal on unequal data, at the paper's weights and at equal ones."""

    name = "client-accuracy"
    title = "Fairness in accuracy: the model on each client's own examples"
    source = f"{JOURNAL}, abstract; MNIST, Dirichlet 0.3"
    minutes = 6
    data = ("mnist",)
    cases = (_CASE,)
    policies = tuple(_WEIGHTS)
    measures = (
        Measure("spread", "standard deviation of accuracy over clients, points", 2, 100.0, drawn=True),
        Measure("lowest", "accuracy of the lowest tenth of clients, %", 2, 100.0, drawn=True),
        Measure("mean", "mean accuracy over clients, %", 2, 100.0),
    )
    hypotheses = (
        Hypothesis(
            "Markov participation is fair to clients in the accuracy that the model has for each",
            (Contrast(_CASE, _MARKOV, "spread", -1, _RANDOM),),
            f"{JOURNAL}, abstract",
            "“scalable, fair, and efficient FL systems”, no number",
            "2NN",
        ),
        expect(
            "With weights by size accuracy spreads less over clients under Markov optimal than under random selection",
            (_CASE,),
            _MARKOV_SIZE,
            "spread",
            -1,
            _RANDOM,
        ),
        expect(
            "With equal weights accuracy spreads less over clients under Markov optimal than under random selection",
            (_CASE,),
            _MARKOV,
            "spread",
            -1,
            _RANDOM_EQUAL,
        ),
    )
    planned, first = 5, 401
    committed = "9d9ec6eb"

    def settings(self, options):
        keys = {**setting.PAPER_KEYS, "partition": f"dirichlet:{setting.alpha(_ALPHA, options)}"}
        return setting.learning(self, options, (30, 6), **keys)

    def play(self, unit, options):
        """Train along the policy's selections, and return how accuracy spreads over the clients."""
        chosen, seed = self.settings(options), unit["seed"]
        there = dealt_as(chosen, options, seed, setting.CLIENTS, kind="dirichlet", alpha=setting.alpha(_ALPHA, options))
        policy = setting.policy(unit["policy"].partition(",")[0], seed)
        history = there.history(policy, chosen["num-server-rounds"], _WEIGHTS[unit["policy"]])
        found = [
            [there.task.evaluate(model, part)[1] for part in there.parts]
            for t, model in there.rounds(history)
            if t > history.rounds - _EVALUATIONS
        ]
        accuracy = np.sort(np.mean(found, axis=0))
        return [
            {
                "spread": round(float(accuracy.std()), 6),
                "lowest": round(float(accuracy[: round(_LOWEST * len(accuracy))].mean()), 6),
                "mean": round(float(accuracy.mean()), 6),
            }
        ]

    def summary(self, rows, settings):
        return (
            f"The model's accuracy on each of {settings['num-clients']} clients' own training examples, "
            f"{settings['clients-per-round']} clients a round, a mean over the last {_EVALUATIONS} of "
            f"{settings['num-server-rounds']} rounds; then its spread over the clients. "
            "The paper weighs random selection by size and Markov clients equally; the other two are controls. "
            "Ages start from the stationary law. "
            "The wording and the measures were fixed before the runs."
        )
