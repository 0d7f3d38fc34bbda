"""Accuracy against rounds: the learning figures of both papers, with paired seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, pick
from aoi_fl.lab.experiments.harness.federation import play_run
from aoi_fl.lab.experiments.harness.findings import Claim, Conclusion, listed
from aoi_fl.lab.experiments.harness.times import shift
from aoi_fl.lab.experiments.harness.verdicts import elsewhere, undecided
from aoi_fl.lab.experiments.papers.curves import draw
from aoi_fl.lab.experiments.papers.paper_claims import MEMORYLESS, claims_for
from aoi_fl.lab.experiments.papers.speed import BASE, OURS, POLICIES, VARIANTS, curves_of, diverged, measured, table_of

# One target a data set, where the papers give one; Fashion-MNIST's and the digits' are ours.
TARGETS = {"mnist": 0.97, "fashion-mnist": 0.85, "cifar10": 0.75, "cifar100": 0.30, "digits": 0.90}


class Learning(Experiment):
    """Accuracy of the paper's policies on one data set."""

    rounds: int
    partitions: Sequence[str] = ("iid",)
    model = "2nn"
    policies: Sequence[str] = POLICIES
    why = "not played here yet"
    targets: Mapping[str, float] = {}  # accuracies by partition, if not the data set's
    keys: Mapping[str, str] = {}  # more run keys
    fixed = "beforehand"  # when the levels were fixed
    pilot: int | None = None  # a seed before the levels were fixed that counts all the same
    note = ""  # on the committed results
    unmeasured = "no GPU was available for so long"  # the reason where a claim has no measurement

    def __init__(self, **row):
        super().__init__(**row)
        (self._dataset,) = self.data
        self._claimed = claims_for(self.name)
        self.quick = self.model != "cnn"
        self.factors = {"partition": self.partitions, "policy": self.policies}
        claims = (self._claim(said, self.model, self._unplayed(said), "not run") for said in self._claimed)
        self.claims = dict(enumerate(claims))

    def settings(self, options):
        dataset, rounds = self.datasets(options)[0], options.rounds or (4 if options.quick else self.rounds)
        found = {"dataset": dataset, "model": options.model or self.model, **setting.PAPER_KEYS}
        return found | {"num-server-rounds": rounds} | ({} if dataset == "digits" else setting.TRAINING | self.keys)

    def play(self, unit, options):
        """Run a federation; the seed alone decides first model, partition and the order of batches."""
        policy = VARIANTS.get(unit["policy"], {"policy": unit["policy"]})
        values = {
            **self.settings(options),
            **policy,
            "seed": unit["seed"],
            "partition": unit["partition"].replace(" ", ":"),
        }
        return play_run(self.name, values, options, stopped=True)

    def conclude(self, rows, settings):
        targets, curves = self._judged_at(settings), self._there(rows)
        tables = tuple(table_of(split, found, targets[split]) for split, found in curves.items())
        missing = [split for split in self.partitions if split not in curves]
        model = "" if settings["model"] == "cnn" else "the model is the 2NN, "
        paragraph = (
            f"{settings['dataset']}, {settings['model']}, {settings['num-server-rounds']} rounds, n=100, k=15, m=10, "
            "5 local epochs. Pairs share first model, partition and order of batches; *later* is the number of rounds "
            f"by which a level of test accuracy is late, the mean over levels fixed {self.fixed}. Weights are the "
            "papers': by size under random selection, by draws under proportional, equal for the policies by age. "
            "Under IID the sizes are equal, and random selection's weights are 1/k, too. "
            f"Other than in the papers, {model}ages start from the stationary law, and the p_a of markov-increasing, "
            "their non-optimal policy, is ours, since none is printed."
        )
        keys = ", ".join(f"{key}={value}" for key, value in self.keys.items())
        trained = pick(rows, "trained", policy=BASE)
        sent = len(trained) * settings["clients-per-round"]
        lost = sent - sum(trained)
        ended = ", ".join(
            f"{policy} with {seeds} seeds ({split})"
            for split, found in curves.items()
            for policy, seeds in diverged(rows, split, tuple(found)).items()
        )
        others = self._there([row for row in rows if row["seed"] != self.pilot]) if self.pilot else {}
        later = ", ".join(
            f"{policy} {moved.show(1)} ({split})"
            for split, found in others.items()
            for policy, curve in found.items()
            if policy != BASE and (moved := shift(curve, found[BASE], targets[split]))
        )
        there = {row["policy"] for row in rows}
        points = {
            f"Not in the papers: {keys}.": keys,
            self.note: self.note,
            f"Of random selection's {sent} updates {lost} were refused, as their training had diverged.": lost,
            f"The model diverged, and the run ended: {ended}. It counts with its last accuracy.": ended,
            f"Without seed {self.pilot}, rounds later than random: {later}.": later,
            f"Not run: {', '.join(missing)}.": missing,
            "The control, memoryless, is Markov optimal with m=0: it differs from random selection by its equal "
            "weights and by how many take part, about k, and the other Markov policies from it by ages alone.": (
                MEMORYLESS in there
            ),
            "Markov size and systematic size are Markov optimal and systematic participation, weights by size.": (
                there & {*OURS}
            ),
        }
        claims = tuple(self._judged(said, rows, settings) for said in self._claimed)
        return Conclusion(listed(paragraph, [point for point, holds in points.items() if holds]), claims, tables)

    def plot(self, rows, settings, figure):
        curves = self._there(rows)
        if curves:
            title = f"{settings['dataset']}, {settings['model']}"
            draw(figure, title, curves, {split: self._judged_at(settings)[split] for split in curves})

    def _judged_at(self, settings):
        """Return the accuracy of judgement for each partition."""
        own = self.targets if settings["dataset"] == self._dataset else {}
        return {split: own.get(split, TARGETS[settings["dataset"]]) for split in self.partitions}

    def _there(self, rows):
        """Return the curves of each complete partition, with random selection's among them."""
        found = {split: curves_of(rows, split) for split in self.partitions}
        return {split: curves for split, curves in found.items() if BASE in curves}

    def _judged(self, said, rows, settings):
        model = settings["model"]
        if settings["dataset"] != self._dataset:
            return self._claim(said, model, f"played on {settings['dataset']}", "not run")
        claim = self._claim(said, model, *(measured(said, rows, model) or (self._unplayed(said), "not run")))
        if not (lost := diverged(rows, said.partition, (said.policy, said.base))):
            return claim
        ours = f"{claim.ours}; diverged: {', '.join(f'{policy} with {seeds} seeds' for policy, seeds in lost.items())}"
        verdict = undecided(self.counts[0])
        reasons = {verdict: f"runs diverged at the papers' learning rate, {settings['learning-rate']}"}
        return replace(claim, ours=ours, verdict=verdict, reasons=reasons)

    def _unplayed(self, said):
        left_out = [policy for policy in (said.policy, said.base) if policy not in self.policies]
        return f"{' and '.join(left_out)} left out, for the hours" if left_out else self.why

    def _claim(self, said, model, ours, verdict):
        where = f"({self._dataset}, {said.partition}, {model})"
        claim = f"{said.text} {where}" + (f", judged at {said.judged:.0%}" if said.judged else "")
        behind = {"partition": {said.partition}, "policy": {said.policy, said.base}}
        played = "our CNN" if model == "cnn" else model.upper()
        reasons = {"not run": self.unmeasured, **said.reasons}
        return Claim(claim, said.paper, said.theirs, ours, elsewhere(verdict), behind, played, reasons)
