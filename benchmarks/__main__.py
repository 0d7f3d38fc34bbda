"""``python -m benchmarks [NAME …]``: measure, write ``docs/benchmarks/NAME.json`` and the tables made from them."""

import argparse
import importlib
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.base import RESULTS, ROOT, Row, Skipped
from benchmarks.table import write_page

NAMES = ("selection", "training", "together", "engines", "scale", "deployed", "cluster")
_PACKAGES = ("flwr", "ray", "numpy", "torch")


def main() -> int:
    """Run the benchmarks named, or all; return 1 if a number was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all of them if none")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from the stored results")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="the folder that holds MNIST, if any")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(NAMES)):
        parser.error(f"there is no benchmark {', '.join(unknown)}: choose from {', '.join(NAMES)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    missed = False
    for name in () if arguments.page else arguments.names or NAMES:
        missed |= any(row.verdict.startswith("missed") for row in _measure(name, arguments.data))
    write_page(NAMES)
    return int(missed)


def _measure(name: str, data: Path) -> list[Row]:
    print(f"{name}:", flush=True)
    begun = time.monotonic()
    module = importlib.import_module(f"benchmarks.{name}")
    skipped, extra = None, {}
    try:
        rows = module.run(data)
    except Skipped as reason:
        skipped = str(reason).replace(f"{ROOT}/", "")  # no path of this machine belongs on the page
        rows = getattr(reason, "rows", [])
        print(f"  skipped: {reason}", file=sys.stderr, flush=True)
    if hasattr(module, "profile"):
        extra["profile"] = module.profile()
    for row in rows:
        limit = "" if row.limit is None else f" (at most {row.limit:.3g})"
        print(f"  {row.what}: {row.measured:.3g} {row.unit}{limit} against {row.reference}: {row.verdict}", flush=True)
    outcome = {
        "name": name,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - begun, 1),
        "machine": _machine(),
        "versions": _versions(),
        "skipped": skipped,
        "rows": [asdict(row) | {"verdict": row.verdict} for row in rows],
        **extra,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(outcome, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return list(rows)


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
