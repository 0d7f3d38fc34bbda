"""Runs one federation for an experiment, and resumes an interrupted one."""

import hashlib
import json
import logging
import math
from pathlib import Path

import numpy as np

from aoi_fl.science.errors import AoiError, ConfigError

# What the digits' results were measured with: the run keys' defaults may move on, a result does not.
DIGITS = {"learning-rate": 0.5, "learning-rate-decay": 1.0, "batch-size": 10, "local-epochs": 5}

_MARKS = 20  # rows that are kept of a run where only the end and the means count


def quiet():
    """Let Flower log nothing but errors."""
    import aoi_fl.flower.messages  # noqa: F401  # Flower sets its log's level when it is first imported

    logging.getLogger("flwr").setLevel(logging.ERROR)


def play_run(experiment, values, options, *, stopped=False):
    """Run a federation as :func:`played` does, and return a row for each evaluated round."""
    return evaluated(played(experiment, values, options, stopped=stopped))


def played(experiment, values, options, *, stopped=False):
    """Run or resume a federation, and return its ledger.

    Runs lie in ``work/experiment/settings' digest``, so runs of other settings stay apart. A complete run is only read.

    Parameters
    ----------
    experiment : its name
    values : run keys, without the places of data and runs
    options : data folder, work folder and the experiment's version
    stopped : whether a run counts that stopped since no update was valid, as after its model diverged

    Raises ConfigError if the run did not complete.
    """
    kept = {key: value for key, value in values.items() if key not in ("policy", "seed")}
    kept |= {"version": options.version} if options.version > 1 else {}
    runs = options.work.absolute() / experiment / digest(kept)
    name = f"{values['policy']}-seed-{values['seed']}"
    kept_to = DIGITS if values.get("dataset", "digits") == "digits" else {}
    if kept_to and "local-steps" in values:
        kept_to = {**DIGITS, "local-epochs": 0}
    given = {**kept_to, **values, "runs-dir": str(runs), "run-name": name, "data-dir": str(options.data_dir.absolute())}
    return complete_run(given, stopped=stopped)


def digest(settings):
    """Return eight letters for settings."""
    return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()


def complete_run(values, *, stopped=False):
    """Run or resume a named run, and return its ledger; a complete run is only read.

    Raises ConfigError if the run did not complete, nor stopped where ``stopped`` counts.
    """
    from aoi_fl.config.run import RunConfig
    from aoi_fl.learning.client_app import app as client_app
    from aoi_fl.server.app import app as server_app
    from aoi_fl.server.engine.local_run import run_local
    from aoi_fl.server.folder import LEDGER
    from aoi_fl.server.ledger import read_run

    ledger = Path(values["runs-dir"]) / values["run-name"] / LEDGER
    ends = ("completed", "stopped") if stopped else ("completed",)
    if not (ledger.exists() and read_run(ledger).get("status") in ends):
        config = RunConfig.parse({"preset": "papers", **values, "resume": _begun(ledger)}).flat()
        run_local(server_app, client_app, config, nodes=int(config["num-clients"]))
    status = read_run(ledger).get("status")
    if status not in ends:
        allowed = f"a run that completed, and this one ended as {status}"
        raise ConfigError("run", ledger.parent, allowed, "See its ledger, or delete the folder to run it again.")
    return ledger


def marked(rows):
    """Return twenty of a run's rows, with the last, each with the means of all rows beside its own values."""
    count = min(len(rows), _MARKS)
    means = {f"mean {key}": math.fsum(row[key] for row in rows) / len(rows) for key in rows[0] if key != "round"}
    chosen = [rows[len(rows) * (i + 1) // count - 1] for i in range(count)]
    return [{**row, **means} for row in chosen]


def evaluated(ledger):
    """Return a row for each evaluated round of a ledger."""
    from aoi_fl.server.ledger import read

    return [
        {
            "round": row["round"],
            "accuracy": row["test_accuracy"],
            "loss": None if row["test_loss"] is None else round(row["test_loss"], 7),
            "trained": row["trained"],
            **({} if row["spent"] is None else {"spent": row["spent"]}),
        }
        for row in read(ledger, "rounds")
        if row["test_accuracy"] is not None
    ]


def training_loss(ledger):
    """Return the loss of a complete run's model on the training examples of all clients, with true labels."""
    from safetensors.numpy import load_file

    from aoi_fl.config.run import RunConfig
    from aoi_fl.learning.partition import read_index
    from aoi_fl.learning.task import Task
    from aoi_fl.server.folder import MODEL, PARTITION_FILE
    from aoi_fl.server.ledger import read_run

    config = RunConfig.parse(read_run(ledger)["config"])
    task = Task(config.dataset, config.data_dir, config.architecture, "cpu", config.seed)
    parts = [read_index(ledger.parent / PARTITION_FILE, client) for client in range(config.num_clients)]
    return task.evaluate(load_file(ledger.parent / MODEL), task.examples(np.concatenate(parts)))[0]


def _begun(ledger):
    """Return whether a run can be resumed: it has a configuration, and a round or more."""
    from aoi_fl.server.ledger import read, read_run

    try:
        return ledger.exists() and "config" in read_run(ledger) and bool(read(ledger, "rounds"))
    except AoiError:
        return False
