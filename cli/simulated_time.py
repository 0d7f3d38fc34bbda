"""The simulated time of ``aoi simulate``: the devices' clock and the cost of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from aoi_fl.science.errors import ConfigError

if TYPE_CHECKING:
    from aoi_fl.lab.simulated_time.round_clock import RoundClock
    from aoi_fl.science.history import History
    from aoi_fl.science.selection import Population


def make_clock(
    clock: str, population: Population, wanted: tuple[int, float] | None, seed: int, **how: Any
) -> RoundClock:
    """Make the devices' clock; a mean training processes the clients' mean number of examples.

    Parameters
    ----------
    clock : a trace's name or file
    population : the clients; the smaller their mean size, the longer an example takes
    wanted : k and the factor of over-selection, for a warning if fewer are available; None under a budget
    seed : seed of the random devices
    how : deadline, until, model and enough of :class:`aoi_fl.lab.simulated_time.round_clock.RoundClock`

    Raises
    ------
    ConfigError : the trace does not exist, or a model's size is given and the trace has no bandwidths.
    """
    import numpy as np

    from aoi_fl.lab.simulated_time.round_clock import RoundClock
    from aoi_fl.lab.simulated_time.traces import make_trace, too_few

    sizes = population.sizes.astype(float)
    trace = make_trace(clock, len(sizes), seed)
    if how["model"] and np.isinf(trace.download).all() and np.isinf(trace.upload).all():
        allowed = f"left out: the devices of clock {clock} load a model in no time"
        raise ConfigError("model-bytes", how["model"], allowed, "Leave it out, or use a trace with bandwidths.")
    round_clock = RoundClock(trace.devices(float(sizes.mean())), sizes, seed=seed, **how)
    fastest = float(round_clock.seconds.min())
    if wanted and (few := too_few(trace, *wanted)):
        print(f"aoi: {few}", file=sys.stderr)
    if fastest > round_clock.deadline:
        why = f"the deadline is {round_clock.deadline:g} s, and the fastest of the clients takes {fastest:.4g} s"
        print(f"aoi: {why}: no client can meet it. Raise it.", file=sys.stderr)
    return round_clock


def cost_of(clock: RoundClock, history: History) -> dict[str, float]:
    """Return the rounds' time and the devices' work, by names with their units."""
    return {
        "simulated_hours": clock.now / 3600,
        "seconds_a_round": clock.now / history.rounds,
        "device_hours": clock.worked / 3600,
        "device_hours_in_vain": clock.wasted / 3600,
    }
