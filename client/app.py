"""The ClientApp: what one client does when the server writes to it.

Nothing here imports torch before a client trains: in a deployment every message starts a new process.
"""

from functools import lru_cache
from typing import Any

from flwr.app import Context, Message, MetricRecord, RecordDict

from aoi import protocol
from aoi.protocol import Ask
from client.identity import identity, run_folder
from client.participation import ClientApp
from learning.wire import from_record, to_record

app = ClientApp()


@app.introduce()
def introduce(context: Context, ask: Ask) -> dict[str, Any]:
    """Tell the roll call how many images this client has."""
    return {"num-examples": len(_images(context, ask))}


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on this client's images."""
    ask = Ask.read(message.content[protocol.AOI])
    settings, task = _task(tuple(sorted(context.run_config.items())), context.node_config.get("data-dir"))
    arrays, loss, images = task.train(
        from_record(message.content[protocol.ARRAYS]),
        _images(context, ask),
        round_=ask.round,
        client=identity(context, ask.run).number,
        learning_rate=float(message.content[protocol.CONFIG]["learning-rate"]),
        batch_size=settings.batch_size,
        seed=settings.seed,
        epochs=None if settings.local_steps else settings.local_epochs,
        steps=settings.local_steps or None,
    )
    content = {
        protocol.ARRAYS: to_record(arrays),
        protocol.METRICS: MetricRecord({"num-examples": images, "loss": loss}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on this client's images."""
    ask = Ask.read(message.content[protocol.AOI])
    _, task = _task(tuple(sorted(context.run_config.items())), context.node_config.get("data-dir"))
    images = _images(context, ask)
    loss, accuracy = task.evaluate_on(from_record(message.content[protocol.ARRAYS]), images)
    metrics = MetricRecord({"num-examples": len(images), "loss": loss, "accuracy": accuracy})
    return Message(RecordDict({protocol.METRICS: metrics}), reply_to=message)


def _images(context: Context, ask: Ask) -> Any:
    """Return the positions of this client's images in the data set, from the partition's index file."""
    from learning.partition import read_index

    who = identity(context, ask.run)
    path = context.node_config.get("partition-file") or run_folder(context, ask.run).parent / "partition.npy"
    return read_index(str(path), 0 if who.partition is None else who.partition)


@lru_cache(maxsize=4)
def _task(run_config: tuple[tuple[str, Any], ...], data_dir: str | None) -> tuple[Any, Any]:
    """Return settings and task, once a process; the client's own data folder comes before the run's."""
    from learning import sgd
    from learning.settings import TaskSettings
    from learning.task import Task

    settings = TaskSettings.model_validate(dict(run_config)).resolved()
    sgd.threads(settings.threads)
    folder = data_dir or settings.data_dir
    return settings, Task(settings.dataset, folder, settings.model, settings.device, settings.seed, settings.zeros)
