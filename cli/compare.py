"""``aoi compare``: policies, or values of run keys, in pairs of equal seeds."""

from __future__ import annotations

import hashlib
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aoi_fl.cli import run
from aoi_fl.cli.keys import typed
from aoi_fl.cli.log import Quiet, say
from aoi_fl.cli.options import Json, Workers
from aoi_fl.config.policies import POLICIES, Keys
from aoi_fl.report.output import print_json
from aoi_fl.science.errors import ConfigError, install

if TYPE_CHECKING:
    from aoi_fl.lab.experiments.harness.comparison import Comparison


KEYS = tuple(key for key in run.KEYS if key not in ("policy", "seed", "run-name"))  # which a comparison sets


def compare(
    context: typer.Context,
    policies: Annotated[str | None, typer.Argument(metavar="[A,B,…]", hidden=True)] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each setting, seeds 1 to this.")] = 5,
    workers: Workers = 1,
    target: Annotated[
        float | None, typer.Option(help="Accuracy, 0 to 1, or RMSE; default: the best that every run reaches.")
    ] = None,
    runs: Annotated[str | None, typer.Option(metavar="GLOB", help="Compare these recorded runs; start none.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare policies in pairs of equal seeds.

    It completes the missing runs, writes a page and a table, and prints a conclusion for each pair. A key with several
    values, -c KEY=A,B, makes a sweep. A policy may have its own keys: systematic:weights=size.

    With --clock TRACE, time is simulated, and the time to the target is in minutes. Without policies, --clock compares
    the policies of aoi arena on 300 devices that train on MNIST for an hour.
    """
    try:
        from aoi_fl.lab.experiments import comparing
        from aoi_fl.lab.experiments.harness.comparison import check_accuracy
    except ImportError as error:
        raise ConfigError(str(error.name), None, "installed", f"For aoi compare, {install('all')}.") from error
    from aoi_fl.config.task import OWN_DATA
    from aoi_fl.report.runs import matching

    if target is not None and not 0 < target < math.inf:
        raise ConfigError(
            "target", target, "an accuracy above 0 and at most 1, or an RMSE above 0", "Give --target 0.95."
        )
    keys = typed(context)
    if runs is None and policies is None and keys.get("clock"):
        policies, keys = comparing.arena(keys)
    if (runs is None) == (policies is None):
        allowed = "given, or else --runs GLOB" if policies is None else "left out with --runs"
        raise ConfigError("policies", policies, allowed, f"Give one of the two, for instance {','.join(POLICIES[:2])}.")
    if runs is not None:
        if keys:
            raise ConfigError(min(keys), keys[min(keys)], "left out with --runs, which starts no run", "Leave it out.")
        folders = matching([runs], "--runs")
    else:
        planned = comparing.plan(str(policies), seeds, keys)
        if not planned[0]["dataset"].startswith(OWN_DATA):  # which may be judged by an RMSE
            check_accuracy(target)
        folders = complete(planned, workers, quiet=quiet)
    show(folders, target, as_json)


def complete(configs: Sequence[Keys], workers: int, *, quiet: bool = False) -> list[Path]:
    """Run the configurations without a complete run, and return the folders of all."""
    from aoi_fl.lab.experiments import comparing
    from aoi_fl.server.engine import machine
    from aoi_fl.server.observe import duration

    machine.check(workers, max(int(config["threads"]) for config in configs))
    for warning in comparing.check_devices(configs):
        say(warning)
    left = comparing.missing(configs)
    comparing.check_settings(left)
    if left and not quiet:
        for line in comparing.describe_data(left):
            say(line)
        say(f"{len(left)} of {len(configs)} runs to complete")
    begun = time.monotonic()
    try:
        for i, folder in enumerate(comparing.play(left, workers), start=1):
            if not quiet:
                ahead = duration((time.monotonic() - begun) / i * (len(left) - i))
                say(f"{i} of {len(left)} runs done ({folder.name}), {ahead} left")
    except KeyboardInterrupt:
        print("\naoi: interrupted; the same command resumes", file=sys.stderr)
        sys.exit(130)
    return [comparing.folder(config) for config in configs]


def show(folders: Sequence[Path], target: float | None, as_json: bool) -> None:
    """Compare complete runs, write page and table, and print the conclusions."""
    from aoi_fl.lab.experiments.harness import comparison
    from aoi_fl.protocol.files import save
    from aoi_fl.report import page
    from aoi_fl.report.measure import judge
    from aoi_fl.report.runs import load
    from aoi_fl.report.tables import to_csv

    runs = [load(folder, folder.name) for folder in folders]
    result = comparison.compare(runs, target)
    names = "\n".join(sorted({folder.name.rpartition("-s")[0] or folder.name for folder in folders}))
    stem = f"compare-{hashlib.blake2b(names.encode(), digest_size=4).hexdigest()}"
    table = folders[0].parent / f"{stem}.csv"
    drawn = page.save(table.with_suffix(".html"), lambda: page.render(comparison.by_arms(runs), result.pairs))
    save(table, to_csv(result.rows), "csv")
    if as_json:
        print_json({"page": str(drawn), "csv": str(table), **plain(result)})
        return
    for pair in result.pairs:
        print(pair)
    main = judge(runs[0].rounds)
    for setting, clients in result.worst.items():
        print(f"worst tenth of {setting}: {main.listed(clients)}")
    if result.yardstick is not None:
        print(
            f"yardstick, {'the mean' if main.least else 'the most common class'} alone: {main.show(result.yardstick)}"
        )
    print(f"\npage: {drawn}\ncsv:  {table}")


def plain(result: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values; infinite and missing values become null."""

    def number(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    pairs = [
        {
            "first": pair.first,
            "second": pair.second,
            "seeds": pair.seeds,
            "differences": pair.differences,
            "findings": [
                {
                    "quantity": f.quantity,
                    **{name: number(getattr(f.difference, name, None)) for name in ("mean", "low", "high")},
                    "margin": number(f.margin),
                    "word": f.word,
                    "note": f.note,
                }
                for f in pair.findings
            ],
        }
        for pair in result.pairs
    ]
    about = {"target": number(result.target), "yardstick": result.yardstick, "worst": result.worst}
    return {**about, "runs": result.rows, "pairs": pairs}
