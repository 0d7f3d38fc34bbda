"""``aoi runs``: list and delete recorded runs; ``aoi export``: write their tables to files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from typer.core import TyperGroup

from aoi_fl.cli.log import say
from aoi_fl.cli.options import Json, Runs
from aoi_fl.report.output import print_json, print_table
from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.report.runs import RecordedRun
    from aoi_fl.report.summary_card import Glance

_PATTERNS = typer.Argument(metavar="[RUN]...", hidden=True)
_LIST = "list"


class _Listing(TyperGroup):
    """A group with a default command, ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Listing, help="List recorded runs, or delete them: aoi runs rm.")


@app.command(_LIST)
def listing(
    runs: Annotated[list[str] | None, _PATTERNS] = None,
    as_json: Json = False,
) -> None:
    """List runs with policy, data, seed, rounds, state and date, the latest last.

    Each RUN is a name under runs/, a folder or a glob: 'sw-*'. By default all runs under runs/ are listed.
    """
    from aoi_fl.report.runs import matching
    from aoi_fl.report.summary_card import glance
    from aoi_fl.server.folder import LEDGER, STATES

    files = (LEDGER, STATES)
    found = {path.parent for file in files for path in Path("runs").glob(f"[!.]*/{file}")}
    folders = matching(runs, files=files) if runs else found
    rows = sorted((_row(glance(folder)) for folder in folders), key=lambda row: (row["date"] or "", row["run"]))
    if as_json:
        print_json({"runs": rows})
    elif not rows:
        say("there are no runs under runs/. Start one with aoi run.")
    else:
        print_table(f"{len(rows)} runs, dates in UTC", [*rows[0]], [[*row.values()] for row in rows])


def _row(seen: Glance) -> dict[str, Any]:
    """Return a listed run as plain values; unknown ones are None."""
    row: dict[str, Any] = {"run": seen.name, "policy": seen.policy or None, "data": seen.dataset or None}
    row |= {"seed": int(seen.seed) if seen.seed else None, "rounds": seen.round, "planned": seen.rounds}
    return row | {"state": seen.state.name, "date": seen.begun[:16] or None}


@app.command("rm")
def remove(
    runs: Runs,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs with everything in their folders.

    Each RUN is a name under runs/, a folder or a glob: 'sw-*'. A run in progress is refused.
    """
    from aoi_fl.report.runs import matching
    from aoi_fl.server.folder import LEDGER, STATES, is_played

    folders = matching(runs, files=(LEDGER, STATES))
    for folder in folders:
        if is_played(folder):
            raise ConfigError("RUN", folder, "a run that is not in progress", "Stop it first.")
    if not yes:
        print("\n".join(map(str, folders)))
        typer.confirm(f"Delete {len(folders)} runs?", abort=True)
    for folder in folders:
        shutil.rmtree(folder)
        print(folder)


def export(
    runs: Runs,
    csv: Annotated[bool, typer.Option("--csv", help="CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="A LaTeX table of settings, for booktabs.")] = False,
    table: Annotated[
        str | None, typer.Option(help="summary (a row a run), rounds, participations or clients; by default rounds.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="The file; by default the table is printed.")] = None,
) -> None:
    """Export one table of one or more runs.

    Each RUN is a name under runs/, a folder, a glob: 'sw-*', or a comparison of aoi compare. The first column of a CSV
    table is the run. A comparison's LaTeX also has a table of its conclusions, in its order.
    """
    from aoi_fl.protocol.files import save
    from aoi_fl.report import tables
    from aoi_fl.report.runs import compared, load_all, matching

    if csv == latex:
        raise ConfigError("format", csv + latex, ("--csv", "--latex"), "Give one of these.")
    kind = table or ("summary" if latex else "rounds")
    if kind not in tables.KINDS or (latex and kind != "summary"):
        allowed = ("summary",) if latex else tables.KINDS
        raise ConfigError("--table", kind, allowed, "Choose one of these.")
    found = load_all(matching(runs))
    if latex:
        blob = tables.to_latex(found) + (_conclusions(found) if len(runs) == 1 and compared(runs[0]) else b"")
    else:
        blob = tables.to_csv(tables.table(found, kind))
    if output is None:
        print(blob.decode(), end="")
    else:
        save(output, blob)
        print(output)


def _conclusions(runs: list[RecordedRun]) -> bytes:
    """Return the paired differences of a comparison as a LaTeX table, a row a quantity."""
    from aoi_fl.lab.experiments.harness.comparison import compare
    from aoi_fl.report.tables import escaped, latex

    pairs = compare(runs).pairs
    rows = [
        [
            escaped(text)
            for text in (pair.second, pair.first, str(len(pair.seeds)), one.quantity, one.shown, one.conclusion)
        ]
        for pair in pairs
        for one in pair.findings
    ]
    columns = ["Setting", "Against", "Seeds", "Quantity", "Difference", "Conclusion"]
    note = "Mean of the paired differences with its 95\\,\\% interval in brackets; no interval with one seed."
    return b"\n" + latex(columns, rows, "llrlll", note)
