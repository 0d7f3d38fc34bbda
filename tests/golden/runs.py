"""The golden runs: small federations without torch. Tests compare their selections, ledger rows and models.

``runs.json`` has a line for each round. ``checkpoints.json.gz`` has the states of strategies and clients after round 6.
``python -m tests.golden.runs FOLDER`` writes both files into FOLDER. A difference is a change of behaviour.
"""

import gzip
import hashlib
import json
import math
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path

import numpy as np

from aoi_fl.config.run import RunConfig
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import without_loading
from aoi_fl.protocol.records import ClientRecord
from aoi_fl.server.strategy import make_strategy
from aoi_fl.strategies.plan import Resume
from tests.fakes import Notes, ScriptedGrid, ToyApp, availability, of, record_of, spells

HERE = Path(__file__).parent
N, ROUNDS, CUT = 12, 10, 6  # clients, rounds, and the round after which a run is cut
MODEL = {"w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "b": np.array([0.5, -0.5])}
RATES = [0.2, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7]  # k = 5 in all
BUDGETED = {"budget": 30.0, "mislabel-rate": 0.05}
CENTRAL = {
    "random": {},
    "random-unbiased": {"policy": "random", "weights": "unbiased"},
    "proportional": {},
    "oldest-age": {},
    "oldest-age-unbiased": {"policy": "oldest-age", "weights": "unbiased"},
    "pow-d": {"candidates": 11},
    "rpow-d": {},
    "oort": {},
    "fedcs": {},
    "refl": {},
    "f3ast": {},
    "wics": BUDGETED,
    "wics-bid": BUDGETED | {"policy": "wics", "index-source": "bid"},
    "wics-total": BUDGETED | {"policy": "wics", "budget": 30.0, "total-budget": 200.0},
    "wics-estimated": BUDGETED | {"policy": "wics", "trains": "all", "sensitivities": "estimated"},
    "abs": BUDGETED,
    "maxpack": BUDGETED,
    "random-budget": BUDGETED,
}
DECENTRALISED = {
    "markov-optimal": {"max-age": 5},
    "markov-few": {"policy": "markov-optimal", "clients-per-round": 1, "max-age": 10},  # some rounds have to be forced
    "markov-given": {"policy": "markov-optimal"},  # with the rates of RATES
    "markov-dropout": {"policy": "markov-optimal", "compensate": "dropout", "rates": "size"},
    "markov-absence": {"policy": "markov-optimal", "compensate": "availability", "weights": "unbiased"},
    "markov-increasing": {"max-age": 5, "exponent": 2.0, "weights": "unbiased"},
    "systematic": {"weights": "unbiased"},
    "systematic-size": {"policy": "systematic", "rates": "size", "jitter": 0.5},
    "systematic-absence": {"policy": "systematic", "compensate": "availability"},
    "systematic-random": {"policy": "systematic", "phases": "random"},
}
POLICIES = CENTRAL | {
    f"{row} {wire}": keys | {"coordination": wire}
    for (row, keys), wire in product(DECENTRALISED.items(), ("poll", "broadcast", "reserve"))
}
KINDS = ("plain", "evaluating", "late")
RESUMED = ("evaluating", "late")  # kinds of which a run is cut, and goes on by what was written down then
TIMED = ("oort", "fedcs")  # which go by seconds, so that their time is always simulated


REWORDED = {"the run ended before": "the run was over bef"}  # reasons that say the same in other words


def line_of(record, model, timed):
    """Return a round as one line: outcomes by client, counts, and digests of the ledger's rows and of the model."""
    parts = sorted(record.participations, key=lambda part: (part.client, part.outcome))
    clients = " ".join(f"{p.client}{p.outcome[:3]}{'*' if p.refreshed else ''}" for p in parts)
    row = {f.name: getattr(record, f.name) for f in fields(record) if not f.name.endswith("seconds")}
    for newer in ("epsilon", "nodes", "at_work"):  # columns of other runs: private, deployed, without a barrier
        if row[newer] is None:
            del row[newer]
    # A run of this app reports no other metrics: tests/server/test_record.py.
    del row["started"], row["metrics"], row["by_client"]
    row["participations"] = [asdict(part) | ({} if timed else {"seconds": None}) for part in parts]
    for part in row["participations"]:
        if part["reason"] is not None:
            reason = part["reason"].splitlines()[0][:20]  # a trace names files
            part["reason"] = REWORDED.get(reason, reason)
    counts = f"{record.asked}/{record.willing}/{record.declined}/{record.dropped}/{record.messages}"
    forced = "forced " if record.forced else ""
    blob = b"".join(np.ascontiguousarray(array).tobytes() for array in model.values())
    return f"{clients} | {forced}{counts} | {_digest(json.dumps(row).encode())} {_digest(blob)}"


def _digest(blob):
    return hashlib.sha256(blob).hexdigest()[:10]


class Learners(ToyApp):
    """Clients that lose less from round to round, and evaluate the model by its size."""

    def _fit(self, message, context):
        reply = super()._fit(message, context)
        reply.content["metrics"]["loss"] /= math.sqrt(of(message)[1])
        return reply

    def _judge(self, message, context):
        reply = super()._judge(message, context)
        reply.content["metrics"]["loss"] += abs(float(message.content["arrays"]["b"].numpy().sum()))
        return reply


def size(client):
    return 10 * (client % 7 + 1)


def app_of(fails):
    """Return an app whose clients add a constant of their own, have a price, and may fail by client and round."""

    def declare(client):
        return {"num-examples": size(client), "payment": 4.0 + client % 5, "sensitivity": 0.5 + 0.1 * client}

    def learn(array, client, round_):
        return array * array.dtype.type(0.9) + array.dtype.type(0.01 * client)

    def behave(message, act, kind, round_, client):
        trains = kind == "train" and (7 * client + 3 * round_) % 11 == 0
        answers = kind in ("query.participate", "query.bid") and (5 * client + round_) % 13 == 0
        if fails and (trains or answers):
            raise RuntimeError("lost")
        return act()

    losses = {"loss": lambda client: 1 + client % 3, "evaluates": lambda client: (5 * client % 7) / 10}
    return Learners(learn, examples=size, declares=declare, spoil=behave, **losses)


def trace():
    """Return devices of which each is there for minutes and away for one, and trains for 1 to 60 seconds."""
    rng, end = np.random.default_rng(3), 5_000.0
    present = [spells(rng, 90.0, 30.0, end) for _ in range(N)]
    return without_loading(availability(present, end), rng.uniform(0.05, 0.9, N), "example")


def churning(grid):
    """Return the clients that are connected: one joins in round 3, and one leaves from round 4 to round 8."""
    joined, left = grid.round >= 2, 3 <= grid.round < 8
    return range(left, N + joined)


def play(row, kind, folder, *, cut=0, after=None):
    """Play one of the runs, up to a round, or ``after`` what was kept of one that was cut; return notes and lines."""
    keys = POLICIES[row]
    timed = kind == "late" or row in TIMED
    values = {"policy": row.split()[0], "num-clients": N, "clients-per-round": 5, "seed": 3, "join-timeout": 0.3}
    if kind == "evaluating":
        values["evaluate-clients"] = 4
    if timed:
        values |= {"clock": "generated", "train-timeout": 15.0}
    if kind == "late" and not {"budget", "weights"} & keys.keys() and row != "f3ast":
        values |= {"over-selection": 1.2, "late-rounds": 2}
    config = RunConfig.parse(values | keys)
    rates = None
    if row.startswith("markov-given"):
        rates = [rate * config.sent / sum(RATES) for rate in RATES]
    notes, app = Notes({cut}), app_of(fails=kind == "evaluating")
    about = {"runs-dir": str(folder), "seed": 3}
    grid = ClockedGrid(app, about, N, trace()) if timed else ScriptedGrid(app, about, N + 1, present=churning)
    model, resume = MODEL, None
    if after is not None:
        model = {name: _array(array) for name, array in after["model"].items()}
        memory = {name: _array(array) for name, array in after["memory"].items()}
        resume = Resume(after["round"] + 1, [ClientRecord(**client) for client in after["clients"]], memory)
        for path, text in after["files"].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        if isinstance(grid, ScriptedGrid):
            grid.round = after["round"]
    strategy = make_strategy(config, "r", rates=rates, observer=notes, resume=resume)
    with suppress(KeyboardInterrupt):
        strategy.start(grid, record_of(model), ROUNDS)
    rounds = zip(notes.rounds, notes.models, strict=True)
    return notes, {record.round: line_of(record, model, timed) for record, model in rounds}


def checkpoint(row, kind, folder):
    """Return all that is kept of a run that is cut after round 6, as JSON."""
    notes, lines = play(row, kind, folder, cut=CUT)
    assert CUT in lines, "the run was over before"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "round": CUT,
        "clients": [asdict(client) for client in notes.clients],
        "model": {name: _plain(array) for name, array in notes.models[-1].items()},
        "memory": {name: _plain(array) for name, array in notes.state_dict.items()},
        "files": {str(path.relative_to(folder)): path.read_text() for path in files},
    }


def _plain(array):
    return [str(array.dtype), list(array.shape), array.ravel().tolist()]


def _array(plain):
    dtype, shape, values = plain
    return np.array(values, dtype=dtype).reshape(shape)


def every(what, kinds):
    """Yield what becomes of each row in each kind of run."""
    for row, kind in product(POLICIES, kinds):
        with tempfile.TemporaryDirectory() as folder:
            yield row, kind, what(row, kind, Path(folder))


def write(folder):
    """Play all runs and write what is compared."""
    runs = {row: {} for row in POLICIES}
    for row, kind, (_, lines) in every(play, KINDS):
        runs[row][kind] = lines
    kept = {}
    for row, kind, state in every(checkpoint, RESUMED):
        kept.setdefault(row, {})[kind] = state
    resumed = every(lambda row, kind, at: play(row, kind, at, after=kept[row][kind]), RESUMED)
    for row, kind, (_, lines) in resumed:
        runs[row][f"{kind} resumed"] = lines
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")
    with gzip.GzipFile(folder / "checkpoints.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(kept).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
