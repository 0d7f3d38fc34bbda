"""The pages over all results: every claim of the papers with its verdict, and claims without results."""

import html
import re
from collections import Counter
from pathlib import Path
from typing import get_args

from aoi_fl.lab.experiments.harness.account import count, hours, seeds, telling
from aoi_fl.lab.experiments.harness.base import Experiment
from aoi_fl.lab.experiments.harness.findings import Conclusion, Verdict
from aoi_fl.lab.experiments.harness.pages import table
from aoi_fl.lab.experiments.harness.store import Store, rests_on
from aoi_fl.lab.experiments.registry import known

_UNMEASURED = "not-run.md"
_BAR = "verdicts.svg"
_SYMBOLS = (
    ("n, k", "clients, and how many of them a round is to have; N clients and a budget B in Xu et al."),
    (
        "m",
        "the largest age that a Markov policy tells apart; in the lemmas and remarks of Javani & Wang 2025 it is our k",
    ),
    ("X, Var[X]", "rounds from one participation of a client to its next, mean n/k at equal rates, and their variance"),
    ("Y, √Var(Y)/T", "how often a client takes part in a window of T rounds, and its standard deviation over T"),
    (
        "age, p_a",
        "rounds missed since the last participation, and the probability with which a client of age a takes part",
    ),
    ("stationary", "of ages: drawn from the law that they have in the long run, in place of all 0"),
    ("ω, q, Σ", "a round's weights, the clients' shares of the data, and Σ_i Var[ω_i]"),
    (
        "ρ, ρ_, ρ̄",
        "selection skew, Σ ω_i (F_i − F_i*) / Σ q_i (F_i − F_i*), 1 where there is none; its least along a run, "
        "its largest at the optimum. In Theorem 3 of Xu et al. a ratio to the optimum",
    ),
    ("Γ", "how far the clients' own optima are from the common one: F* − Σ q_i F_i*"),
    ("p_i", "under a budget what a client's data cost to refresh; elsewhere a probability"),
    ("φ, P2", "what a round of age of a client's data costs, and the mean over clients and rounds of φ times that age"),
    (
        "poll, broadcast, reserve",
        "the key `coordination`: all are asked; the model goes to all; a client says when it comes next",
    ),
)  # as the pages use them
_RULES = """\
- *Holds*: every comparison of the claim comes out its way beyond chance: each 95 % interval over paired seeds, an
  intersection-union test.
- *Holds weakly*: so, but with exact ties, or with exceptions that the claim's "generally" allows.
- *Holds, vacuous*: the bound says less than no training.
- *Direction reproduced (model or setting)*: as *holds*, with another model or setting than the paper's.
- *Equivalent*: the whole interval lies within a margin that the row states.
- *Undecided*: chance may explain the result, or the measurement decides nothing.
- *Underpowered*: so few seeds, three or fewer, could not have decided. A paired test of censored times needs six.
- *Not reproduced (model or setting)*: a comparison comes out the other way beyond chance, with another model or setting
  than the paper's. An interval outside the 7.5 to 20 % of an abstract counts, too.
- *Refuted*: an exact counterexample, or a comparison in the paper's own setting that comes out the other way beyond
  chance. One better rival refutes a superlative.
- *Erratum*: a formula or an algorithm as printed contradicts its own text or proof.
- *Not testable*: no outcome of the test could confirm the claim.

The wording of the papers' claims, and the meaning of *near* and *equivalent*, was fixed after the data had been seen.
The hypotheses of the studies are older than their data, and each page names the commit. Two pages may rest on the same
runs, and each page names them. The seeds of a claim are those of its runs, and the time is their time on one core.
`aoi reproduce summary` writes all pages from the CSV files in this folder."""
_TOLD = """\
- Clients that decide by their age train at regular intervals, and the load spreads less than under random selection.
- On equal data selection by age learns a little sooner than random selection. On unequal data it needs weights by size.
- The papers' faster training by 7.5 to 20 % is not reproduced on MNIST. On CIFAR-10 three seeds could not decide it.
- Under a budget, Whittle's index keeps the important data freshest. Accuracy hardly changes.
- On devices that come and go, age brings a more even load. Speed comes from rounds that do not wait."""
_CLASSES = {
    "holds": ("#0072B2", ("holds", "holds weakly", "holds, vacuous", "direction reproduced", "equivalent")),
    "fails": ("#D55E00", ("refuted", "not reproduced", "erratum")),
    "open": ("#B8B8B8", ("undecided", "underpowered", "not testable")),
    "not run": ("#F3F3F3", ("not run",)),
}  # colour and verdicts


