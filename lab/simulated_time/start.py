"""The start of a run by simulated time: its devices, and the grid that goes by their clock."""

from collections.abc import Mapping

from aoi_fl.config.keys import over_selected
from aoi_fl.config.policies import BUDGETED, users_of
from aoi_fl.flower.messages import RunValue
from aoi_fl.lab.simulated_time.clocked_grid import ClockedGrid
from aoi_fl.lab.simulated_time.devices import DeviceTrace
from aoi_fl.lab.simulated_time.traces import drawn_start, make_trace, too_few, too_few_decide
from aoi_fl.protocol.log import logger

__all__ = ["ClockedGrid", "trace_of"]


def trace_of(run_config: Mapping[str, RunValue], nodes: int) -> DeviceTrace:
    """Return the devices of the run key ``clock``, from the first second on; warn if too few are available.

    Raises
    ------
    ConfigError : the clock names no valid trace.
    """
    clock, seed = str(run_config["clock"]), int(run_config.get("seed", 0))
    start = float(run_config.get("clock-start", 0.0))
    trace = make_trace(clock, nodes, seed).starting(start if start >= 0 else drawn_start(clock, seed))
    policy = str(run_config.get("policy"))
    per_round, factor = int(run_config.get("clients-per-round", 0)), float(run_config.get("over-selection", 1.0))
    if policy not in BUDGETED and (few := too_few(trace, per_round, factor)):
        logger.warning("%s", few)
    decide = policy in users_of("coordination") and run_config.get("compensate") != "availability"
    if decide and (few := too_few_decide(trace, over_selected(per_round, factor))):
        logger.warning("%s", few)
    return trace
