"""The pages over all results: every claim of the papers with its verdict, and claims without results."""

from pathlib import Path

from aoi_fl.lab.experiments.harness.account import hours, seeds, telling
from aoi_fl.lab.experiments.harness.pages import render
from aoi_fl.lab.experiments.harness.store import Store, rests_on
from aoi_fl.lab.experiments.registry import known

_CLASSES = {
    "holds": ("holds", "holds weakly", "holds, vacuous", "direction reproduced", "equivalent"),
    "fails": ("refuted", "not reproduced", "erratum"),
    "open": ("undecided", "underpowered", "not testable"),
    "not run": ("not run",),
}


def write_summary(out: Path) -> Path:
    """Write README.md with a line for each claim, and not-run.md, from results; return the first."""
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, experiment in known().items():
        store = Store.recorded(out, name)
        rows = telling(experiment, store) if store else []
        claims = experiment.conclude(rows, store.settings).claims if rows else experiment.judged()
        lines += [_line(experiment, store, rows, claim) for claim in claims]
    pages = [e for name, e in known().items() if {True} == {(out / file).exists() for file in (e.home, f"{name}.json")}]
    for file in ("verdicts.svg", "not-run.md", "README.md"):
        shown = render(file, lines=lines, pages=pages, classes=_CLASSES)
        (out / file).write_text(shown, encoding="utf-8")
    return out / "README.md"


def _line(experiment, store, rows, claim):
    """Return a claim as the templates show it, with the page of its experiment and the account of its measurement."""
    rows = [row for row in rows if rests_on(row, claim.units)]
    commands = store.commands(claim.units) if store else []
    played = len(seeds(rows)) * int(store.settings.get("seeds a batch", 1)) if rows else 0
    return {
        "claim": claim,
        "paper": "Our own" if claim.is_ours else claim.source.partition(",")[0],  # the first of two
        "home": experiment.home,
        "page": experiment.home if store else "",
        "seeds": claim.seeds or played or "–",
        "core": hours(store.spent(claim.units, seeds(rows))) if rows else "–",
        "command": " ".join(f"`{command}`" for command in commands or [f"aoi reproduce {experiment.name}"]),
    }