def write_summary(out: Path) -> Path:
    """Write README.md with a line for each claim, and not-run.md, from results; return the first."""
    out.mkdir(parents=True, exist_ok=True)
    lines = {}
    unmeasured = {}
    judged = {False: [], True: []}
    decided = []  # with their pages
    for name, experiment in known().items():
        store = Store.recorded(out, name)
        found = concluded(experiment, store)
        for claim in found.claims:
            judged[claim.is_ours].append(claim)
            decided += [] if claim.is_ours else [(experiment.home, claim)]
            if claim.verdict == "not run":
                unmeasured.setdefault(claim.reason, []).append((name, claim))
            else:
                paper = "Our own" if claim.is_ours else claim.source.partition(",")[0]  # the first of two
                lines.setdefault(paper, []).append(_line(experiment, store, claim))
    pages = [
        f"- [{e.title}]({e.home}): {e.source}."
        for name, e in known().items()
        if {True} == {(out / file).exists() for file in (e.home, f"{name}.json")}
    ]
    more = {
        "What the verdicts mean": _RULES,
        "Symbols": table(("symbol", "meaning"), _SYMBOLS),
        "All pages": "\n".join(pages),
    }
    (out / _BAR).write_text(_bar({"papers": judged[False], "ours": judged[True]}), encoding="utf-8")
    page = out / "README.md"
    page.write_text(
        f"# Claims of the papers, measured\n\n{_TOLD}\n\n"
        f"![Verdicts on {len(judged[False])} claims of three papers: {_counted(judged[False])}; and on "
        f"{len(judged[True])} of our own: {_counted(judged[True])}]({_BAR})\n\n"
        f"[{sum(map(len, unmeasured.values()))} claims]({_UNMEASURED}) have no measurement.\n\n"
        f"## Decided claims of the papers\n\n{_decided(decided)}\n\n"
        "## All claims\n\nA line unfolds into the paper's figure, our measurement and the command.\n\n"
        + "".join(f"## {paper}\n\n{_folds(folds)}\n\n" for paper, folds in lines.items())
        + f"## How to read this page\n\n{_folds([_fold(title, text) for title, text in more.items() if text])}\n",
        encoding="utf-8",
    )
    (out / _UNMEASURED).write_text(_not_run(unmeasured), encoding="utf-8")
    return page


def _class(verdict):
    return next(name for name, (_, verdicts) in _CLASSES.items() if verdict in verdicts)


