"""The pages over all results: every claim of the papers with its verdict, and claims without results."""

import html
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aoi_fl.lab.experiments.harness.account import count, hours, seeds, telling
from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.lab.experiments.harness.findings import Claim, Conclusion, Verdict
from aoi_fl.lab.experiments.harness.store import Store, rests_on
from aoi_fl.lab.experiments.registry import known

_CLASSES = {
    "holds": ("holds", "holds weakly", "holds, vacuous", "direction reproduced", "equivalent"),
    "fails": ("refuted", "not reproduced", "erratum"),
    "open": ("undecided", "underpowered", "not testable"),
    "not run": ("not run",),
}
_COLOURS = {"holds": "#0072B2", "fails": "#D55E00", "open": "#B8B8B8", "not run": "#F3F3F3"}
_LEFT, _WIDE, _HIGH = 70, 620, 42  # of a bar, in pixels: narrow, so that a phone shows legible text


@dataclass(frozen=True, eq=False)
class Line:
    """A claim on a page, with the page of its experiment and the account of its measurement."""

    claim: Claim
    home: str
    seeds: str
    core: str
    command: str
    page: str = ""

    @property
    def paper(self):
        """The paper, the first of two."""
        return "Our own" if self.claim.is_ours else self.claim.source.partition(",")[0]


def write_summary(out: Path) -> Path:
    """Write README.md with a line for each claim, and not-run.md, from results; return the first."""
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, experiment in known().items():
        store = Store.recorded(out, name)
        lines += [_line(experiment, store, claim) for claim in concluded(experiment, store).claims]
    missing = [line for line in lines if line.claim.verdict == "not run"]
    papers, ours = ([line for line in lines if line.claim.is_ours == own] for own in (False, True))
    bars, shown = _bars({"papers": papers, "ours": ours})
    pages = [e for name, e in known().items() if {True} == {(out / file).exists() for file in (e.home, f"{name}.json")}]
    values = {
        "papers": papers,
        "ours": ours,
        "missing": missing,
        "reasons": _grouped(missing, lambda line: line.claim.reason),
        "measured": _grouped([line for line in lines if line not in missing], lambda line: line.paper),
        "decided": [*_CLASSES["fails"], *_CLASSES["holds"]],
        "pages": pages,
        "bars": bars,
        "shown": shown,
        "colours": _COLOURS,
    }
    for file in ("verdicts.svg", "not-run.md", "README.md"):
        (out / file).write_text(_templates().get_template(f"{file}.j2").render(values), encoding="utf-8")
    return out / "README.md"


def _grouped(lines, key):
    groups = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return groups


def _templates():
    found = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    found.filters |= {"inline": _inline, "counts": _counts}
    return found


def _inline(text):
    """Return Markdown's text and code as HTML on one line."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(text.split()), quote=False))


def _counts(lines):
    """Return the number of claims of each verdict."""
    of = Counter(line.claim.verdict for line in lines)
    return ", ".join(f"{of[verdict]} {verdict}" for verdict in get_args(Verdict) if of[verdict])


def concluded(experiment: Experiment, store: Store | None) -> Conclusion:
    """Return what results show; of none, the claims that are not run yet."""
    rows = [] if store is None else telling(experiment, store)
    return experiment.conclude(rows, store.settings) if store and rows else Conclusion("", experiment.judged())


def _bars(groups):
    """Return a bar for each group of claims, of a stretch for each class that it has, and the classes of all."""
    bars = []
    for row, (title, lines) in enumerate(groups.items()):
        of = Counter(line.claim.verdict for line in lines)
        counts = {name: number for name, verdicts in _CLASSES.items() if (number := sum(of[v] for v in verdicts))}
        wide = [number * _WIDE / len(lines) for number in counts.values()]
        places = accumulate(wide, initial=_LEFT)
        bars.append((title, 8 + row * _HIGH, [*zip(counts, places, wide, counts.values(), strict=False)]))
    there = {name for _, _, stretches in bars for name, *_ in stretches}
    return bars, [name for name in _CLASSES if name in there]


def _line(experiment, store, claim):
    """Return a claim with its seeds, its time and its command."""
    name = experiment.name
    line = Line(claim, experiment.home, "–", "–", f"`aoi reproduce {name}`")
    if store is None:
        return line
    rows = [row for row in telling(experiment, store) if rests_on(row, claim.units)]
    commands = " ".join(f"`{command}`" for command in store.commands(claim.units))
    return replace(
        line,
        seeds=claim.seeds or str(count(store, rows) or "–"),
        core=hours(store.spent(claim.units, seeds(rows))) if rows else "–",
        command=commands or line.command,
        page=experiment.home,
    )
