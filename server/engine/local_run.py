"""Run a Flower app on this machine without Ray, with clients in this process or in workers."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from aoi_fl.client.state import written_together
from aoi_fl.flower.messages import SERVER_NODE, RunValue, context
from aoi_fl.science.errors import ConfigError
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.engine.machine import check, check_main
from aoi_fl.server.engine.worker_grid import WorkerGrid
from aoi_fl.server.engine.worker_pool import Workers
from aoi_fl.server.engine.worker_process import load


def run_local(
    server_app: ServerApp,
    client_app: ClientApp | str,
    run_config: Mapping[str, RunValue],
    *,
    nodes: int,
    workers: int = 1,
) -> None:
    """Run a Flower app to its end on this machine; exceptions of the ServerApp propagate.

    Parameters
    ----------
    server_app : runs the rounds, in this process
    client_app : the app of every client, or ``"module:attribute"``, which several workers need
    run_config : the flat run configuration; ``threads`` sets those of each process, ``clock`` the trace of
        devices (:mod:`aoi_fl.lab.simulated_time.traces`), ``clock-start`` its first second, ``seed`` its random draws
    nodes : number of clients
    workers : number of processes in which clients train and evaluate; 1: this process

    Raises
    ------
    ConfigError : there are fewer cores than ``workers`` times ``threads``. One worker that resumes a run
        may have as many threads as that run. Or the clock names no valid trace, or is set with several workers.
    """
    threads = int(run_config.get("threads", 1))
    if workers > 1 or not run_config.get("resume"):  # a resumed run keeps its threads, and so its results
        check(workers, threads)
    clock = str(run_config.get("clock", ""))
    if clock and workers > 1:
        raise ConfigError("clock", clock, f"run with --workers 1, and --workers is {workers}", "Leave one of them out.")
    simulated: Any = import_module("aoi_fl.lab.simulated_time.start") if clock else None
    trace = simulated.trace_of(run_config, nodes) if clock else None
    if workers > 1:
        check_main(workers)
    app = load(client_app) if isinstance(client_app, str) else client_app
    with ExitStack() as stack:
        if (torch := sys.modules.get("torch")) is not None:  # the run sets its own number
            stack.callback(torch.set_num_threads, torch.get_num_threads())
        write_states = stack.enter_context(written_together(alone=workers == 1))
        if trace is not None:
            grid: LocalGrid = simulated.ClockedGrid(app, run_config, nodes, trace, write_states)
        elif workers == 1:
            grid = LocalGrid(app, run_config, nodes, write_states)
        else:
            if not isinstance(client_app, str):
                raise TypeError("workers import the ClientApp themselves: give it as 'module:attribute'")
            pool = stack.enter_context(Workers(client_app, workers, threads))
            grid = WorkerGrid(app, run_config, nodes, write_states, pool)
        server_app(grid, context(grid.run.run_id, SERVER_NODE, dict(run_config)))
