"""Write all that ``.ci/equal`` compares, as a source tree makes it: ``python .ci/snapshot.py TREE FOLDER``."""

import gzip
import os
import re
import runpy
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

SMALL = ["num-clients=12", "num-server-rounds=5", "model=lr", "device=cpu"]
RUNS = {
    "markov": ["clients-per-round=4", "compression=int8", "evaluate-clients=3"],
    "systematic": ["clients-per-round=4", "policy=systematic", "coordination=broadcast", "weights=unbiased"],
    "wics": ["policy=wics", "budget=30"],
    **{f"random-{seed}": ["clients-per-round=4", "policy=random", f"seed={seed}"] for seed in (1, 2, 3)},
    "oort": ["clients-per-round=4", "policy=oort", "clock=generated", "over-selection=1.3"],
}
# What commands print, for people and as JSON.
PRINTED = (
    "policy",
    "policy --policy systematic",
    "privacy --policy all --epsilon 4",
    "privacy --noise-multiplier 1 --amplified",
    "simulate --policy random",
    "simulate --policy wics --budget 20",
    "simulate --policy markov-optimal --clock generated",
)
# Wall-clock times become numbers of rounds, so that pages keep their charts; what a run draws for itself goes. None of
# the runs is private: its draws are secret, so no two are equal.
TIMES = """
UPDATE rounds SET started = round, seconds = 1, hello_seconds = 0, ask_seconds = 0, train_seconds = 0,
  aggregate_seconds = 0, evaluate_seconds = 0, test_seconds = 0;
UPDATE participations SET seconds = NULL;
UPDATE run SET value = '0' WHERE key IN ('since', 'begun');
"""


def main(tree: Path, folder: Path) -> None:
    """Run everything in a tree; a command that fails ends the script."""
    path = os.pathsep.join([str(tree / "typings"), str(tree)])
    environment = os.environ | {"PYTHONPATH": path, "COLUMNS": "120", "OMP_NUM_THREADS": "1"}

    def python(*arguments: str) -> bytes:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE).stdout

    def aoi(*arguments: str) -> bytes:
        return python("-m", "aoi_fl.cli.main", *arguments)

    if folder.exists():
        shutil.rmtree(folder)
    for room in ("simulated", "ledgers"):
        (folder / room).mkdir(parents=True)
    python("-m", "tests.golden.runs", str(folder / "golden"))
    kept = folder / "golden" / "checkpoints.json.gz"
    states = re.sub(rb'"(policy/)?seen-seconds": \[.*?\]\]', b"", gzip.decompress(kept.read_bytes()))
    kept.with_suffix("").write_bytes(states)
    kept.unlink()
    simulated = runpy.run_path(str(tree / "tests/golden/test_simulated.py"))
    for number, command in enumerate(simulated["COMMANDS"]):
        shape = simulated["SHAPE"].replace("--per-round 7 " if "--budget" in command else "\0", "")
        made = aoi("simulate", "--policy", *command.split(), *shape.split())
        (folder / "simulated" / f"{number:02}.json").write_bytes(made)
    shutil.copytree(tree / "docs/results", folder / "results")
    (folder / "results.txt").write_bytes(aoi("reproduce", "summary", "--out", str(folder / "results")))
    printed = [aoi(*line.split(), *more) for line in PRINTED for more in ((), ("--json",))]
    (folder / "printed.txt").write_bytes(b"".join(printed))
    generate = "from aoi_fl.config import generate as g; print(*(make() for *_, make in g.PLACES.values()))"
    (folder / "generated.txt").write_bytes(python("-c", generate))
    for name, keys in RUNS.items():
        aoi("run", *(word for key in (*SMALL, *keys, f"run-name={name}") for word in ("-c", key)))
        ledger = tree / "runs" / name / "ledger.sqlite"
        with closing(sqlite3.connect(ledger)) as database:
            database.executescript(TIMES)
            (folder / "ledgers" / f"{name}.sql").write_text("\n".join(sorted(database.iterdump())))
        aoi("report", f"runs/{name}", "--output", str(folder / "ledgers" / f"{name}.html"))
    aoi("report", *(f"runs/{name}" for name in RUNS), "--output", str(folder / "ledgers" / "all.html"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
