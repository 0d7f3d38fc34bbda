"""One run of CIFAR-10 in its own process, which writes the seconds of a warm round."""

import json
import statistics
import sys
from pathlib import Path

from aoi_fl.config.run import RunConfig
from aoi_fl.lab.experiments.harness.base import Options
from aoi_fl.lab.experiments.registry import find
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.server.app import app as server_app
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.server.folder import LEDGER
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
run_local(server_app, client_app, RunConfig.parse(values).flat(), nodes=int(values["num-clients"]))
seconds = [row["seconds"] for row in read(Path(folder) / seed / LEDGER, "rounds")]
Path(folder, f"{seed}.json").write_text(json.dumps(statistics.mean(seconds[2:])))
