"""The pages over all results: what was found, every claim of the papers with its verdict, WICS, and the arena."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from aoi_fl.experiments.harness.account import commands, count, hours, seeds, telling
from aoi_fl.experiments.harness.base import Claim, Conclusion, Experiment, Row, Table, Unit, Verdict
from aoi_fl.experiments.harness.pages import table, written
from aoi_fl.experiments.harness.store import Store, rests_on
from aoi_fl.experiments.registry import find, known
from aoi_fl.experiments.studies.arena import ARENAS
from aoi_fl.experiments.studies.arena_pages import side_by_side

ARENA_PAGE = tuple(arena.name for arena in ARENAS)
_WICS = "WICS: choosing whose data to refresh under a budget"
WICS_PAGE = ("wics-learning", "wics-sensitivity", "wics-budget", "wics-ages", "wics-packing", "wics-exact")
# What the first lines say, after the verdicts, and no more than these: with the picture, ten.
FRONT = (
    "theory", "remarks", "windows", "modes", "unequal", "wics-ages", "wics-sensitivity", "arena-trace-dirichlet",
)  # fmt: skip
_PICTURE = "unequal"  # and the picture under them
_HEAD = ("claim", "paper", "the paper's figure", "ours, with 95 % interval", "verdict", "seeds", "one core", "command")
_UNMEASURED = "not-run.md"
_MISSING = ("claim", "paper", "the paper's figure", "why", "command")
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
    ("poll, broadcast, reserve", "wires: all are asked; the model goes to all; a client says when it comes next"),
)  # as the pages use them
_RULES = """\
- *Holds*: every comparison that a claim makes comes out its way beyond chance (95 % intervals over paired seeds).
- *Holds weakly*: one does beyond what chance makes of so many (Bonferroni), and none the other way.
- *Holds, vacuous*: a bound that says less than no training.
- *Direction reproduced (model or setting)*: what would be *holds* or *holds weakly*, measured with another model or
  setting than the paper's.
- *Equivalent*: the whole interval lies within a margin that the row states.
- *Undecided*: chance may explain it, and more seeds may tell, or what was measured decides nothing.
- *Not reproduced (model or setting)*: a comparison comes out the other way beyond what chance makes of so many, with
  another model or setting than the paper's. The 7.5 to 20 % of an abstract are not reproduced where the interval lies
  without them.
- *Refuted*: a counterexample is exact, or a comparison in the paper's own setting comes out the other way beyond what
  chance makes of so many. One rival ahead refutes a superlative.
- *Not testable*: no outcome of the test could confirm it.

The wording of each claim, and what counts as *near* or *equivalent*, was fixed after the data had been seen, except
where a page says otherwise. Two pages may rest on the same runs; each page names them.

