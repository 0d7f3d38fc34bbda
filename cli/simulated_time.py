"""The simulated time of ``aoi simulate``: its devices' clock, and what the time came to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.science.clock import RoundClock
    from aoi_fl.science.history import History
    from aoi_fl.science.selection import Population


def make_clock(
    clock: str, population: Population, wanted: tuple[int, float] | None, seed: int, **how: Any
) -> RoundClock:
    """Return the devices' time; a local training of mean length passes through as many examples as clients have.

    Parameters
    ----------
    clock : a trace's name or file
    population : the clients; an example takes longer where they have fewer
    wanted : k and the factor of over-selection, to warn where fewer are there; None under a budget
    seed : of the devices that are drawn
    how : deadline, until, model and enough of :class:`aoi_fl.science.clock.RoundClock`

    Raises
    ------
    ConfigError : there is no such trace, or a model is to be loaded and the trace has no bandwidths.
    """
    import numpy as np

    from aoi_fl.engine.traces import make_trace, too_few
    from aoi_fl.science.clock import RoundClock

    sizes = population.sizes.astype(float)
    trace = make_trace(clock, len(sizes), seed)
    if how["model"] and np.isinf(trace.download).all() and np.isinf(trace.upload).all():
        allowed = f"left out: the devices of clock {clock} load a model in no time"
        raise ConfigError("model-bytes", how["model"], allowed, "Leave it out, or use a trace with bandwidths.")
    made = RoundClock(trace.devices(float(sizes.mean())), sizes, seed=seed, **how)
    fastest = float(made.seconds.min())
    if wanted and (few := too_few(trace, *wanted)):
        print(f"aoi: {few}", file=sys.stderr)
    if fastest > made.deadline:
        why = f"the deadline is {made.deadline:g} s, and the fastest of the clients takes {fastest:.4g} s"
        print(f"aoi: {why}: no client can meet it. Raise it.", file=sys.stderr)
    return made


def cost_of(clock: RoundClock, history: History) -> dict[str, float]:
    """Return the time that the rounds took, and the devices' work, by names that end in their unit."""
    return {
        "simulated_hours": clock.now / 3600,
        "seconds_a_round": clock.now / history.rounds,
        "device_hours": clock.worked / 3600,
        "device_hours_in_vain": clock.wasted / 3600,
    }
