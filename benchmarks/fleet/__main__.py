"""``python -m benchmarks.fleet``: play one fleet and print what it took, as JSON."""

import argparse
import json
from dataclasses import MISSING, fields

from benchmarks.fleet.play import play
from benchmarks.fleet.scenario import Scenario


def main() -> None:
    """Read the scenario from the command line, and play it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    for each in fields(Scenario):
        name = "--" + each.name.replace("_", "-")
        if each.type is bool:
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, type=each.type, default=each.default, required=each.default is MISSING)
    print(json.dumps(play(Scenario(**vars(parser.parse_args()))).as_dict(), indent=1))


if __name__ == "__main__":
    main()
