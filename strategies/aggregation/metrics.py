"""From the metrics of several clients to one record."""

from collections.abc import Sequence

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from aoi_fl.strategies.guard import is_bounded, metrics_of
from aoi_fl.strategies.plan import AggregateMetrics
from aoi_fl.wire import protocol

_MEANS: AggregateMetrics = FedAvg().train_metrics_aggr_fn  # the weighted means, which have no public name of their own


def common(records: Sequence[MetricRecord]) -> list[MetricRecord]:
    """Return the metrics that all clients report, with lists only where they are equally long.

    Flower's own aggregation takes the first client's word for all the others', and fails where it does not hold.
    """
    first, *others = [{key: _shape(value) for key, value in record.items()} for record in records] or [{}]
    keys = [key for key, shape in first.items() if all(other.get(key) == shape for other in others)]
    return [
        record if len(record) == len(keys) else MetricRecord({key: record[key] for key in keys}) for record in records
    ]


def stripped(reply: Message) -> RecordDict:
    """Return a reply's records by the client's own names, but for its arrays and our record."""
    kept = reply.content.copy()
    for key, record in reply.content.items():
        if isinstance(record, ArrayRecord) or key == protocol.AOI:
            del kept[key]
    return kept


def aggregate(contents: Sequence[RecordDict], key: str, function: AggregateMetrics | None) -> MetricRecord | None:
    """Return one record for the metrics of several clients; None for none.

    Parameters
    ----------
    contents : :func:`stripped` replies in client order
    key : the metric that weighs; it holds a positive number in each of them
    function : as in Flower's FedAvg, which sees the contents as they are; None: the weighted means, but for those that
        are not finite
    """
    if not contents:
        return None
    if function is not None:
        return function(list(contents), key)
    records = [record for record in (metrics_of(content, key) for content in contents) if record is not None]
    means = _MEANS([RecordDict({"metrics": record}) for record in common(records)], key)
    return MetricRecord({name: mean for name, mean in means.items() if is_bounded(mean)})


def _shape(value: object) -> int:
    return len(value) if isinstance(value, list) else -1
