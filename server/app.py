"""The ServerApp, which turns a configuration into a run with ledger and model."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from aoi_fl.config.policies import BUDGETED
from aoi_fl.config.run import RunConfig
from aoi_fl.flower.grids import say_what_ray_needs, uploads
from aoi_fl.learning import partition, sgd
from aoi_fl.learning.task import Task
from aoi_fl.protocol import CLIENTS_FILE, PARTITION_FILE, default_name
from aoi_fl.protocol.arrays import from_record, to_record
from aoi_fl.protocol.clients import ClientTable
from aoi_fl.protocol.clock import clock_of
from aoi_fl.science.errors import AoiError, ConfigError, StorageError
from aoi_fl.server.checkpoint import encode
from aoi_fl.server.folder import (
    LEDGER,
    MODEL,
    RATES_FILE,
    deal,
    keep,
    make_run_folder,
    only_player,
    run_folder,
)
from aoi_fl.server.ledger import Ledger, ending, planned, read, read_run, resume_command
from aoi_fl.server.logs import JsonLine, StampedLine, speak, tell
from aoi_fl.server.observe import HOOK, Hook, Recorder
from aoi_fl.server.resume import recorded_run, take_up
from aoi_fl.server.sources import check_unchanged, dealt_sources, given_sources, recorded_config, settled
from aoi_fl.server.strategy import make_strategy
from aoi_fl.server.terms import Rates, check_names, client_table, rates_of, write_rates, write_table
from aoi_fl.server.tracking import check_installed, together, tracker

logger = logging.getLogger("flwr")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run a federation by the configuration; log a user's error as one paragraph."""
    logging.getLogger("flwr").addFilter(_without_traceback)
    say_what_ray_needs(grid)
    if uploads(grid):
        speak(StampedLine("%(asctime)s %(levelname)-7s %(message)s"))
    play(grid, RunConfig.parse(context.run_config))


def play(grid: Grid, config: RunConfig) -> Path:
    """Run from the first round, or from an interruption, to the last round; return the folder."""
    with ExitStack() as held:
        runs = Path(config.runs_dir)
        folder = held.enter_context(run_folder(runs, config.run_name, config.policy, config.dataset))
        if config.resume:
            if _is_complete(folder):
                return folder
            config = recorded_config(recorded_run(folder), config)
        if config.log_format == "json":
            speak(JsonLine(folder.name))
        if config.clock and clock_of(grid).simulated is None:
            allowed = "empty, because only the local engine simulates time"
            raise ConfigError("clock", config.clock, allowed, "Start the run with aoi run, or leave clock out.")
        sgd.threads(config.threads)
        run = prepare(config, folder, simulated=not uploads(grid))
        held.enter_context(only_player(folder))
        if config.resume and _is_complete(folder):  # the process that held the folder may have completed the run
            return folder
        if not config.resume:
            make_run_folder(folder)
            partition.write_index(folder / PARTITION_FILE, run.parts)
            if run.table is not None:
                write_table(folder / CLIENTS_FILE, run.table)
            if run.rates is not None:
                write_rates(folder / RATES_FILE, run.rates)
        deal(folder)
        ledger = held.enter_context(closing(Ledger(folder / LEDGER)))
        try:
            _play_rounds(grid, run, folder, ledger)
        except BaseException as error:
            with suppress(StorageError):  # the first error is reported
                ledger.note(**ending(None, error))
            raise
    tell(f"results in {folder}")
    return folder


@dataclass(frozen=True)
class Prepared:
    """What a run needs beside clients, read and checked once.

    Attributes
    ----------
    config : the run's configuration
    task : data set and model
    sources : digests of the files that run keys name, by the ledger's keys
    rates : each client's own rate, if given
    table, parts : of a new run, the clients under a budget, and the images of each client
    """

    config: RunConfig
    task: Task
    sources: Mapping[str, str]
    rates: Rates | None
    table: ClientTable | None
    parts: Sequence[partition.Indices]


