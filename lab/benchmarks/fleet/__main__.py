"""``python -m aoi_fl.lab.benchmarks.fleet --clients N``: run one fleet and print its measurements as JSON."""

import argparse
import json
from dataclasses import MISSING, asdict, fields

from aoi_fl.lab.benchmarks.fleet.link import PROGRAMS
from aoi_fl.lab.benchmarks.fleet.models import MODELS
from aoi_fl.lab.benchmarks.fleet.play import play
from aoi_fl.lab.benchmarks.fleet.scenario import Scenario

_CHOICES = {"server": [*PROGRAMS], "model": [*MODELS], "packing": ["auto", "none"]}
_CHOICES["behaviour"] = ["ours", "asleep", "stock"]


def main():
    """Run the scenario of the command line."""
    parser = argparse.ArgumentParser(prog="python -m aoi_fl.lab.benchmarks.fleet", description=__doc__)
    for each in fields(Scenario):
        name = "--" + each.name.replace("_", "-")
        if each.type is bool:
            parser.add_argument(name, action="store_true")
            continue
        about = {"type": each.type, "choices": _CHOICES.get(each.name)}
        parser.add_argument(name, **about, default=each.default, required=each.default is MISSING)
    played = play(Scenario(**vars(parser.parse_args())))
    print(json.dumps(asdict(played), indent=1))
    return int(not played.complete)


if __name__ == "__main__":
    raise SystemExit(main())
