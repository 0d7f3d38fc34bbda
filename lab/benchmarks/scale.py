"""Growth with the federation: messages and time of 10^5 clients, memory by k, imports."""

import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing, redirect_stderr
from io import StringIO
from pathlib import Path

from aoi_fl.lab.benchmarks.base import ROOT, Row, Times, in_a_process, peak_memory
from aoi_fl.lab.benchmarks.echo import ADD
from aoi_fl.lab.benchmarks.engines import OPTIONS, TimedRounds, local_grid, model
from aoi_fl.protocol import RESERVE
from aoi_fl.server.checkpoint import Checkpoints
from aoi_fl.server.folder import CHECKPOINTS, LEDGER
from aoi_fl.server.ledger import Ledger
from aoi_fl.server.observe import Recorder
from aoi_fl.strategies import MarkovParticipation, RandomSelection

MANY, PER_ROUND, ROUNDS = 10**5, 100, 21
BIG = 6_250_000  # float32 parameters: 25 MB


def run(data):
    """Measure."""
    yield _import()
    few, many = (in_a_process(peak, per_round) for per_round in (10, 200))
    yield Row(
        "peak memory of one process with server and clients, local engine, k = 10 → 200, 25 MB model",
        "k = 10",
        2,
        (many - few) / (BIG * 4 / 2**20),
        "models more",
        note=f"{few:.0f} and {many:.0f} MiB",
    )
    yield from _reserve()


def _reserve():
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(redirect_stderr(StringIO()))
        ledger = stack.enter_context(closing(Ledger(folder / LEDGER)))
        grid = stack.enter_context(local_grid(MANY))
        observer = TimedRounds(Recorder(ledger, Checkpoints(folder / CHECKPOINTS), ROUNDS))
        how = {"coordination": RESERVE, "options": OPTIONS, "observer": observer}
        strategy = MarkovParticipation.optimal(MANY, PER_ROUND, **how)
        strategy.start(grid, model(1000), ROUNDS)
    times, first = observer.times.after_first(), observer.times.wall[0]
    quiet = [r for r in observer.rounds[1:] if r.asked == 0]
    over = [r.messages / (2 * PER_ROUND) for r in quiet]
    yield Row(
        f"messages of a reserve round, n = 10^5, k = {PER_ROUND}, nobody new or missed",
        "two for each client that takes part",
        1,
        sum(r.messages for r in quiet) / sum(2 * r.trained for r in quiet),
    )
    yield Row(
        f"the same messages, mean of {len(quiet)} rounds",
        f"2k = {2 * PER_ROUND}",
        None,
        statistics.mean(over),
        note=f"from {min(over):.2f} to {max(over):.2f}: how many take part is random, with mean k",
    )
    yield Row(
        f"a reserve round with 10^5 registered clients, {PER_ROUND} training, without the training",
        "–",
        0.5,
        times.seconds,
        "s",
        note=f"ledger and checkpoint included; {times.process:.2g} s of process time; the longest of "
        f"{len(times.wall)} took {max(times.wall):.2f} s, the first, with the roll call, {first:.0f} s",
    )


def peak(per_round):
    """Run two rounds in this process and return its peak memory, in MiB."""
    with local_grid(200) as grid:
        strategy = RandomSelection(per_round, options=OPTIONS, configure=lambda round_: {ADD: float(round_)})
        strategy.start(grid, model(BIG), 2)
    return peak_memory()


def _import():
    """Measure the imports of a client's process before it can reply, beside Flower's own."""
    ours, flower = Times(), Times()
    for _ in range(3):
        for found, module in ((flower, "flwr.clientapp"), (ours, "aoi_fl.learning.client_app")):
            code = [sys.executable, "-c", _IMPORTING, module]
            cost = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True)
            wall, cpu, torch = json.loads(cost.stdout.splitlines()[-1])
            if torch:
                raise RuntimeError("an ask imports torch")
            found.wall.append(wall)
            found.cpu.append(cpu)
    return Row(
        "what a deployed client imports to answer an ask, above Flower's own",
        f"importing `flwr.clientapp`, {flower.seconds:.2f} s",
        1.5,
        ours.seconds - flower.seconds,
        "s",
    )


# The process imports nothing else before the clock starts.
_IMPORTING = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
__import__(sys.argv[1])
cost = time.perf_counter() - wall, time.process_time() - cpu, "torch" in sys.modules
import json
print(json.dumps(cost))
"""
