"""The ClientApp of the built-in tasks: introduce, train and evaluate one client.

No function imports torch before a client trains, because a deployment may start a new process for each message.
"""

import operator
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict

from aoi_fl import protocol
from aoi_fl.client.envelope import ask_of
from aoi_fl.client.identity import identity, run_folder
from aoi_fl.client.participation import ClientApp
from aoi_fl.learning.freshness import Folder, Mislabelled
from aoi_fl.learning.npz import count_examples
from aoi_fl.learning.partition import read_index
from aoi_fl.protocol import ParticipationRequest
from aoi_fl.protocol.arrays import from_record, to_record
from aoi_fl.protocol.clients import ClientTable, read_clients_file
from aoi_fl.protocol.files import digest

if TYPE_CHECKING:
    from aoi_fl.config.keys import TaskSettings
    from aoi_fl.learning.examples import Examples
    from aoi_fl.learning.task import How, ModelArrays, Task

Value: TypeAlias = bool | float | int | str

app = ClientApp()


@app.introduce()
def introduce(context: Context, ask: ParticipationRequest) -> dict[str, Value]:
    """Return this client's number of images, and its price and sensitivity if it has them, among other values."""
    source = make_source(context, ask)
    size = count_examples(source.path) if isinstance(source, Folder) else len(source.indices)
    return {**_row(context, ask), **context.node_config, "num-examples": size}


@app.source()
def make_source(context: Context, ask: ParticipationRequest) -> Mislabelled | Folder:
    """Return the source of this client's data."""
    node, client = context.node_config, identity(context, ask.run)
    if "data-file" in node:
        seconds: Any = node.get("round-seconds", Folder.round_seconds)  # Folder checks the value
        return Folder(Path(str(node["data-file"])), str(node.get("refresh-command", "")), seconds)
    settings = _settings(context)
    row = _row(context, ask)
    path = node.get("partition-file") or run_folder(context, ask.run).parent / protocol.PARTITION_FILE
    indices, rate = read_index(str(path), client.partition or 0), settings.mislabel_rate * row.get("staleness", 1.0)
    return Mislabelled(indices, client.number, settings.seed, int(row.get("age", 0)), rate)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on this client's images at their present age."""
    task, number, how = _work(message, context)
    examples = _examples(message, context, task)
    arrays, loss = task.train(from_record(_arrays(message)), examples, client=number, **how)
    return _update(message, arrays, loss, examples)


def at_once(message: Message, context: Context) -> int:
    """Return how many clients to train at once: as many as fit the GPU's memory, on a CPU one.

    Clients that train together save no time on a CPU, so there it needs ``train-together=always``.
    """
    settings = _settings(context)
    if settings.train_together == "never":
        return 1
    from aoi_fl.learning import sgd

    if settings.train_together == "auto" and sgd.device(settings.device).type == "cpu":
        return 1
    return int(_task(message, context).clients_at_once(settings.batch_size))


@app.train_many(at_once)
def train_many(messages: Sequence[Message], contexts: Sequence[Context]) -> list[Message | None]:
    """Train many clients at once; return None for a client with another task or with an error."""
    task, _, how = _work(messages[0], contexts[0])
    record = _arrays(messages[0])
    chosen = {}
    for i, (message, context) in enumerate(zip(messages, contexts, strict=True)):
        with suppress(Exception):  # the client then trains alone and reports its error
            its_task, number, its_how = _work(message, context)
            its_record = _arrays(message)  # messages of one round share array objects
            same = list(its_record) == list(record) and all(map(operator.is_, its_record.values(), record.values()))
            if (its_task, its_how) == (task, how) and same:
                chosen[i] = _examples(message, context, task), number
    replies: list[Message | None] = [None] * len(messages)
    if chosen:
        trained = task.train_many(from_record(record), list(chosen.values()), **how)
        for (i, (examples, _)), (arrays, loss) in zip(chosen.items(), trained, strict=True):
            replies[i] = _update(messages[i], arrays, loss, examples)
    return replies


def _work(message: Message, context: Context) -> tuple["Task", int, "How"]:
    """Return the task, this client's number and the arguments of its training."""
    ask, settings = ask_of(context), _settings(context)
    how: How = {
        "round_": ask.round,
        "seed": settings.seed,
        "learning_rate": float(_config(message)["learning-rate"]),
        "batch_size": settings.batch_size,
        "epochs": settings.local_epochs or None,
        "steps": settings.local_steps or None,
    }
    return _task(message, context), identity(context, ask.run).number, how


def _examples(message: Message, context: Context, task: "Task") -> "Examples":
    """Return this client's examples of the age that the message has, or of this round."""
    ask = ask_of(context)
    return make_source(context, ask).examples(task, ask.round, _config(message)["data-age"])


def _update(message: Message, arrays: "ModelArrays", loss: float, examples: "Examples") -> Message:
    metrics = MetricRecord({"num-examples": len(examples), "loss": loss})
    return Message(RecordDict({protocol.ARRAYS: to_record(arrays), protocol.METRICS: metrics}), reply_to=message)


def _arrays(message: Message) -> Any:
    return message.content[protocol.ARRAYS]


def _config(message: Message) -> Any:
    return message.content.get(protocol.CONFIG, ConfigRecord())


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on this client's images, as if they were of this round."""
    ask = ask_of(context)
    task = _task(message, context)
    examples = make_source(context, ask).examples(task, ask.round, 0)
    loss, value = task.evaluate(from_record(_arrays(message)), examples)
    metrics = MetricRecord({"num-examples": len(examples), "loss": loss, task.form.metric: value})
    return Message(RecordDict({protocol.METRICS: metrics}), reply_to=message)


def _row(context: Context, ask: ParticipationRequest) -> dict[str, float]:
    """Return this client's row of the run's table of clients; {} without a table."""
    client = identity(context, ask.run)
    path = run_folder(context, ask.run).parent / protocol.CLIENTS_FILE
    if client.partition is None or not path.is_file():
        return {}
    table, i = _table(path, digest([path])), client.partition
    return {
        "payment": float(table.payments[i]),
        "sensitivity": float(table.sensitivities[i]),
        "age": int(table.ages[i]),
        "staleness": float(table.staleness[i]),
    }


@lru_cache(maxsize=4)
def _table(path: Path, digest: str) -> ClientTable:
    return read_clients_file(path)


def _settings(context: Context) -> "TaskSettings":
    return _read_settings(tuple(sorted(context.run_config.items())))


@lru_cache(maxsize=4)
def _read_settings(run_config: tuple[tuple[str, Value], ...]) -> "TaskSettings":
    from aoi_fl.config.keys import TaskSettings

    return TaskSettings.model_validate(dict(run_config)).resolved()


def _task(message: Message, context: Context) -> "Task":
    """Return the task, with the client's own folders and the server's form of the data."""
    from aoi_fl.learning import sgd
    from aoi_fl.learning.form import Form
    from aoi_fl.learning.task import Task

    settings, config = _settings(context), _config(message)
    sgd.threads(settings.threads)
    names = {"data_dir": "data-dir", "model_dir": "model-dir"}
    own = {field: str(context.node_config[key]) for field, key in names.items() if context.node_config.get(key)}
    shape, classes = config.get("data-shape"), config.get("classes")
    form = Form(tuple(shape), classes) if shape else None
    source, data_source = (str(config.get(key, "")) for key in ("model-source", "data-source"))
    return Task.of(settings, told=form, source=source, data_source=data_source, **own)