def _decided(claims):
    """Return the decided claims, a line each, by verdict."""
    parts = []
    for verdict in (verdict for name in ("fails", "holds") for verdict in _CLASSES[name][1]):
        if lines := [f"- {claim.claim} [→]({home})" for home, claim in claims if claim.verdict == verdict]:
            parts.append(f"**{verdict.capitalize()}**\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _folds(folds):
    """Return elements that unfold, as a list without space between them."""
    return '<div class="claims" markdown="1">\n\n' + "\n\n".join(folds) + "\n\n</div>"


def _fold(title, text):
    """Return a line, in HTML, that unfolds into Markdown."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{text}\n\n</details>'


def _inline(text):
    """Return Markdown's text and code as HTML on one line."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(text.split()), quote=False))


def _not_run(unmeasured):
    """Return the page of claims without results: a row for each reason, and its claims below."""
    rows, folds = [], []
    for reason, claims in unmeasured.items():
        names = list(dict.fromkeys(name for name, _ in claims))
        rows.append((reason, str(len(claims)), " ".join(f"`aoi reproduce {name}`" for name in names)))
        points = "\n".join(f"- {claim.claim} ({claim.source}): {' '.join(claim.theirs.split())}" for _, claim in claims)
        folds.append(_fold(_inline(reason), points))
    return (
        "# Claims without a measurement\n\nThe [other claims](README.md) have a verdict.\n\n"
        f"{table(('why', 'claims', 'command'), rows)}\n\n{_folds(folds)}\n"
    )


def concluded(experiment: Experiment, store: Store | None) -> Conclusion:
    """Return what results show; of none, the claims that are not run yet."""
    rows = [] if store is None else telling(experiment, store)
    return experiment.conclude(rows, store.settings) if store and rows else Conclusion("", experiment.judged())


def _bar(groups):
    """Return an SVG picture with a bar for each group of claims, one stretch for each of four classes, and a legend."""
    left, width, high = 70, 620, 34  # narrow, so that a phone shows legible text
    of = {title: Counter(_class(claim.verdict) for claim in claims) for title, claims in groups.items()}
    shown = [name for name in _CLASSES if any(counts[name] for counts in of.values())]
    parts = []
    for row, (title, counts) in enumerate(of.items()):
        x, y, scale = left, 8 + row * (high + 8), width / max(counts.total(), 1)
        parts.append(f'<text x="8" y="{y + 22}">{title}</text>')
        for name in filter(counts.__getitem__, shown):
            wide, dark = counts[name] * scale, name in ("holds", "fails")
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{high}" fill="{_CLASSES[name][0]}" '
                f'stroke="#fff"/><text x="{x + wide / 2:.1f}" y="{y + 22}" text-anchor="middle" '
                f'fill="{"#fff" if dark else "#111"}">{counts[name]}</text>'
            )
            x += wide
    y = 8 + len(of) * (high + 8)
    for i, name in enumerate(shown):
        at_x = left + i * 155
        parts.append(
            f'<rect x="{at_x}" y="{y + 6}" width="14" height="14" fill="{_CLASSES[name][0]}" stroke="#888"/>'
            f'<text x="{at_x + 20}" y="{y + 18}">{name}</text>'
        )
    height = y + 36
    whole = left + width + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" viewBox="0 0 {whole} {height}" '
        'font-family="system-ui, sans-serif" font-size="15">'
        f'<rect width="100%" height="100%" rx="6" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _counted(claims):
    """Return the number of claims of each verdict."""
    of = Counter(claim.verdict for claim in claims)
    return ", ".join(f"{of[verdict]} {verdict}" for verdict in get_args(Verdict) if of[verdict])


def _line(experiment, store, claim):
    """Return a claim with its verdict, which unfolds into both figures, seeds, time and command."""
    name = experiment.name
    seeds_used, core, run = "–", "–", f"`aoi reproduce {name}`"
    page = experiment.home if store is not None else ""
    if store is not None:
        rows = [row for row in telling(experiment, store) if rests_on(row, claim.units)]
        seeds_used = claim.seeds or str(count(store, rows) or "–")
        core = hours(store.spent(claim.units, seeds(rows))) if rows else "–"
        run = " ".join(f"`{command}`" for command in store.commands(claim.units)) or run
    points = (
        f"- {claim.source}: {claim.theirs}",
        f"- Measured: {claim.ours}",
        f"- Verdict: {claim.reason}. Seeds: {seeds_used}. One core: {core}. Command: {run}"
        + (f". [All results]({page})" if page else ""),
    )
    text = "\n".join(" ".join(point.split()) for point in points)
    kinds = " ".join(re.findall(r"\w+", claim.verdict))
    return _fold(f'<b class="{kinds}">{_inline(claim.judgement)}</b> {_inline(claim.claim)}', text)
