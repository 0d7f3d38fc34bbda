"""Rounds of training in the local engine against a bare PyTorch loop over the same batches.

The bare loop is the code without a federation: for each client of the round a copy of the model, `torch.optim.SGD` over
the same batches in the same order, and the mean of the copies. Its model must equal the engine's.
"""

import tempfile
from contextlib import ExitStack, closing, contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path

import torch

from aoi_fl.client.state import written_together
from aoi_fl.config.run import RunConfig
from aoi_fl.lab.benchmarks.base import Row, Times, check_alike, need, ratio_row, stopwatch
from aoi_fl.lab.benchmarks.engines import TimedRounds
from aoi_fl.learning import models, partition, sgd
from aoi_fl.learning.client_app import app as client_app
from aoi_fl.learning.task import Task
from aoi_fl.protocol import PARTITION_FILE
from aoi_fl.protocol.arrays import from_record, to_record
from aoi_fl.science.draws import generator
from aoi_fl.server.checkpoint import Checkpoints
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.folder import CHECKPOINTS, LEDGER, make_run_folder
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.observe import Recorder
from aoi_fl.server.strategy import make_strategy


def run(data):
    """Measure the digits and, if available, MNIST."""
    ours, bare = _compare(RunConfig.parse({"num-server-rounds": 20, "run-name": "bench"}))
    yield Row(
        "digits training, local engine, overhead a round (poll of 100 clients, 15 train, ledger and checkpoint)",
        f"bare PyTorch loop, {1000 * bare.seconds:.0f} ms",
        30,
        1000 * (ours.seconds - bare.seconds),
        "ms",
        note=f"of process time {1000 * (ours.process - bare.process):.0f} ms",
    )
    need(data, "mnist")
    yield ratio_row(
        "MNIST-2NN training, 15 clients of 600 images, local engine, a round",
        "bare PyTorch loop over the same batches",
        1.10,
        *_compare(mnist(data, 6)),
    )


def mnist(data, rounds):
    """Return a configuration: the papers' MNIST, with 15 of 100 clients per round."""
    keys = {"dataset": "mnist", "model": "2nn", "policy": "random", "num-server-rounds": rounds, "run-name": "bench"}
    return RunConfig.parse(keys | {"data-dir": str(data.absolute())})


def _compare(config):
    """Run the local engine and the bare loop; return their rounds' times from the second on."""
    with federation(config) as (play, task, parts):
        observer, ours = play()
        theirs, bare = _bare_loop(config, task, parts, observer.rounds)
    check_alike(task.initial_arrays(), ours, theirs)
    return observer.times.after_first(), bare.after_first()


@contextmanager
def federation(config):
    """Set up a run as the server does, without the evaluation, which both loops share."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        write = stack.enter_context(written_together())
        stack.enter_context(redirect_stderr(StringIO()))
        config = config.model_copy(update={"runs_dir": folder})
        sgd.threads(config.threads)
        task = Task(config.dataset, config.data_dir, config.model, config.device, config.seed)
        parts = partition.make(task.data.train_y, config.num_clients, seed=config.seed)
        home = Path(folder) / config.run_name
        make_run_folder(home)
        partition.write_index(home / PARTITION_FILE, parts)
        ledger = stack.enter_context(closing(Ledger(home / LEDGER)))

        def play():
            recorder = Recorder(ledger, Checkpoints(home / CHECKPOINTS), config.num_server_rounds)
            configure = {"configure": lambda round_: {"learning-rate": config.rate(round_)}}
            grid, observer = LocalGrid(client_app, config.flat(), config.num_clients, write), TimedRounds(recorder)
            strategy = make_strategy(config, home.name, observer=observer, **configure)
            result = strategy.start(grid, to_record(task.initial_arrays()), config.num_server_rounds)
            return observer, from_record(result.arrays)

        yield play, task, parts


def _bare_loop(config, task, parts, rounds):
    model = models.build(config.model, task.form, seed=config.seed)
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in task.initial_arrays().items()})
    x, y = torch.from_numpy(task.data.train_x), torch.from_numpy(task.data.train_y)
    loss, times = models.loss_of(config.model), Times()
    for record in rounds:
        clients = [part.client for part in record.participations if part.outcome == "trained"]
        with stopwatch(times):
            start = {k: v.clone() for k, v in model.state_dict().items()}
            mean = {k: torch.zeros_like(v) for k, v in start.items()}
            for client in clients:
                model.load_state_dict(start)
                optimizer = torch.optim.SGD(model.parameters(), lr=config.rate(record.round))
                order = generator(config.seed, record.round, f"batches/{client}")
                images, labels = x[torch.from_numpy(parts[client])], y[torch.from_numpy(parts[client])]
                for _ in range(config.local_epochs):
                    for batch in torch.from_numpy(order.permutation(len(images))).split(config.batch_size):
                        optimizer.zero_grad()
                        loss(model(images[batch]), labels[batch]).backward()
                        optimizer.step()
                for name, value in model.state_dict().items():
                    mean[name] += value / len(clients)
            if clients:
                model.load_state_dict(mean)
    return {k: v.numpy() for k, v in model.state_dict().items()}, times
