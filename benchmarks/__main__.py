"""``python -m benchmarks [NAME …]``: measure, write ``docs/benchmarks/NAME.json`` and the tables made from them."""

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.base import RESULTS, ROOT, Row, Skipped
from benchmarks.machine import machine, versions
from benchmarks.table import write_page

NAMES = (
    "command", "selection", "training", "together", "engines", "aggregation", "scale", "client", "deployed", "clock",
)  # fmt: skip
BY_NAME = ("cluster", "fleet", "asleep", "pfl")  # long, or in need of what is not here: Docker, another simulator
_TEXTS = ("ladder", "profile")  # functions of a benchmark's module that make a part of the page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks named, or all but those that want naming; return 1 if a number was missed or one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    what = f"any of {', '.join(NAMES + BY_NAME)}; all but {', '.join(BY_NAME)} if none"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from the stored results")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="the folder that holds MNIST, if any")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - {*NAMES, *BY_NAME}):
        parser.error(f"there is no benchmark {', '.join(unknown)}: choose from {', '.join(NAMES + BY_NAME)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    good = [_measure(name, options.data) for name in (() if options.page else options.names or NAMES)]
    write_page(NAMES, BY_NAME)
    return int(not all(good))


def _measure(name: str, data: Path) -> bool:
    """Run one benchmark and store what it found; return whether it ended without an error or a missed number.

    Whatever ends it early, the rows it had measured by then count, and those stored earlier stay for the rest.
    """
    print(f"{name}:", flush=True)
    begun, load = time.monotonic(), os.getloadavg()[0]
    rows: list[Row] = []
    texts: dict[str, str] = {}
    ended = {"skipped": None, "failed": None}
    try:
        module = importlib.import_module(f"benchmarks.{name}")
        for row in module.run(data):
            rows.append(row)
            limit = "" if row.limit is None else f" (at most {row.limit:.3g})"
            told = f"{row.what}: {row.measured:.3g} {row.unit}{limit} against {row.reference}: {row.verdict}"
            print(f"  {told}", flush=True)
        texts = {text: getattr(module, text)() for text in _TEXTS if hasattr(module, text)}
    except Skipped as reason:
        ended["skipped"] = _told(reason)
    except Exception as error:
        traceback.print_exc()
        ended["failed"] = f"{type(error).__name__}: {_told(error)}"
    for how, why in ended.items():
        if why:
            print(f"  {how}: {why}", file=sys.stderr, flush=True)
    outcome = {
        "name": name,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - begun, 1),
        "machine": machine() | {"load-before": round(load, 1), "load": round(os.getloadavg()[0], 1)},
        "versions": versions(),
        **ended,
        "rows": [asdict(row) | {"verdict": row.verdict} for row in rows],
        **texts,
    }
    path = RESULTS / f"{name}.json"
    if path.is_file() and any(ended.values()):
        outcome = _completed(outcome, json.loads(path.read_text("utf-8")))
    path.write_text(json.dumps(outcome, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return not (ended["failed"] or any(row.verdict.startswith("missed") for row in rows))


def _completed(outcome: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome that ended early with what was stored earlier in the place of what it lacks."""
    if not outcome["rows"]:
        return stored | {how: outcome[how] for how in ("skipped", "failed")}
    measured = {row["what"] for row in outcome["rows"]}
    origin = {key: stored[key] for key in ("date", "machine", "versions")}
    kept = [{"earlier": origin} | row for row in stored["rows"] if row["what"] not in measured]
    texts = {text: stored[text] for text in _TEXTS if text in stored}
    return texts | outcome | {"rows": outcome["rows"] + kept}


def _told(error: Exception) -> str:
    return str(error).replace(f"{ROOT}/", "")  # no path of this machine belongs on the page


if __name__ == "__main__":
    sys.exit(main())
