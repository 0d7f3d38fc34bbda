"""Models a minute without and with a barrier: five SuperNodes with a slow one, and a thousand virtual ones.

All have the same number of clients at work in both cases. The Flower app in ``apps/exchange`` calls :func:`play` as its
ServerApp.
"""

import statistics
from dataclasses import asdict

from aoi_fl.flower.versions import check_deployable
from aoi_fl.lab.benchmarks.base import APP, Row, Skipped
from aoi_fl.lab.benchmarks.echo import SLOWER, TRAINS
from aoi_fl.lab.benchmarks.engines import TimedRounds, model
from aoi_fl.lab.benchmarks.superlink import OURS, deployment
from aoi_fl.strategies import RandomSelection, RoundOptions

FEW, FEWS_BUFFER = 5, 2
SECONDS = 3.0  # of a training, but on the slow client
MODELS = {0: 3, FEWS_BUFFER: 20}  # by buffer
MANY, AT_WORK, BUFFER = 1000, 60, 20
_RAMP = 10  # first models without a barrier, until all are at work
_LATE, _TIMEOUT, _AT_MOST = 1000, 120.0, 420.0


def play(grid, config):
    """Run rounds with a barrier, then without, and return their seconds."""
    found = {}
    for buffer, rounds in MODELS.items():
        options = RoundOptions(
            run=f"barrier-{buffer}",
            buffer=buffer,
            late_rounds=_LATE * bool(buffer),
            min_clients=FEW,
            join_timeout=_TIMEOUT,
            train_timeout=_TIMEOUT,
            evaluate_clients=0,
        )
        clock = TimedRounds()
        found[buffer] = clock.times.wall
        strategy = RandomSelection(FEW, options=options, observer=clock, configure=lambda _: {TRAINS: SECONDS})
        strategy.start(grid, model(10_000), rounds)
    return found


def run(data):
    """Measure five SuperNodes in one deployment, then two fleets."""
    with deployment([OURS] * FEW) as submit:
        seconds = submit(APP, 'what="barrier:play"')
    pace = {int(buffer): statistics.mean(each[1:]) for buffer, each in seconds.items()}  # the first one greets them
    yield _pace(
        f"{FEW} SuperNodes, one at a tenth of the speed ({SECONDS:g} s and {SECONDS * SLOWER:g} s of training)",
        pace[FEWS_BUFFER],
        pace[0],
        FEWS_BUFFER,
        3,
        seconds,
    )
    yield from _fleets()


def _fleets():
    check_deployable()
    from aoi_fl.lab.benchmarks.fleet import found

    shape = {"clients": MANY, "per_round": AT_WORK, "phones": True, "timeout": _TIMEOUT, "seconds": _AT_MOST}
    free = found(**shape, buffer=BUFFER, late_rounds=_LATE, rounds=3 * _RAMP)
    bound = found(**shape, rounds=4)
    if len(free.rounds) <= _RAMP or not bound.rounds:
        raise Skipped(f"{len(free.rounds)} models and {len(bound.rounds)} rounds were made in time")
    pace, reference = statistics.mean(free.rounds[_RAMP:]), statistics.mean(bound.rounds)
    who = f"{MANY} SuperNodes with training times of phones, reserve, {AT_WORK} at work"
    yield _pace(who, pace, reference, BUFFER, 2, {"without": asdict(free), "with": asdict(bound)})
    cpu = free.client_cpu, bound.client_cpu
    yield Row(
        f"{who}: the SuperLink's processor time for an update, without a barrier",
        "with a barrier",
        1.1,
        cpu[0] / cpu[1],
        note=f"{cpu[0]:.0f} and {cpu[1]:.0f} ms, looks and heartbeats of all nodes included",
    )


def _pace(who, seconds, reference, buffer, times, details):
    """Return the row of the seconds of a model, where ``times`` as many models a minute are the goal."""
    note = f"{60 / seconds:.1f} models a minute against {60 / reference:.1f}: {reference / seconds:.1f} times as many"
    what = f"{who}: a model without a barrier, after {buffer} updates"
    return Row(what, "a round with a barrier", 1 / times, seconds / reference, note=note, details=details)
