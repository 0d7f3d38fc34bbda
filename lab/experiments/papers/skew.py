"""The selection skew ρ along training, estimated as Javani & Wang 2025 do for their Table II."""

from collections.abc import Mapping

import numpy as np

from aoi_fl.lab.experiments.harness import setting
from aoi_fl.lab.experiments.harness.base import Experiment, having
from aoi_fl.lab.experiments.harness.replay import dealt_as
from aoi_fl.lab.experiments.harness.stats import difference, interval, paired_curves
from aoi_fl.lab.experiments.harness.verdicts import elsewhere, side, tally
from aoi_fl.lab.experiments.oracles.skew import objective_gap, optima, skew, train

_SPLITS = ("iid", "dirichlet-0.3")
_MARKOV = ("markov-optimal", "markov-increasing")


class Skew(Experiment):
    """Journal, Table II."""

    theirs: Mapping[str, float]  # ρ in Table II
    factors = {"split": _SPLITS, "policy": setting.POLICIES}

    def _unbiased(self, rows):
        """Return what speaks against Γ's estimate, which may be below 0; Remark 3 is not testable in any case."""
        gaps = {(row["seed"], row["split"], row["policy"]): row["gap"] for row in rows}
        if not (below := sum(gap < 0 for gap in gaps.values())):
            return ()
        return (
            f"Γ is estimated below 0 in {below} of {len(gaps)} runs, {min(gaps.values()):.4f} to "
            f"{max(gaps.values()):.4f}, though it cannot be; {self.claims['unbiased'].ours}",
        )

    def play(self, unit, options):
        """Train with one policy, and return each round's skew at its model and at the last one, and Γ."""
        chosen = self.settings(options)
        there = dealt_as(chosen, options, unit["seed"], unit["split"])
        local, central = optima(there, chosen["local_steps"], chosen["central_epochs"])
        history = setting.play(unit["policy"], chosen["rounds"], unit["seed"], there.sizes)
        losses, weights = train(there, history)
        shares = there.sizes / there.sizes.sum()
        played = np.flatnonzero(weights.any(axis=1))
        along, final = (skew(weights[played], at, local, shares) for at in (losses[played], losses[-1]))
        gap = objective_gap(central, local, shares)
        return [
            {"round": t + 1, "along": a, "final": f, "gap": gap}
            for t, a, f in zip(played.tolist(), along, final, strict=True)
        ]

    def conclude(self, rows, settings):
        lines, above, gaps = [], {}, {}
        for split in _SPLITS:
            least, mean, most, gap = (
                paired_curves(having(rows, split=split), "policy", setting.POLICIES, column, how)
                for column, how in (("along", np.min), ("along", np.mean), ("final", np.max), ("gap", np.mean))
            )
            if len(least) < len(setting.POLICIES):
                continue
            gaps[split] = interval(gap["random"]).show(3)
            for policy in setting.POLICIES:
                more = [difference(found[policy], found["random"]) for found in (least, mean)]
                above.setdefault(policy, {})[split] = more
                shown = [
                    interval(least[policy]).show(2),
                    interval(mean[policy]).show(3),
                    *("" if policy == "random" else m.show(2) for m in more),
                    interval(most[policy]).show(2),
                ]
                lines.append([split, policy, *shown, f"{self.theirs[policy]:g}"])
        own = [settings["dataset"]] == self.data  # other data have other claims
        claims = {"unbiased": self._unbiased(rows if own else [])}
        for key, policies, wanted in (("larger", _MARKOV, 1), ("smaller", ("proportional",), -1)):
            found = [(f"{split}, {p}", more) for p in policies for split, more in above.get(p, {}).items()]
            least, means = ([(f"{name} {more[i].show(3)}", more[i]) for name, more in found] for i in (0, 1))
            word = "above" if wanted > 0 else "below"
            ours = "; ".join(
                f"{what} ρ over the rounds {word} random's, in pairs, {tally(these, wanted)}"
                for what, these in (("least", least), ("mean", means))
                if these
            )
            if found and own:
                claims[key] = ours, elsewhere(side([more for _, more in least], wanted))
        halves = [least.half for policy in above if policy != "random" for least, _ in above[policy].values()]
        missing = [split for split in _SPLITS if split not in gaps]
        more = f" Not run: {', '.join(missing)}." if missing else ""
        if halves and {"undecided", "underpowered"} & {word for of in claims.values() for word in of}:
            more += (
                f" {len({row['seed'] for row in rows})} seeds are too few to decide: by how much the least ρ is above "
                f"random's they tell to ±{min(halves):.3f} at best and to ±{max(halves):.3f} at worst."
            )
        shown = "; ".join(f"{split} {gap}" for split, gap in gaps.items())
        return self.concluded(claims, lines, gaps=shown, more=more, **settings)
