"""The ClientApp: what one client does when the server writes to it.

Nothing here imports torch before a client trains: in a deployment every message starts a new process.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, MetricRecord, RecordDict

from aoi import protocol
from aoi.clients import ClientTable, read_clients_file
from aoi.protocol import Ask
from client.freshness import DriftingStream, Fixed, Folder, Mislabelled, Source, blend
from client.identity import Identity, identity, run_folder
from client.participation import ClientApp
from learning.npz import count_examples
from learning.partition import read_index
from learning.wire import from_record, to_record

app = ClientApp()


@app.introduce()
def introduce(context: Context, ask: Ask) -> dict[str, Any]:
    """Tell the roll call how many images this client has, and its price and weight where it has them."""
    terms = {key: context.node_config[key] for key in ("payment", "weight") if key in context.node_config}
    if (row := _row(context, ask)) is not None:
        table, i = row
        terms = {"payment": float(table.payments[i]), "weight": float(table.weights[i])} | terms
    source = make_source(context, ask)
    size = count_examples(source.path) if isinstance(source, Folder) else len(source.indices)
    return {"num-examples": size, **terms}


@app.source()
def make_source(context: Context, ask: Ask) -> Source:
    """Say where this client's data come from."""
    node, who = context.node_config, identity(context, ask.run)
    if "data-file" in node:
        seconds = {"round_seconds": node["round-seconds"]} if "round-seconds" in node else {}
        return Folder(Path(str(node["data-file"])), str(node.get("refresh-command", "")), **seconds)
    settings = _settings(_frozen(context))
    row = _row(context, ask)
    base = {
        "indices": _images(context, ask, who),
        "number": who.number,
        "seed": settings.seed,
        "first_age": 0 if row is None else int(row[0].ages[row[1]]),
    }
    match settings.staleness:
        case "mislabelled":
            return Mislabelled(**base, rate=settings.mislabel_rate, cap=settings.mislabel_cap)
        case "stream":
            return DriftingStream(**base, degrees=settings.drift_degrees, window=settings.stream_window)
        case _:
            return Fixed(**base)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on this client's images, as fresh as they are."""
    ask = Ask.read(message.content[protocol.AOI])
    config = message.content[protocol.CONFIG]
    settings, task = _settings(_frozen(context)), _task(context)
    examples = blend(
        make_source(context, ask),
        task,
        ask.round,
        config["data-age"],
        config.get("previous-age"),
        settings.discount,
    )
    arrays, loss = task.train(
        from_record(message.content[protocol.ARRAYS]),
        examples,
        round_=ask.round,
        client=identity(context, ask.run).number,
        learning_rate=float(config["learning-rate"]),
        batch_size=settings.batch_size,
        seed=settings.seed,
        epochs=None if settings.local_steps else settings.local_epochs,
        steps=settings.local_steps or None,
    )
    metrics = MetricRecord({"num-examples": len(examples), "loss": loss})
    return Message(RecordDict({protocol.ARRAYS: to_record(arrays), protocol.METRICS: metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on this client's images, as if they were of this round."""
    ask = Ask.read(message.content[protocol.AOI])
    task = _task(context)
    examples = make_source(context, ask).examples(task, ask.round, 0)
    loss, accuracy = task.evaluate(from_record(message.content[protocol.ARRAYS]), examples)
    metrics = MetricRecord({"num-examples": len(examples), "loss": loss, "accuracy": accuracy})
    return Message(RecordDict({protocol.METRICS: metrics}), reply_to=message)


def _images(context: Context, ask: Ask, who: Identity) -> Any:
    """Return the positions of this client's images in the data set, from the partition's index file."""
    path = context.node_config.get("partition-file") or run_folder(context, ask.run).parent / "partition.npy"
    return read_index(str(path), 0 if who.partition is None else who.partition)


def _row(context: Context, ask: Ask) -> tuple[ClientTable, int] | None:
    """Return the run's table of payments and this client's row in it, where there is one."""
    who = identity(context, ask.run)
    path = run_folder(context, ask.run).parent / "clients.csv"
    if who.partition is None or not path.is_file():
        return None
    return _table(path), who.partition


@lru_cache(maxsize=4)
def _table(path: Path) -> ClientTable:
    return read_clients_file(path)


def _frozen(context: Context) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(context.run_config.items()))


@lru_cache(maxsize=4)
def _settings(run_config: tuple[tuple[str, Any], ...]) -> Any:
    from learning.settings import TaskSettings

    return TaskSettings.model_validate(dict(run_config)).resolved()


def _task(context: Context) -> Any:
    """Return the task; the client's own data folder comes before the run's."""
    from learning import sgd
    from learning.task import Task

    settings = _settings(_frozen(context))
    sgd.threads(settings.threads)
    folder = str(context.node_config.get("data-dir") or settings.data_dir)
    return Task(settings.dataset, folder, settings.model, settings.device, settings.seed, settings.zeros)