Seeds are those that a claim rests on (instances, where no federation is played), and the time is what these took of one
core. All pages: `aoi reproduce summary`, from the CSV files in this folder."""


def write_summary(out: Path) -> Path:
    """Write README.md, a row for each claim, not-run.md, wics.md and arena.md from results; return the first."""
    out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[Sequence[str]]] = {}
    unmeasured: dict[str, list[Sequence[str]]] = {}
    judged: list[Claim] = []
    beside: list[Claim] = []
    headlines = []
    for name, experiment in known().items():
        store = Store.recorded(out, name)
        found = concluded(experiment, store)
        played = {} if store is None else commands(experiment, store)
        for claim in found.claims:
            line = _row(experiment, store, claim, played)
            if claim.verdict == "not run":
                unmeasured.setdefault(_whose(claim), []).append((*line[:3], claim.reason, line[-1]))
            else:
                rows.setdefault(_whose(claim), []).append(line)
            (beside if claim.is_ours else judged).append(claim)
        if found.headline and name in FRONT:
            headlines.append(f"- {found.headline} [{name}]({name}.md)")
    pages = [f"- [{e.title}]({name}.md): {e.source}." for name, e in known().items() if (out / f"{name}.md").exists()]
    if any((out / f"{name}.md").exists() for name in WICS_PAGE):
        pages.append(f"- [{_WICS}](wics.md): the pages of Xu et al. 2024, together.")
    drawn = f"\n![{find(_PICTURE).title}]({_PICTURE}.png)\n" if (out / f"{_PICTURE}.png").exists() else ""
    page = out / "README.md"
    page.write_text(
        "# Claims of the papers, measured\n\n"
        f"Of {len(judged)} claims of three papers: {_counted(judged)}. Of {len(beside)} of our own beside them: "
        f"{_counted(beside)}. The claims that are *not run*, with the reason for each, are on [a page of their own]"
        f"({_UNMEASURED}). See the [symbols](#symbols){_policies(out)}.\n\n"
        + "".join(f"{line}\n" for line in headlines)
        + f"{drawn}\n## Symbols\n\n"
        f"{table(('symbol', 'what it is'), _SYMBOLS)}\n\n## Claims\n\n{_RULES}\n\n"
        + "".join(f"### {paper}\n\n{table(_HEAD, found)}\n\n" for paper, found in rows.items())
        + "## Pages\n\n"
        + "\n".join(pages)
        + "\n",
        encoding="utf-8",
    )
    (out / _UNMEASURED).write_text(
        "# Claims that were not run\n\n"
        "These claims have no measurement yet. The [other claims](README.md) have a verdict.\n\n"
        + "".join(f"## {paper}\n\n{table(_MISSING, found)}\n\n" for paper, found in unmeasured.items()).rstrip()
        + "\n",
        encoding="utf-8",
    )
    _write_together(
        out, "wics", _WICS, WICS_PAGE,
        "All of them: `aoi reproduce wics`, which goes on with what was interrupted.",
    )  # fmt: skip
    _write_together(
        out, "arena", "The arena: selection policies in simulated time", ARENA_PAGE,
        "Each goes on with what was interrupted; policies, devices and data of one's own: `aoi arena`.", side_by_side,
    )  # fmt: skip
    return page


def _whose(claim: Claim) -> str:
    """Return the paper that a claim is of, the first where it is of two, or that it is our own."""
    return "Our own" if claim.is_ours else claim.source.partition(",")[0]


def concluded(experiment: Experiment, store: Store | None) -> Conclusion:
    """Return what results show; of none, the claims that are not run yet."""
    rows = [] if store is None else telling(experiment, store)
    return experiment.conclude(rows, store.settings) if store and rows else Conclusion("", experiment.claims)


def _counted(claims: Iterable[Claim]) -> str:
    """Say how many claims have which verdict."""
    of = Counter(claim.verdict for claim in claims)
    return ", ".join(f"{of[verdict]} *{verdict}*" for verdict in get_args(Verdict) if of[verdict])


def _policies(out: Path) -> str:
    """Point to where the policies are described, if that is where it is in the repository."""
    page = Path("../policies.md")
    return f", and what the [policies]({page}) do" if (out / page).exists() else ""


def _row(
    experiment: Experiment, store: Store | None, claim: Claim, played: Mapping[str, Sequence[Unit]]
) -> Sequence[str]:
    name = experiment.name
    verdict = f"**{claim.judgement}**: {claim.reason}"
    cells = [claim.claim, claim.source, claim.theirs, claim.ours, verdict, "–", "–", f"`aoi reproduce {name}`"]
    if store is not None:
        cells[0] = f"[{claim.claim}]({name}.md)"
        rows = [row for row in telling(experiment, store) if rests_on(row, claim.units)]
        cells[5] = str(count(store, rows) or "–")
        cells[6] = hours(store.spent(claim.units, seeds(rows))) if rows else "–"
        these = [unit for unit in store.units if rests_on(unit, claim.units)]
        cells[7] = " ".join(f"`{c}`" for c, units in played.items() if any(u in units for u in these)) or cells[7]
    return cells


def _write_together(
    out: Path,
    page: str,
    title: str,
    names: Sequence[str],
    last: str,
    beside: Callable[[Mapping[str, Sequence[Row]]], Table] | None = None,
) -> None:
    """Write experiments that belong together on one page, if any has results: what was found, pictures, verdicts.

    ``beside`` puts their rows, by title, side by side, in place of what each has found.
    """
    found: list[str] = []
    parts: list[str] = []
    rows: dict[str, Sequence[Row]] = {}
    for name in names:
        store = Store.recorded(out, name)
        if store is not None:
            experiment = find(name)
            conclusion = concluded(experiment, store)
            found += [f"- {conclusion.headline}\n"] if conclusion.headline else []
            rows[experiment.title.rpartition(": ")[2]] = store.rows
            shown = written(experiment, replace(conclusion, paragraph="", tables=()))
            parts.append(f"## [{experiment.title}]({name}.md)\n\n{shown}{hours(store.seconds)} of one core\n")
    if parts:
        if beside is not None:
            both = beside(rows)
            found = [f"{both.caption}:\n\n{table(both.head, both.rows)}\n"]
        text = f"# {title}\n\n" + "\n".join(["".join(found), *parts]) + f"\n{last}\n"
        (out / f"{page}.md").write_text(text, encoding="utf-8")
