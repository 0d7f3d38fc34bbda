"""The price of compressed updates in accuracy, and their saving in bytes: none, float16 and int8, paired seeds."""

from functools import cache

from aoi_fl.lab.experiments.harness.counting import counted
from aoi_fl.lab.experiments.harness.federation import play_run
from aoi_fl.lab.experiments.harness.setting import Trained
from aoi_fl.lab.experiments.harness.stats import interval, paired_curves
from aoi_fl.protocol.coding import KINDS, NONE

_LAST = 5  # rounds at the end over which the accuracy is averaged: one round's is at the mercy of its fifteen clients


class Compression(Trained):
    """The size of an update, which the papers leave out."""

    factors = {"compression": KINDS}

    def play(self, unit, options):
        """Run a federation; for a seed all codes share first model, partition, clients and batches."""
        values = {**self.settings(options), **unit}
        size = update_bytes(values["dataset"], values["model"], unit["compression"], options.data_dir)
        return [{**row, "update_bytes": size} for row in play_run(self.name, values, options)]

    def conclude(self, rows, settings):
        curves = paired_curves(rows, "compression", KINDS, "accuracy")
        sizes = {row["compression"]: row["update_bytes"] for row in rows}
        lines = []
        for kind, curve in curves.items():
            gain, own = 100 * (curve - curves[NONE]), kind == NONE
            lines.append(
                [
                    kind,
                    f"{sizes[kind] / 1e3:.1f} kB",
                    f"{sizes[kind] / sizes[NONE]:.3f}",
                    interval(100 * _end(curve)).show(2, " %"),
                    "" if own else interval(_end(gain)).show(2, " points"),
                    "" if own else interval(gain.mean(axis=1)).show(3, " points"),
                ],
            )
        return self.concluded({}, lines, **settings)


@cache
def update_bytes(dataset, model, compression, data_dir):
    """Return the bytes of an update's message, from a federation of two clients and one round."""
    keys = {
        "dataset": dataset,
        "model": model,
        "compression": compression,
        "data-dir": str(data_dir.absolute()),
        "policy": "random",
        "num-clients": 2,
        "clients-per-round": 2,
        "num-server-rounds": 1,
        "local-steps": 1,
    }
    return max(m.size for m in counted(keys) if m.is_reply and m.with_arrays)


def _end(curve):
    return curve[:, -_LAST:].mean(axis=1)
