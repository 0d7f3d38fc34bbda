"""``python -m aoi_fl.lab.benchmarks fleet --clients N``: run one fleet and print its measurements."""

import argparse
import json
import os
from dataclasses import MISSING, fields

from aoi_fl.lab.benchmarks.fleet.link import PROGRAMS
from aoi_fl.lab.benchmarks.fleet.models import MODELS
from aoi_fl.lab.benchmarks.fleet.play import play
from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

_CHOICES = {"server": [*PROGRAMS], "model": [*MODELS], "packing": ["auto", "none"]}


def main(arguments=None):
    """Run the scenario of the command line."""
    parser = argparse.ArgumentParser(prog="python -m aoi_fl.lab.benchmarks fleet", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print all that was measured")
    for each in fields(Scenario):
        name = "--" + each.name.replace("_", "-")
        if each.type is bool:
            parser.add_argument(name, action="store_true")
            continue
        about = {"type": each.type, "choices": _CHOICES.get(each.name)}
        parser.add_argument(name, **about, default=each.default, required=each.default is MISSING)
    given = vars(parser.parse_args(arguments))
    whole = given.pop("json")
    played = play(Scenario(**given))
    print(json.dumps(played.as_dict(), indent=1) if whole else table([played]))
    return int(not played.complete)


def table(plays):
    """Return a table with a line for each run."""
    lines = [
        "| SuperLink | model | packing | clients | CPU of a newcomer | of a training client | calls of it | a round |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for played in plays:
        run = played.scenario
        rounds = f"{sum(played.rounds) / len(played.rounds):.1f} s" if played.rounds else "–"
        lines.append(
            f"| {run.server} | {run.model} | {run.packing} | {run.clients}, k = {run.per_round} "
            f"| {played.newcomer_cpu:.1f} ms | {played.client_cpu:.1f} ms | {played.client_calls:.0f} | {rounds} |"
        )
    return "\n".join([*lines, "", f"Load of this machine: {os.getloadavg()[0]:.1f}."])


if __name__ == "__main__":
    raise SystemExit(main())
