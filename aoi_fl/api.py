"""Runs from Python: start one, load one, and get its tables and charts.

>>> import aoi_fl
>>> run = aoi_fl.run(policy="markov-optimal", num_clients=20, clients_per_round=3)  # doctest: +SKIP
>>> run.rounds[["round", "test_accuracy"]], run.plot_load()  # doctest: +SKIP
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoi_fl.config.presets import PRESET
from aoi_fl.science.errors import ConfigError, install

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects  # type: ignore[import-untyped]

    from aoi_fl.report.runs import RecordedRun as Recorded
    from aoi_fl.server.observe import OnRound

__all__ = ["Run", "compare", "load", "run"]


def run(
    policy: str = "markov-optimal",
    *,
    workers: int = 1,
    quiet: bool = True,
    on_round: OnRound | None = None,
    **keys: Any,
) -> Run:
    """Run a federation of simulated clients on this machine.

    Parameters
    ----------
    policy : selection policy
    workers : processes in which clients train, 1 or more
    quiet : whether the log shows errors only
    on_round : called after each round with its row of ``rounds`` as a dictionary; a true value ends the run as
        complete, a text is the reason. An exception ends it as failed and reaches you.
    keys : run keys, with ``_`` for ``-``: ``num_clients=20``, ``dataset="csv:patients.csv"``

    Returns
    -------
    Run
        The recorded run, whatever its status.

    Raises
    ------
    ConfigError
        A key or value is wrong; nothing has started.
    """
    from aoi_fl.config.run import RunConfig
    from aoi_fl.server.app import app as server_app
    from aoi_fl.server.engine.local_run import run_local
    from aoi_fl.server.folder import run_folder
    from aoi_fl.server.observe import HOOK
    from aoi_fl.server.sources import named_clients, settled

    keys = {key.replace("_", "-"): value for key, value in keys.items()}
    given = {"preset": PRESET, "policy": policy, **keys}
    chosen = RunConfig.parse(given | named_clients(given))
    values = settled(chosen.flat())
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR if quiet else logging.INFO)
    hook = HOOK.set(on_round)
    try:
        with run_folder(Path(str(values["runs-dir"])), chosen.run_name, chosen.policy, chosen.dataset) as folder:
            values["run-name"] = folder.name
            run_local(server_app, "aoi_fl.learning.client_app:app", values, nodes=chosen.num_clients, workers=workers)
    finally:
        HOOK.reset(hook)
        logger.setLevel(level)
    return Run(folder)


def compare(
    policies: str | Sequence[str],
    *,
    seeds: int = 5,
    workers: int = 1,
    level: float | None = None,
    quiet: bool = True,
    **keys: Any,
) -> pandas.DataFrame:
    """Compare policies in pairs of equal seeds, as ``aoi compare`` does.

    Parameters
    ----------
    policies : their names
    seeds : runs of each setting, with the seeds 1 to this
    workers : processes that run in parallel
    level : accuracy or RMSE to reach; None: the best that every run reaches
    quiet : whether stderr shows no progress
    keys : run keys, with ``_`` for ``-``; a text with commas is a sweep: ``learning_rate="0.1,0.5"``

    Returns
    -------
    DataFrame
        A row for each pair and quantity: ``setting``, ``against``, ``seeds``, ``quantity``, the paired ``difference``
        with its 95 % interval from ``low`` to ``high``, the ``margin`` of equality, ``conclusion`` and ``note``.
        ``attrs`` has ``target``, ``yardstick``, ``worst`` (the worst tenth of the clients) and ``runs``, a row a run.

    Raises
    ------
    ConfigError
        A policy, key or value is wrong; nothing has started.
    """
    pandas = _needed("pandas", "DataFrames", "data")
    from aoi_fl.cli.compare import complete, plain
    from aoi_fl.lab.experiments import comparing
    from aoi_fl.lab.experiments.harness import comparison
    from aoi_fl.report.runs import load as read

    names = policies if isinstance(policies, str) else ",".join(policies)
    given = {key.replace("_", "-"): str(value) for key, value in keys.items()}
    folders = complete(comparing.plan(names, seeds, given), workers, quiet=quiet)
    result = plain(comparison.compare([read(folder, folder.name) for folder in folders], level))
    rows = [
        {
            "setting": pair["second"],
            "against": pair["first"],
            "seeds": len(pair["seeds"]),
            **{{"mean": "difference", "word": "conclusion"}.get(key, key): value for key, value in found.items()},
        }
        for pair in result.pop("pairs")
        for found in pair["findings"]
    ]
    frame = pandas.DataFrame(rows)
    frame.attrs.update(result)
    return frame


def load(name: str | Path) -> Run:
    """Load a recorded run by its folder or by its name under ``runs``.

    Raises
    ------
    ConfigError
        There is no such run, or its ledger cannot be read.
    """
    from aoi_fl.report.runs import find

    loaded = Run(find(str(name)))
    loaded.recorded  # noqa: B018, a damaged ledger is named now
    return loaded


@dataclass(frozen=True)
class Run:
    """A recorded run: its configuration, its numbers, its tables and its charts.

    Attributes
    ----------
    folder : of the run, with its ledger
    """

    folder: Path

    @cached_property
    def recorded(self) -> Recorded:
        """The run as arrays, read once."""
        from aoi_fl.report.runs import load as read

        return read(self.folder, self.folder.name)

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.folder.name

    @property
    def status(self) -> str:
        """``completed``, ``running``, ``interrupted``, ``stopped`` or ``failed``."""
        return self.recorded.status

    @property
    def config(self) -> Mapping[str, Any]:
        """Every run key with its value."""
        return self.recorded.config

    @property
    def numbers(self) -> Mapping[str, Any]:
        """Key numbers, as ``aoi report --json`` prints them; None stands for what was not measured."""
        from aoi_fl.report.tables import numbers

        return numbers(self.recorded)

    @property
    def rounds(self) -> pandas.DataFrame:
        """One row a round: participants, losses, accuracy, seconds, …."""
        return self._frame("rounds")

    @property
    def participations(self) -> pandas.DataFrame:
        """One row for each client in each round in which it trained, declined or was dropped."""
        return self._frame("participations")

    @property
    def clients(self) -> pandas.DataFrame:
        """One row a client: number, name, examples, …."""
        return self._frame("clients")

    def plot_accuracy(self, *others: Run) -> plotly.graph_objects.Figure:
        """Plot the accuracy, or RMSE, over the rounds, beside that of other runs."""
        from aoi_fl.report.measure import judge

        return self._plot(judge(self.recorded.rounds).column.replace("_", "-"), *others)

    def plot_load(self, *others: Run) -> plotly.graph_objects.Figure:
        """Plot how often each client took part, beside other runs."""
        return self._plot("counts", *others)

    def plot_participations(self) -> plotly.graph_objects.Figure:
        """Plot which client took part in which round."""
        return self._plot("participation-0")

    def _frame(self, table: str) -> pandas.DataFrame:
        pandas = _needed("pandas", "DataFrames", "data")
        return pandas.DataFrame(getattr(self.recorded, table)).dropna(axis=1, how="all")

    def _plot(self, name: str, *others: Run) -> plotly.graph_objects.Figure:
        plotly = _needed("plotly.graph_objects", "charts", "report")
        from aoi_fl.report.figures import figures
        from aoi_fl.report.template import light_palette

        charts = {chart.name: chart for chart in figures([self.recorded, *(other.recorded for other in others)])}
        if name not in charts:
            raise ConfigError("chart", name, tuple(charts), "This run has nothing to plot there. Choose one of these.")
        chart, palette = charts[name], light_palette()
        layout = chart.layout | {"title": {"text": chart.title}, "margin": {"t": 48}, "showlegend": bool(others)}
        return plotly.Figure(_coloured(chart.data, palette), _coloured(layout, palette))


def _needed(module: str, purpose: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        name, remedy = module.partition(".")[0], f"Install it: {install(extra)}."
        raise ConfigError(name, None, f"installed for {purpose}", remedy) from error


def _coloured(value: Any, palette: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return palette.get(value, value)
    if isinstance(value, list):
        return [_coloured(item, palette) for item in value]
    if isinstance(value, dict):
        return {key: _coloured(item, palette) for key, item in value.items() if key != "meta"}
    return value
