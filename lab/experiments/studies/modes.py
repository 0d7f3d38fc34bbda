"""The cost of the decentralised policy in messages and bytes: poll, broadcast and reserve against n."""

from aoi_fl import protocol
from aoi_fl.lab.experiments.harness.base import Experiment, by_seed
from aoi_fl.lab.experiments.harness.counting import counted
from aoi_fl.lab.experiments.harness.stats import difference, interval
from aoi_fl.lab.experiments.harness.verdicts import elsewhere

_WIRES = protocol.WIRES
_PER_ROUND = 15
_SLACK = 0.1 * 2 * _PER_ROUND  # messages a round by which wires still are alike: a tenth of the 2k
_FIRST = 1  # the round of the roll call, and of a newcomer's first ask in reserve mode


class Modes(Experiment):
    """A decision's way to the server, which the papers leave out."""

    def cells(self, options):
        sizes = (25, 50, 100) if options.quick else (25, 50, 100, 200)
        return [{"clients": n, "wire": w} for n in sizes for w in _WIRES]

    def play(self, unit, options):
        """Run a real federation on one machine, and return each round's messages."""
        settings = self.settings(options)
        found = {}
        keys = {
            "policy": "markov-optimal",
            "coordination": unit["wire"],
            "num-clients": unit["clients"],
            "clients-per-round": _PER_ROUND,
            "max-age": settings["max_age"],
            "num-server-rounds": settings["rounds"],
            "dataset": settings["dataset"],
            "model": settings["model"],
            "local-steps": 1,
            "evaluate-every": settings["rounds"],
            "seed": unit["seed"],
            "device": "cpu",
            "run-name": "modes",  # its length is part of every message
        }
        for message in counted(keys):
            tally = found.setdefault(message.round, [0, 0, 0])
            for i, more in enumerate((1, message.size, message.with_arrays)):
                tally[i] += more
        return [{"round": t, "messages": m, "bytes": b, "with_arrays": a} for t, (m, b, a) in sorted(found.items())]

    def conclude(self, rows, settings):
        numbers = sorted({row["clients"] for row in rows})
        lines = []
        for wire in _WIRES:
            for n in numbers:
                found = {c: interval(_per_seed(rows, n, wire, c)) for c in ("messages", "bytes", "with_arrays")}
                lines.append(
                    [
                        wire,
                        str(n),
                        found["messages"].show(1),
                        f"{_expected(n, wire):.0f}",
                        _with_unit(found["bytes"].mean),
                        f"{found['with_arrays'].mean:.0f}",
                    ],
                )
        first, last = numbers[0], numbers[-1]
        grows = {w: difference(*(_per_seed(rows, n, w, "messages") for n in (last, first))) for w in _WIRES}
        overhead = {
            "poll": "asks every client in every round",
            "broadcast": "sends the model to every client in every round",
            "reserve": "asks no client that has a reservation",
        }
        claims = {
            wire: (
                f"{wire} {overhead[wire]}: {grows[wire].show(1)} messages a round more with {last} clients than with "
                f"{first}; here, alike is fewer than {_SLACK:.0f} more, a tenth of a round's 2k",
                "not run"
                if last <= first
                else _alike(grows[wire])
                if wire == "reserve"
                else elsewhere(_alike(grows[wire])),
            )
            for wire in overhead
        }
        return self.concluded(claims, lines, model=_with_unit(_model_bytes(rows)))


def _alike(growth):
    """Judge that messages grow by less than a tenth of a round's 2k."""
    if growth.high < _SLACK:
        return "holds"
    return "refuted" if growth.low > _SLACK else "undecided"


def _expected(clients, wire):
    return {"poll": 2 * clients + 2 * _PER_ROUND, "broadcast": 2 * clients, "reserve": 2 * _PER_ROUND}[wire]


def _per_seed(rows, clients, wire, column):
    """Return each seed's mean over the rounds after the first ones."""
    runs = by_seed((row for row in rows if row["round"] > _FIRST), clients=clients, wire=wire)
    return [sum(row[column] for row in run) / len(run) for run in runs.values()]


def _model_bytes(rows):
    """Return the bytes of a message with the model, from reserve mode, where nearly all have it."""
    chosen = [row for row in rows if row["wire"] == "reserve" and row["round"] > _FIRST]
    return sum(row["bytes"] for row in chosen) / max(sum(row["with_arrays"] for row in chosen), 1)


def _with_unit(size):
    return f"{size / 1e6:.2f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
