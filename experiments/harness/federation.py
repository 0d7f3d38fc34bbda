"""Playing one federation for an experiment, and going on with one that was interrupted."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aoi_fl.experiments.harness.base import Options, Row
from aoi_fl.science.errors import AoiError, ConfigError

# What the digits' results were measured with: the run keys' defaults may move on, a result does not.
DIGITS = {"learning-rate": 0.5, "learning-rate-decay": 1.0, "batch-size": 10, "local-epochs": 5}

_MARKS = 20  # rows that are kept of a run where only the end and the means count


def play_run(experiment: str, values: Mapping[str, Any], options: Options) -> list[Row]:
    """Play a run as :func:`played` does, and return a row for each round that was evaluated.

    Returns
    -------
    list of Row
        round, accuracy, loss, clients that trained, and spent by the budgeted policies
    """
    return evaluated(played(experiment, values, options))


def played(experiment: str, values: Mapping[str, Any], options: Options) -> Path:
    """Play a run, or what is missing of it, and return its ledger.

    Runs lie in ``work/experiment/settings' digest``, so that runs under other settings are never taken for these. A
    run that is complete is only read.

    Parameters
    ----------
    experiment : its name
    values : run keys; those of where the data and the run lie are added here
    options : data folder, work folder and the experiment's version

    Raises ConfigError: the run ended other than completed.
    """
    kept = {key: value for key, value in values.items() if key not in ("policy", "seed")}
    kept |= {"version": options.version} if options.version > 1 else {}
    digest = hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=4).hexdigest()
    runs = options.work.absolute() / experiment / digest
    name = f"{values['policy']}-seed-{values['seed']}"
    kept_to = DIGITS if values.get("dataset", "digits") == "digits" else {}
    given = {**kept_to, **values, "runs-dir": str(runs), "run-name": name, "data-dir": str(options.data_dir.absolute())}
    return complete_run(given)


def complete_run(values: Mapping[str, Any]) -> Path:
    """Play a named run, or what is missing of it, and return its ledger; a complete run is only read.

    Raises ConfigError: the run ended other than completed.
    """
    from aoi_fl.client.app import app as client_app
    from aoi_fl.config.former import present  # the digests of runs are those of the former keys
    from aoi_fl.config.run import RunConfig
    from aoi_fl.engine.local_run import run_local
    from aoi_fl.server.app import app as server_app
    from aoi_fl.server.folder import LEDGER
    from aoi_fl.server.ledger import read_run

    ledger = Path(values["runs-dir"]) / values["run-name"] / LEDGER
    if not _complete(ledger):
        config = RunConfig.parse({"preset": "papers", **present(values, warn=False), "resume": _begun(ledger)}).flat()
        run_local(server_app, client_app, config, nodes=int(config["num-clients"]))
    status = read_run(ledger).get("status")
    if status != "completed":
        raise ConfigError(
            "run",
            ledger.parent,
            f"a run that completed, and this one ended as {status}",
            "See its ledger, or delete the folder to run it again.",
        )
    return ledger


def marked(rows: Sequence[Row]) -> list[Row]:
    """Return twenty of a run's rows, the last among them, each with the means of all rows beside its own values."""
    count = min(len(rows), _MARKS)
    means = {f"mean {key}": math.fsum(row[key] for row in rows) / len(rows) for key in rows[0] if key != "round"}
    chosen = [rows[len(rows) * (i + 1) // count - 1] for i in range(count)]
    return [{**row, **means} for row in chosen]


def evaluated(ledger: Path) -> list[Row]:
    """Return a row for each round of a ledger that was evaluated."""
    from aoi_fl.server.ledger import read

    return [
        {
            "round": row["round"],
            "accuracy": row["test_accuracy"],
            "loss": round(row["test_loss"], 7),
            "trained": row["trained"],
            **({} if row["spent"] is None else {"spent": row["spent"]}),
        }
        for row in read(ledger, "rounds")
        if row["test_accuracy"] is not None
    ]


def _complete(ledger: Path) -> bool:
    from aoi_fl.server.ledger import read_run

    return ledger.exists() and read_run(ledger).get("status") == "completed"


def _begun(ledger: Path) -> bool:
    """Say whether a run can be taken up: its configuration was written down, and a round or more was played."""
    from aoi_fl.server.ledger import read, read_run

    try:
        return ledger.exists() and "config" in read_run(ledger) and bool(read(ledger, "rounds"))
    except AoiError:
        return False
