"""From the metrics of several clients to one record."""

from collections import Counter
from collections.abc import ItemsView, Sequence
from typing import Any, cast

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from aoi_fl import protocol
from aoi_fl.protocol.own_code import call_own
from aoi_fl.strategies.aggregation.base import NewModel
from aoi_fl.strategies.plan import AggregateMetrics
from aoi_fl.strategies.validation import is_bounded, metrics_key, metrics_of

_MEANS: AggregateMetrics = FedAvg().train_metrics_aggr_fn  # the weighted means, which have no public name of their own


def common(records: Sequence[MetricRecord]) -> list[MetricRecord]:
    """Return the metrics that all clients report, with lists only where they are equally long.

    Flower's own aggregation takes the first client's word for all the others', and fails where it does not hold.
    """
    keys = [name for name, _ in _shared(records, len(records))]
    return [MetricRecord({key: record[key] for key in keys}) for record in records]


def stripped(reply: Message) -> RecordDict:
    """Return a reply's records by the client's own names, but for its arrays and our record."""
    records = reply.content.items()
    return RecordDict({k: one for k, one in records if not isinstance(one, ArrayRecord) and k != protocol.AOI})


def aggregate(contents: Sequence[RecordDict], key: str, function: AggregateMetrics | None) -> MetricRecord | None:
    """Return one record for the metrics of several clients; None for none.

    Parameters
    ----------
    contents : :func:`stripped` replies in client order
    key : the metric that weighs; it holds a positive number in each of them
    function : as in Flower's FedAvg, which sees the contents as they are; None: the weighted means, each of what is
        finite
    """
    if not contents:
        return None
    if function is not None:
        wanted = "a function of (records, weighted_by_key) that returns a MetricRecord"
        return call_own("metrics_aggr_fn", function, list(contents), key, made=metrics_or_none, wanted=wanted)
    records = [metrics_of(content, key) or MetricRecord() for content in contents]
    means = MetricRecord()
    for name, shape in _shared(records, len(records) // 2 + 1):
        if name == key:
            continue
        good = [
            RecordDict({"metrics": MetricRecord({name: record[name], key: record[key]})})
            for record in records
            if (name, shape) in _shapes(record) and is_bounded(record[name])
        ]
        if good:
            means.update(_MEANS(good, key))
    return finite(means)


def metrics_or_none(made: Any) -> MetricRecord | None:
    """Return metrics that own code has made, None as it is; raise TypeError for anything else."""
    return made if made is None or isinstance(made, MetricRecord) else MetricRecord(dict(made))


def model_and_metrics(made: Any) -> NewModel:
    """Return what an aggregation of own code has made; raise TypeError for anything else."""
    arrays, metrics = made
    if arrays is not None and not isinstance(arrays, ArrayRecord):
        raise TypeError
    return arrays, metrics_or_none(metrics)


def messages_of(made: Any) -> list[Message]:
    """Return the messages that own code has made; raise TypeError for anything else."""
    messages = list(made)
    if not all(isinstance(message, Message) for message in messages):
        raise TypeError
    return messages


def whole(replies: Sequence[Message], key: str) -> list[Message]:
    """Return the replies of which every metric is finite; all, without what is not, where there are none.

    Flower's strategies and a user's functions take the same metrics from each.
    """
    named = [(reply, str(metrics_key(reply.content, key))) for reply in replies]
    good = [reply for reply, name in named if all(map(is_bounded, reply.content[name].values()))]
    for reply, name in () if good else named:
        reply.content[name] = finite(cast(MetricRecord, reply.content[name]))
    return good or list(replies)


def finite(record: MetricRecord) -> MetricRecord:
    """Return the metrics of a record that are numbers to reckon with."""
    return MetricRecord({name: value for name, value in record.items() if is_bounded(value)})


def alike(replies: Sequence[Message], key: str) -> list[Message]:
    """Return the replies with all metrics that most of them have; all replies where none has."""
    records = [metrics_of(reply.content, key) or MetricRecord() for reply in replies]
    wanted = set(_shared(records, len(records) // 2 + 1))
    found = [reply for reply, record in zip(replies, records, strict=True) if wanted <= _shapes(record)]
    return found or list(replies)


def _shared(records: Sequence[MetricRecord], least: int) -> list[tuple[str, int]]:
    """Return the metrics, with their shapes, that so many of the records have; by half of them no client hides one."""
    counts = Counter(metric for record in records for metric in _shapes(record))
    return [metric for metric, count in counts.items() if count >= least]


def _shapes(record: MetricRecord) -> ItemsView[str, int]:
    """Return the metrics of a record, each with the length of its list, -1 for a number."""
    return {name: len(value) if isinstance(value, list) else -1 for name, value in record.items()}.items()
