"""``python -m aoi_fl.lab.benchmarks [NAME …]``: measure, and write results and page."""

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path

from aoi_fl.lab.benchmarks.base import RESULTS, ROOT, Skipped
from aoi_fl.lab.benchmarks.machine import machine, versions
from aoi_fl.lab.benchmarks.table import write_page

NAMES = (
    "command",
    "selection",
    "training",
    "together",
    "engines",
    "aggregation",
    "privacy",
    "scale",
    "client",
    "calls",
    "deployed",
    "clock",
)
# Benchmarks that take long, or need Docker, a GPU or another simulator.
BY_NAME = ("gpu", "cluster", "barrier", "fleet", "asleep", "asleep_http", "stock", "pfl")


def main(arguments=None):
    """Run the named benchmarks, or the default ones; return 1 after a failure or a missed limit."""
    parser = argparse.ArgumentParser(prog="python -m aoi_fl.lab.benchmarks", description=__doc__)
    what = f"any of {', '.join(NAMES + BY_NAME)}; all but {', '.join(BY_NAME)} if none"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from the stored results")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="the folder that holds MNIST, if any")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - {*NAMES, *BY_NAME}):
        parser.error(f"there is no benchmark {', '.join(unknown)}: choose from {', '.join(NAMES + BY_NAME)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    names = () if options.page else options.names or NAMES
    good = [_measure(name, options.data) for name in names]
    write_page(NAMES, BY_NAME)
    return int(not all(good))


def _measure(name, data):
    """Run one benchmark and store its rows; return False after an error or a missed limit.

    It is stored after each row. If it ends early, its rows so far count, and earlier results stay for the others.
    """
    print(f"{name}:", flush=True)
    begun, path = time.monotonic(), RESULTS / f"{name}.json"
    outcome = {"name": name, "date": time.strftime("%Y-%m-%d"), "machine": machine(), "versions": versions()}
    outcome["machine"]["load-before"] = round(os.getloadavg()[0], 1)
    stored = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    rows = outcome["rows"] = []

    def store(**ended):
        outcome.update({"seconds": round(time.monotonic() - begun, 1), "skipped": None, "failed": None} | ended)
        outcome["machine"]["load"] = round(os.getloadavg()[0], 1)
        kept = _completed(outcome, stored) if stored and ended else outcome
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")

    def end_early(**ended):
        store(**ended)
        for how, why in ended.items():
            print(f"  {how}: {why}", file=sys.stderr, flush=True)

    try:
        module = importlib.import_module(f"aoi_fl.lab.benchmarks.{name}")
        for row in module.run(data):
            rows.append(asdict(row) | {"verdict": row.verdict})
            limit = "" if row.limit is None else f" (at most {row.limit:.3g})"
            told = f"{row.what}: {row.measured:.3g} {row.unit}{limit} against {row.reference}: {row.verdict}"
            print(f"  {told}", flush=True)
            store(skipped="it was ended before its end")
        if hasattr(module, "ladder"):
            outcome["ladder"] = module.ladder()
        store()
    except Skipped as reason:
        end_early(skipped=_told(reason))
    except Exception as error:
        traceback.print_exc()
        end_early(failed=f"{type(error).__name__}: {_told(error)}")
    return not (outcome["failed"] or any(row["verdict"].startswith("missed") for row in rows))


def _completed(outcome, stored):
    """Return an outcome that ended early, completed by earlier stored rows."""
    if not outcome["rows"]:
        return stored | {how: outcome[how] for how in ("skipped", "failed")}
    measured = {row["what"] for row in outcome["rows"]}
    origin = {key: stored[key] for key in ("date", "machine", "versions")}
    kept = [{"earlier": origin} | row for row in stored["rows"] if row["what"] not in measured]
    return stored | outcome | {"rows": outcome["rows"] + kept}


def _told(error):
    return str(error).replace(f"{ROOT}/", "")  # the page must not show paths of this machine


if __name__ == "__main__":
    sys.exit(main())
