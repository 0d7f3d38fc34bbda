"""The main result of a page: a headline and a table with a row per policy."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from aoi_fl.report import budget, measure
from aoi_fl.report.judging import EQUAL, LEAST_SEEDS, difference, interval, judged
from aoi_fl.report.measure import LedgerMeasure, three
from aoi_fl.report.quantities import Table, quantities
from aoi_fl.report.runs import Run
from aoi_fl.report.seeds import Setting
from aoi_fl.server.observe import duration

_RANDOM = ("random", "RandomSelection")


def headline(settings: Sequence[Setting]) -> str:
    """Return a page's main result in one or two sentences; empty before the first round."""
    begun = [setting for setting in settings if any(not run.empty for run in setting.runs)]
    if not begun:
        return ""
    if any(setting.first.in_time for setting in begun):
        found = _clocked(begun)
    elif all(setting.first.budgeted for setting in begun):
        found = _budgeted(begun)
    else:
        found = _alone(begun[0]) if len(begun) == 1 else _compared(begun)
    return " ".join([found, *filter(None, (_diverged(one) for one in begun))])


def _diverged(setting: Setting) -> str:
    """Return a sentence on rounds whose test loss is not a number; empty for none."""
    lost = sum(int(np.isinf(run.column("test_loss")).sum()) for run in setting.runs)
    rounds = sum(len(run.rounds) for run in setting.runs)
    return f"In {lost} of {rounds} rounds of {setting.name} the test loss is not a number." if lost else ""


def policies(settings: Sequence[Setting]) -> Table:
    """Return a table with a row per setting, without empty or redundant columns."""
    named = all(_kind(setting.first) in setting.name for setting in settings)
    columns = {
        **({} if named else {"policy": lambda one: _kind(one.first)}),
        **(_MONEY if any(setting.first.budgeted for setting in settings) else {}),
        **(_TIME if any(setting.first.in_time for setting in settings) else {}),
        **_COLUMNS,
    }
    shown = {name: [show(setting) for setting in settings] for name, show in columns.items()}
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


def _alone(setting: Setting) -> str:
    run = setting.first
    counts = _range(setting)
    mean = run.measured.participation.mean
    if _kind(run) in _RANDOM:
        yardstick = f"an even load would be {_span(int(mean), int(np.ceil(mean)))} times"
    else:
        even = random_range(run.size, run.measured.round_mean, len(run.rounds))
        yardstick = f"under random selection typically {_span(*even)} times"
    return f"{_learned(setting)}Clients trained {_span(*counts)} times, {yardstick}."


def _compared(settings: Sequence[Setting]) -> str:
    rival = next((one for one in settings if _kind(one.first) in _RANDOM), None)
    rival = rival or min(settings, key=_evenness)
    best = max((one for one in settings if one is not rival), key=_evenness)
    load = f"clients trained {_span(*_range(best))} times, under {rival.name} {_span(*_range(rival))} times"
    load = f"under {best.name} {load}"
    learned = _difference(best, rival)
    return f"{learned}; {load}." if learned else f"{load[0].upper()}{load[1:]}."


def _budgeted(settings: Sequence[Setting]) -> str:
    best = min(settings, key=lambda one: _mean(one, _data_age) or np.inf)
    parts = []
    for setting in [best, *(one for one in settings if one is not best)][:2]:
        spent, age = _shown("payments a round, mean")(setting), _mean(setting, _data_age)
        paid = f" {spent} of {setting.first.policy['budget']:g} a round;" if spent else ""
        verb = "Spent" if len(settings) == 1 else f"{setting.name} spent"
        parts.append(f"{verb if paid else setting.name}{paid} data are {age or 0:.3g} rounds old on average")
    above = _above(best)
    bound = f" The weighted age is {above} above the best possible{_of(best, settings)}." if above else ""
    return "; ".join(parts) + "." + bound


def _clocked(settings: Sequence[Setting]) -> str:
    timed = [setting for setting in settings if setting.first.in_time][:3]
    first, learned = timed[0].first.in_time, [found for one in timed if (found := _learned(one).rstrip(". "))]
    never = "; ".join(
        f"{_never(one)}{' devices never took part' * (one is timed[0])}{_of(one, settings)}" for one in timed
    )
    if not learned or first is None:
        return f"{never}."
    results = [learned[0], *(each.removeprefix(measure.judge(timed[0].first.rounds).title) for each in learned[1:])]
    return f"{never}. {';'.join(results)} after {duration(first.seconds)}."


def _of(setting: Setting, settings: Sequence[Setting]) -> str:
    return f" under {setting.name}" if len(settings) > 1 else ""


def _kind(run: Run) -> str:
    return str(run.config.get("policy") or run.policy.get("kind") or "")


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}–{most}"


def _range(setting: Setting) -> tuple[int, int]:
    counts = [run.measured.participation for run in setting.runs if not run.empty]
    return min((c.min for c in counts), default=0), max((c.max for c in counts), default=0)


def _evenness(setting: Setting) -> float:
    return _mean(setting, lambda run: run.measured.participation.jain) or 0.0


