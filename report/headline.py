"""The main result of a page: a headline and a table with a row per policy."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from aoi_fl.report.judging import EQUAL, LEAST_SEEDS, difference, interval, judged
from aoi_fl.report.measure import JUDGES, LedgerMeasure
from aoi_fl.report.quantities import Quantity, Table, by_title
from aoi_fl.report.runs import RecordedRun
from aoi_fl.report.seeds import Setting
from aoi_fl.report.template import fill
from aoi_fl.report.theory import RANDOM
from aoi_fl.server.observe import duration


def headline(settings: Sequence[Setting]) -> str:
    """Return a page's main result in one or two sentences; empty before the first round."""
    begun = [setting for setting in settings if any(not run.empty for run in setting.runs)]
    if not begun:
        return ""
    kind, shown, found = "alone", begun, ""
    if any(setting.first.in_time for setting in begun):
        kind, shown = "in time", [setting for setting in begun if setting.first.in_time][:3]
    elif all(setting.first.budgeted for setting in begun):
        best = min(begun, key=lambda one: one.mean(_data_age) or np.inf)
        kind, shown = "budgeted", [best, *(one for one in begun if one is not best)][:2]
    elif len(begun) > 1:
        rival = next((one for one in begun if one.first.kind in RANDOM), None) or min(begun, key=_evenness)
        best = max((one for one in begun if one is not rival), key=_evenness)
        kind, shown, found = "compared", [best, rival], _difference(best, rival)
    results = list(filter(None, map(_result, shown)))
    return fill("headline.txt", kind=kind, settings=begun, shown=shown, difference=found, results=results, **_WORDS)


def policies(settings: Sequence[Setting]) -> Table:
    """Return a table with a row per setting, without empty or redundant columns."""
    shown = {name: list(map(show, settings)) for name, show in _COLUMNS.items()}
    if all(setting.first.kind in setting.name for setting in settings):
        del shown["policy"]
    kept = {name: cells for name, cells in shown.items() if any(cells)}
    rows = [[setting.name, *(cells[i] for cells in kept.values())] for i, setting in enumerate(settings)]
    several = all(len(setting.runs) > 1 for setting in settings)
    return [("setting" if "policy" in kept else "policy") if several else "run", *kept], rows


def random_range(clients: int, per_round: float, rounds: int) -> tuple[int, int]:
    """Return the typical smallest and largest count of a client under random selection.

    They are medians over runs, for independent binomial counts.

    Examples
    --------
    >>> random_range(100, 15, 60)
    (3, 16)
    """
    from scipy.special import bdtr

    counts = np.arange(rounds + 1)
    below = np.asarray(bdtr(counts, rounds, min(per_round / clients, 1.0)))
    least = int(np.argmax(1 - (1 - below) ** clients >= 0.5))
    return least, int(np.argmax(below**clients >= 0.5))


def _yardstick(setting: Setting) -> str:
    run, load = setting.first, setting.loads[0]
    if run.kind in RANDOM:
        mean = load.participation.mean
        return f"an even load would be {_span(int(mean), int(np.ceil(mean)))} times"
    even = random_range(run.size, load.round_mean, len(run.rounds))
    return f"under random selection typically {_span(*even)} times"


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}–{most}"


def _counts(setting: Setting) -> str:
    """Return how often the clients took part, from the least to the most; "" before the first round."""
    counts = [load.participation for load in setting.loads]
    return f"{_span(min(c.min for c in counts), max(c.max for c in counts))} times" if counts else ""


def _evenness(setting: Setting) -> float:
    return setting.mean(_JAIN.value) or 0.0


def _result(setting: Setting, wanted: LedgerMeasure | None = None, *, half: bool = False) -> str:
    """Return the mean of the last values, with half its interval if asked; "" without one of the wanted measure."""
    ends = list(setting.ends.values())
    if not ends or wanted not in (None, setting.measure):
        return ""
    more = f" ± {interval(ends).half:.2g}" if half and len(ends) >= LEAST_SEEDS else ""
    return setting.measure.write(float(np.mean(ends)), more=more)


def _difference(best: Setting, rival: Setting) -> str:
    """Return the final difference of two settings in words, by paired seeds if enough."""
    judge, mine, theirs = best.measure, best.ends, rival.ends
    seeds = sorted(mine.keys() & theirs.keys(), key=str)
    if not mine or not theirs:
        return ""
    if len(seeds) < LEAST_SEEDS:
        other = "" if rival.measure.title == judge.title else f"{rival.measure.title} "
        return f"{judge.title} {_result(best)} with {best.name} and {other}{_result(rival)} with {rival.name}"
    ours, base = ([ends[seed] for seed in seeds] for ends in (mine, theirs))
    found = difference(ours, base, judge.scale * judge.grain(best.first))
    word = judged(found, EQUAL * judge.scale, 1)
    name = judge.name.removeprefix("test ")
    mean, half, unit = found.mean, found.half, " points" if judge.unit else ""
    if word == "equal":
        return f"Same {name}"
    if word == "not distinguishable":
        return f"No clear difference in {name} ({mean:+.2g} ± {half:.2g}{unit})".replace("-", "−")
    return f"{name[0].upper()}{name[1:]} {abs(mean):.2g} ± {half:.2g}{unit} {'higher' if word == 'better' else 'lower'}"


def _data_age(run: RecordedRun) -> float | None:
    return float(np.nanmean(run.ages())) if run.budgeted and not run.empty else None


def _excess(run: RecordedRun) -> float | None:
    """Return the share by which P2 is above its floor."""
    value, floor = run.objective(), run.floor()
    return None if value is None or floor is None or not floor[-1] > 0 else float(value[-1] / floor[-1] - 1)


def _never(setting: Setting) -> str:
    mean = setting.mean(_NEVER.value)
    return "" if mean is None or setting.first.in_time is None else f"{mean:.0f} of {setting.first.size}"


def _rounds(setting: Setting) -> str:
    counts = [len(run.rounds) for run in setting.runs]
    return _span(min(counts), max(counts))


_SPENT, _JAIN, _NEVER = map(by_title, ("payments a round, mean", "Jain’s fairness index", "clients never reached"))
_ABOVE = Quantity("", "", _excess, lambda share: f"{100 * max(share, 0):.1f} %")
_WORDS: dict[str, Callable[..., object]] = {
    "above": _ABOVE.mean,
    "counts": _counts,
    "data_age": _data_age,
    "duration": duration,
    "never": _never,
    "spent": _SPENT.mean,
    "yardstick": _yardstick,
}
_COLUMNS: dict[str, Callable[[Setting], str]] = {
    "policy": lambda setting: setting.first.kind,
    "spent a round": _SPENT.mean,
    "budget a round": by_title("budget a round").mean,
    "mean age of data": Quantity("", "", _data_age).mean,
    "weighted age above the bound": _ABOVE.mean,
    "never took part": _never,
    "simulated time": by_title("simulated time").mean,
    "wasted work": by_title("wasted work").mean,
    "a client took part": _counts,
    "evenness (1 is even)": _JAIN.mean,
    "clients a round": by_title("clients a round, mean").mean,
    **{f"{one.name} at the end": partial(_result, wanted=one, half=True) for one in JUDGES},
    "rounds": _rounds,
    "seconds a round": by_title("seconds a round, mean").mean,
    "seeds": lambda setting: str(len(setting.runs)) if len(setting.runs) > 1 else "",
    "state": lambda setting: "" if setting.status == "completed" else setting.status,
}