def prepare(config: RunConfig, folder: Path, *, simulated: bool = False) -> Prepared:
    """Read and check what a run needs beside clients: model, data, files and trackers.

    Parameters
    ----------
    config, folder : of the run; a resumed run has files in its folder
    simulated : whether keys and files may name simulated clients only

    Raises
    ------
    AoiError : something is missing, does not fit, or has changed since the start of a resumed run.
    """
    check_installed(config.trackers)
    task, names = Task.of(config, precision="float32"), list[str]()  # it evaluates
    if simulated:
        names += task.data.clients if config.client_column else map(default_name, range(config.num_clients))
        check_names(config, names)
    task.check()  # which may download the data
    sources = given_sources(config)
    task = replace(task, source=sources["model_source"], data_source=sources["data_source"])
    if config.resume:
        check_unchanged(folder, recorded_run(folder), sources | dealt_sources(folder), config)
    task.log_data()
    config.check_form(regression=task.form.regression, images=len(task.form.shape) == 3)
    rates = rates_of(config, folder, names)
    if config.resume:
        return Prepared(config, task, sources, rates, None, [])
    table = client_table(config) if config.policy in BUDGETED else None
    if task.data.owners is not None:
        parts = partition.natural(task.data.owners, task.data.clients, config.num_clients)
    else:
        parts = partition.make(
            task.data.train_y,
            config.num_clients + config.spare,
            kind=config.partition.partition(":")[0],
            alpha=config.alpha,
            sizes=config.sizes if table is None else table.sizes,
            seed=config.seed,
        )
    return Prepared(config, task, sources, rates, table, parts)


def _is_complete(folder: Path) -> bool:
    """Return whether a run to resume is complete, and print it."""
    if recorded_run(folder)["status"] != "completed":
        return False
    tell(f"the run {folder.name} is complete: there is nothing to resume")
    return True


def _play_rounds(grid: Grid, run: Prepared, folder: Path, ledger: Ledger) -> None:
    config, task = run.config, run.task
    keys = config.flat()
    if not config.resume:  # simulated clients' states are in the run's folder, so they need no token
        ledger.note(begun=secrets.token_hex(8), token=secrets.token_hex(8) if uploads(grid) else None)
    resume, model, checkpoints = take_up(folder, ledger)
    token = read_run(ledger.path).get("token")
    trackers = [tracker(name, folder.name, folder.parent, keys, resume=config.resume) for name in config.trackers]
    for tool in trackers:
        tool.catch_up(read(ledger.path, "rounds"))
    hooks = [Hook(hook, lambda reason: strategy.finish(reason))] if (hook := HOOK.get()) else []
    strategy = make_strategy(
        config,
        folder.name,
        token,
        run.rates,
        task.untrained() if config.privacy != "none" else (),
        task.data.clients,
        task.buffers(),
        observer=together(Recorder(ledger, checkpoints, planned(keys)), *trackers, *hooks),
        configure=lambda round_: {"learning-rate": config.rate(round_)},
        resume=resume if config.resume else None,
    )
    about: dict[str, Any] = {**run.sources, **dealt_sources(folder), "status": "running"}
    if config.resume:
        ledger.note(**about, reason=None)
        tell(f"the run {folder.name} continues with round {resume.next_round}")
    else:
        ledger.note(**about, run=folder.name, config=settled(keys), policy=strategy.parameters())

    def evaluate(round_: int, arrays: ArrayRecord) -> MetricRecord | None:
        if round_ % config.evaluate_every and not strategy.ending:
            return None
        loss, value = task.evaluate_test(from_record(arrays))
        metrics = {"loss": loss, task.form.metric: value}
        if round_ == 0:
            ledger.note(**{f"initial_{name}": value for name, value in metrics.items()})
            size = sum(array.nbytes for array in from_record(arrays).values())
            ledger.note(test_examples=len(task.data.test_y), yardstick=task.data.yardstick, model_bytes=size)
        return MetricRecord({**metrics})

    form = ConfigRecord(
        {
            "data-shape": list(task.form.shape),
            "classes": task.form.classes,
            "model-source": task.source,
            "data-source": task.data_source,
        }
    )
    result = strategy.start(
        grid,
        to_record(model or task.initial_arrays()),
        config.num_server_rounds,
        train_config=form,
        evaluate_config=form.copy(),
        evaluate_fn=evaluate,
    )
    ledger.note(policy=strategy.parameters())  # rates may depend on sizes from the roll call
    keep(folder / MODEL, encode(from_record(result.arrays)))
    if config.privacy == "none" and (clients := task.evaluate_clients(from_record(result.arrays))):
        ledger.note(test_by_client=clients)
    ledger.note(**ending(strategy.stopped, None, strategy.complete))
    if strategy.stopped:
        command = resume_command(folder)
        tell(f"stopped: {strategy.stopped}. When clients have returned: {command} (a cluster: AOI_RESUME=true)")
        return
    if strategy.complete:
        tell(f"complete: {strategy.complete}")
    more = not (strategy.complete or config.until or config.privacy != "none")  # aoi resume may add rounds
    checkpoints.prune(*([config.num_server_rounds - 1] if more else ()))


def _without_traceback(record: logging.LogRecord) -> bool:
    """Let Flower log a user's error without a traceback; the run still counts as failed."""
    if record.exc_info and isinstance(record.exc_info[1], AoiError):
        record.msg, record.args, record.exc_info = str(record.exc_info[1]), (), None
    return True
