"""``aoi clients``: the clients of a run and their participation."""

from __future__ import annotations

import time
from typing import Any

from aoi_fl.cli.options import Json, Run
from aoi_fl.report.output import print_json, print_table
from aoi_fl.science.errors import printable

_ALL = 1_000_000  # rounds: no run has more


def clients(
    run: Run,
    as_json: Json = False,
) -> None:
    """List the clients of a run and their participation.

    A row has the last contact, the last and the next participation, their number, and the failures.

    RUN is the folder of a run, or its name under runs/. The command reads only the ledger, even during the run.
    """
    from aoi_fl.report.corruption import check, legible
    from aoi_fl.report.measure import judge
    from aoi_fl.report.runs import find, read
    from aoi_fl.server import ledger
    from aoi_fl.server.folder import LEDGER

    folder = find(run).resolve()
    with legible(folder / LEDGER):
        seen = read(folder, folder.name, _ALL)
        state, refused = seen.state, ledger.refused_clients(seen.about)
        tested = seen.about.get("test_by_client") or {}
        accounts = check("clients", ledger.accounts(folder / LEDGER))
        rows = [{**row, "test": tested.get(row["name"])} for row in accounts]
        ended = {row["round"]: row["started"] + row["seconds"] for row in seen.rounds}
    if as_json:
        facts = {"run": folder.name, "state": state.name, "rounds": len(ended)}
        print_json({**facts, "clients": rows, "refused": refused})
        return
    main = judge(seen.rounds)
    columns = {
        "client": "name",
        "examples": "examples",
        "last seen": "seen",
        "rounds": "took_part",
        "last took part": "last",
        "reserved": "next_round",
        **({main.name: "test"} if tested else {}),
        "failures": "missed",
        "last failure": "reason",
    }
    for row in rows:
        row |= {key: _when(row[key], ended) for key in ("seen", "last")}
        row |= {"test": main.show(row["test"]), "reason": row["reason"] or ""}
    title = f"{folder.name}: {state.sentence}, {len(rows)} clients after {len(ended)} rounds"
    print_table(title, [*columns], ([row[key] for key in columns.values()] for row in rows))
    for why in refused:
        print(printable(why))


def _when(round_: int | None, ended: dict[int, float]) -> Any:
    """Return a round with the time since its end, if that is known."""
    from aoi_fl.report.state import ago

    end = None if round_ is None else ended.get(round_)
    return f"{round_}, {ago(time.time() - end)}" if end else round_
