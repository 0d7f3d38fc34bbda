"""One run of CIFAR-10 in its own process, which writes the seconds of a warm round."""

import json
import statistics
import sys
from pathlib import Path

from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.harness.federation import complete_run
from aoi_fl.lab.experiments.registry import find
from aoi_fl.server.ledger import read

data, folder, precision, count, seed = sys.argv[1:]
values = dict(find("cifar10").settings(Options(rounds=int(count)))) | {
    "precision": precision,
    "policy": "random",
    "seed": int(seed),
    "data-dir": data,
    "runs-dir": folder,
    "run-name": seed,
}
seconds = [row["seconds"] for row in read(complete_run(values), "rounds")]
Path(folder, f"{seed}.json").write_text(json.dumps(statistics.mean(seconds[2:])))
