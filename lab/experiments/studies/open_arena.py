"""The arena without foresight: 1,000 generated devices, six hours, each rival with its best weights; and no barrier."""

from aoi_fl.lab.experiments.harness.study import Contrast, Hypothesis, Measure, expect
from aoi_fl.lab.experiments.studies.arena import Arena, read_in_time
from aoi_fl.lab.experiments.studies.entrants import own_keys
from aoi_fl.lab.experiments.studies.equal_work import ArenaStudy, load_of

_CASE = "generated, Dirichlet 0.3"
_HOURS = (1, 3, 6)
_RANDOM, _ROBIN, _MARKOV, _SYSTEMATIC = "random", "round-robin", "markov", "systematic"
_OURS = {
    _RANDOM: "random",
    _ROBIN: "oldest-age",
    _MARKOV: "markov-optimal:compensate=availability",
    _SYSTEMATIC: "systematic:compensate=availability",
}
_WITHOUT, _BUFFER = ", B = 4", ":buffer=4:late-rounds=100:evaluate-every=8"
_ENTRANTS = {
    **_OURS,
    "oort": "oort",
    "fedcs": "fedcs",
    "refl": "refl",
    "f3ast": "f3ast",
}
_MARGIN = 0.5  # points of accuracy within which two policies count as level
_SHARED = {
    "model": "lr",
    "num-clients": 1000,
    "clients-per-round": 15,
    "over-selection": 1.0,
    "train-timeout": 60.0,
    "late-rounds": 5,
    "weights": "size",
    "learning-rate-decay": 1.0,
    "evaluate-every": 2,
}


def _level(policy, text):
    claim = f"{text} is within {_MARGIN:g} points of random selection after one, three and six hours"
    sides = (
        Contrast(_CASE, policy, f"accuracy_{hour}", way, _RANDOM, -way * _MARGIN) for hour in _HOURS for way in (1, -1)
    )
    return Hypothesis(claim, tuple(sides))


def _first(policy, text):
    return expect(
        f"{text} is more accurate than random selection after one hour", (_CASE,), policy, "accuracy_1", 1, _RANDOM
    )


def _fairer(policy, text, suffix="", hours="six"):
    claim = f"{text} shares the load of {hours} hours more evenly than random selection"
    return expect(claim, (_CASE,), policy + suffix, "jain", 1, _RANDOM + suffix)


def _sooner(policy):
    claim = f"Without a barrier {policy} is more accurate after one hour than with one"
    return expect(claim, (_CASE,), policy + _WITHOUT, "accuracy_1", 1, policy)


def _measures(hours):
    """Return a run's accuracy after each of the hours, the first and the last of them drawn, and its load."""
    shown = hours[0], hours[-1]
    return (
        *(Measure(f"accuracy_{h}", f"accuracy after {h} h, %", 2, 100.0, drawn=h in shown) for h in hours),
        Measure("jain", "Jain's index of those available", 3, drawn=True),
        Measure("never", "% never reached of those available", 1, 100.0, compared=False),
        Measure("updates", "updates a round", 1, compared=False),
        Measure("worked", "device-hours", 1, 1 / 3600, compared=False),
    )


class OpenArena(ArenaStudy):
    """Eight policies on 1,000 generated devices, with what a server knows from its clients' replies."""

    name = "open-arena"
    title = "The arena without foresight: 1,000 devices, six hours"
    source = "In no paper; generated devices, MNIST"
    arena = Arena("open-arena", partition="dirichlet:0.3")
    cases = (_CASE,)
    minutes = 60
    entrants = _ENTRANTS
    hours = _HOURS
    measures = _measures(hours)
    hypotheses = (
        _level(_SYSTEMATIC, "Systematic participation at rates adapted from replies"),
        _level(_MARKOV, "Markov participation at rates adapted from replies"),
        _fairer(_SYSTEMATIC, "Systematic participation at rates adapted from replies"),
        _fairer(_MARKOV, "Markov participation at rates adapted from replies"),
        _fairer(_ROBIN, "Round-robin"),
        _first("oort", "Oort without the devices' speeds"),
        _first("fedcs", "FedCS without the devices' speeds"),
        _first("refl", "REFL without a forecast"),
        _first("f3ast", "F3AST with weights by size"),
    )
    planned, first = 10, 301
    committed = "e1b3b01d"

    def settings(self, options):
        return {**super().settings(options), **({} if options.quick else _SHARED | {"until": 3600.0 * self.hours[-1]})}

    def keys(self, policy, seed, options):
        """Return the run keys of a policy."""
        settings = self.settings(options)
        rest = {"num-server-rounds": int(settings["until"]), "max-empty-rounds": 0, "device": "cpu", "seed": seed}
        return {**settings, **rest, **own_keys(self.entrants[policy], ())}

    def row(self, ledger, keys):
        """Return a run's accuracy after each hour, its load and its work."""
        found, shares = read_in_time(ledger, keys)
        last = self.hours[-1]
        hours = {f"accuracy_{hour}": found.accuracy_at(keys["until"] * hour / last) for hour in self.hours}
        work = {"worked": round(found.worked, 2), "wasted": round(found.wasted, 2)}
        return {**hours, **load_of(found, shares), **work}

    def summary(self, rows, settings):
        return (
            f"{settings['num-clients']} generated devices, {settings['clients-per-round']} a round without "
            f"over-selection, a deadline of {settings['train-timeout']:g} s, {settings['until'] / 3600:g} h of "
            f"simulated time; {settings['model']} on {settings['dataset']}, {settings['partition']}, at a constant "
            "learning rate. No policy knows more of a device than its replies have told. Every policy has weights by "
            "size and takes updates that are up to five rounds late. Round-robin is oldest-age: of the available "
            "clients those that have waited longest."
        )


class OpenBarrier(OpenArena):
    """Four policies in the arena without foresight, with and without a barrier."""

    name = "open-barrier"
    page = "open-arena"
    title = "The same without a barrier: a new model after four updates"
    minutes = 60
    hours = _HOURS[:2]
    measures = _measures(hours)
    entrants = {
        name + suffix: keys + more for name, keys in _OURS.items() for suffix, more in (("", ""), (_WITHOUT, _BUFFER))
    }
    hypotheses = (
        *map(_sooner, _OURS),
        Hypothesis(
            f"Without a barrier no policy is over {_MARGIN:g} points less accurate after three hours than with one",
            tuple(Contrast(_CASE, name + _WITHOUT, "accuracy_3", 1, name, -_MARGIN) for name in _OURS),
        ),
        _fairer(_SYSTEMATIC, "Without a barrier, systematic participation", _WITHOUT, "three"),
        _fairer(_MARKOV, "Without a barrier, Markov participation", _WITHOUT, "three"),
    )
    planned, first = 6, 401
    committed = "08ad59c4"

    def summary(self, rows, settings):
        return (
            "The setting is that of the arena without foresight, for three hours and with other seeds. *B = 4*: the "
            "server makes a model after four updates and takes updates that are up to 100 models old. One that is s "
            "models old counts (1+s)^−½ of its change."
        )