def _mean(setting: Setting, value: Callable[[Run], float | None]) -> float | None:
    values = [found for run in setting.runs if not run.empty and (found := value(run)) is not None]
    return float(np.mean(values)) if values else None


def _ends(setting: Setting) -> tuple[LedgerMeasure, dict[object, float]]:
    """Return a setting's measure, and the last value of each seed in its displayed form."""
    judge = measure.judge(setting.first.rounds)
    ends = {run.config.get("seed", i): judge.end(run) for i, run in enumerate(setting.runs)}
    return judge, {seed: float(judge.scaled(np.array([end]))[0]) for seed, end in ends.items() if end is not None}


def _learned(setting: Setting) -> str:
    judge, ends = _ends(setting)
    if not ends:
        return ""
    mean = float(np.mean(list(ends.values())))
    return f"{judge.title} {format(mean, '.1f') if judge.unit else three(mean)}{judge.unit}. "


def _difference(best: Setting, rival: Setting) -> str:
    """Return the final difference of two settings in words, by paired seeds if enough."""
    judge, mine = _ends(best)
    _, theirs = _ends(rival)
    seeds = sorted(mine.keys() & theirs.keys(), key=str)
    if not mine or not theirs:
        return ""
    if len(seeds) < LEAST_SEEDS:
        against = _learned(rival).removeprefix(f"{judge.title} ").rstrip(". ")
        return f"{_learned(best).rstrip('. ')} with {best.name} and {against} with {rival.name}"
    found = difference([mine[seed] for seed in seeds], [theirs[seed] for seed in seeds])
    found = replace(found, half=max(found.half, judge.scale * judge.grain(best.first)))
    word = judged(found, EQUAL * judge.scale, 1)
    name = judge.name.removeprefix("test ")
    mean, half, unit = found.mean, found.half, " points" if judge.unit else ""
    if word == "equal":
        return f"Same {name}"
    if word == "not distinguishable":
        return f"No clear difference in {name} ({mean:+.2g} ± {half:.2g}{unit})".replace("-", "−")
    return f"{name[0].upper()}{name[1:]} {abs(mean):.2g} ± {half:.2g}{unit} {'higher' if word == 'better' else 'lower'}"


def _data_age(run: Run) -> float | None:
    return float(np.nanmean(run.ages())) if run.budgeted else None


def _above(setting: Setting) -> str:
    """Return the excess of P2 over its floor in percent, as the mean over seeds."""

    def share(run: Run) -> float | None:
        found = budget.objective_and_floor(run)
        return None if found is None or not found[1] > 0 else found[0] / found[1] - 1

    mean = _mean(setting, share)
    return "" if mean is None else f"{max(mean, 0):.1%}".replace("%", " %")


def _status(setting: Setting) -> str:
    states = dict.fromkeys(run.status for run in setting.runs)
    return "" if list(states) == ["completed"] else ", ".join(states)


def _result(wanted: LedgerMeasure) -> Callable[[Setting], str]:
    def cell(setting: Setting) -> str:
        judge, ends = _ends(setting)
        values = np.array(list(ends.values()))
        if judge != wanted or not values.size:
            return ""
        half = interval(values.tolist()).half if values.size >= LEAST_SEEDS else None
        mean = format(values.mean(), ".1f") if judge.unit else three(values.mean())
        return f"{mean}{'' if half is None else f' ± {half:.2g}'}{judge.unit}"

    return cell


def _rounds(setting: Setting) -> str:
    counts = [len(run.rounds) for run in setting.runs]
    return _span(min(counts), max(counts))


def _never(setting: Setting) -> str:
    found = setting.first.in_time
    mean = _mean(setting, lambda run: None if run.in_time is None else run.in_time.never)
    return "" if found is None or mean is None else f"{mean:.0f} of {found.clients}"


def _shown(title: str) -> Callable[[Setting], str]:
    """Return a function that shows the mean of a quantity over a setting's seeds."""
    quantity = next(each for each in quantities() if each.title == title)
    return lambda setting: "" if (mean := quantity.mean(setting)) is None else quantity.show(mean)


_MONEY: dict[str, Callable[[Setting], str]] = {
    "spent a round": _shown("payments a round, mean"),
    "budget a round": _shown("budget a round"),
    "mean age of data": lambda setting: "" if (age := _mean(setting, _data_age)) is None else three(age),
    "weighted age above the bound": _above,
}
_TIME: dict[str, Callable[[Setting], str]] = {
    "never took part": _never,
    "simulated time": _shown("simulated time"),
    "wasted work": _shown("wasted work"),
}
_COLUMNS: dict[str, Callable[[Setting], str]] = {
    "a client took part": lambda one: "" if all(run.empty for run in one.runs) else f"{_span(*_range(one))} times",
    "evenness (1 is even)": _shown("Jain’s fairness index"),
    "clients a round": _shown("clients a round, mean"),
    **{f"{one.name} at the end": _result(one) for one in measure.JUDGES},
    "rounds": _rounds,
    "seconds a round": _shown("seconds a round, mean"),
    "seeds": lambda setting: str(len(setting.runs)) if len(setting.runs) > 1 else "",
    "state": _status,
}
