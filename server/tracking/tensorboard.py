"""TensorBoard: an event file for each start of the run, in its folder ``tensorboard``.

``tensorboard --logdir runs`` shows all runs. It needs neither torch nor TensorFlow.
"""

import time
from collections.abc import Mapping

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from aoi_fl.server.tracking.base import Tracker


class TensorBoard(Tracker):
    """Logs each number of a round as a scalar, and the configuration as a text."""

    tool, files = "TensorBoard", ("tensorboard",)

    def _begin(self) -> int:
        place, last, known = self.folder / "tensorboard", 0, list[bytes]()
        if place.is_dir():
            logs = EventAccumulator(str(place))
            logs.Reload()
            last = max((int(event.step) for tag in logs.Tags()["scalars"] for event in logs.Scalars(tag)), default=0)
            known = [event.tensor_proto.string_val[0] for tag in logs.Tags()["tensors"] for event in logs.Tensors(tag)]
        self._writer = EventFileWriter(str(place))
        rows = "".join(f"| {key} | {value} |\n" for key, value in sorted(self._config.items()))
        if (text := f"| key | value |\n|---|---|\n{rows}".encode()) not in known[-1:]:
            tensor = TensorProto(dtype="DT_STRING", string_val=[text])
            metadata = create_summary_metadata("", "")
            self._add(last, Summary.Value(tag="configuration/text_summary", metadata=metadata, tensor=tensor))
        return last

    def _log(self, round_: int, values: Mapping[str, float]) -> None:
        self._add(round_, *(Summary.Value(tag=name, simple_value=value) for name, value in values.items()))

    def _add(self, step: int, *values: Summary.Value) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._writer.flush()  # a resumed run logs rounds again that a killed process has not flushed

    def _end(self, status: str) -> None:
        self._writer.close()
