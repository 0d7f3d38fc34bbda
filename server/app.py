"""The ServerApp: from a configuration to a finished run, its ledger and its model."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from safetensors.numpy import save_file

from aoi.errors import AoiError
from learning import partition, sgd
from learning.task import Task
from learning.wire import from_record, to_record
from server.config import RunConfig
from server.folder import LEDGER, MODEL, PARTITION, default_name, make_run_folder
from server.ledger import Ledger
from server.observe import Recorder
from server.policies import make_strategy

logger = logging.getLogger("flwr")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play the run that the configuration describes; end with status 2 and one paragraph on a user's mistake."""
    try:
        play(grid, RunConfig.parse(context.run_config))
    except AoiError as error:
        logger.error("%s", error)
        sys.exit(2)


def play(grid: Grid, config: RunConfig) -> Path:
    """Play a run from its first round to its last and return its folder."""
    sgd.threads(config.threads)
    task = Task(config.dataset, config.data_dir, config.model, config.device, config.seed, config.zeros)
    parts = partition.make(
        task.data.train_y,
        config.num_clients,
        kind=config.partition,
        alpha=config.alpha,
        sizes=config.sizes,
        seed=config.seed,
    )
    initial = to_record(task.initial_arrays())
    folder = Path(config.runs_dir) / (config.run_name or default_name(config.policy, config.dataset))
    make_run_folder(folder)
    partition.write_index(folder / PARTITION, parts)
    ledger = Ledger(folder / LEDGER)
    try:
        strategy = make_strategy(
            config,
            folder.name,
            observer=Recorder(ledger, config.num_server_rounds),
            configure=lambda round_: {"learning-rate": config.rate(round_)},
        )
        ledger.note(run=folder.name, config=config.flat(), status="running", policy=strategy.parameters())
        result = strategy.start(
            grid, initial, config.num_server_rounds, evaluate_fn=_central_evaluation(task, config, ledger)
        )
        save_file(from_record(result.arrays), folder / MODEL)
        ledger.note(status="completed")
    except BaseException:
        ledger.note(status="failed")
        raise
    finally:
        ledger.close()
    print(f"results in {folder}", flush=True)
    return folder


def _central_evaluation(
    task: Task, config: RunConfig, ledger: Ledger
) -> Callable[[int, ArrayRecord], MetricRecord | None]:
    def evaluate(round_: int, arrays: ArrayRecord) -> MetricRecord | None:
        if round_ % config.evaluate_every and round_ != config.num_server_rounds:
            return None
        loss, accuracy = task.evaluate_test(from_record(arrays))
        if round_ == 0:
            ledger.note(initial_loss=loss, initial_accuracy=accuracy)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    return evaluate
