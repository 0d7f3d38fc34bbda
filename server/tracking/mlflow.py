"""MLflow: a database ``mlflow.db`` in the run's folder.

``mlflow ui --backend-store-uri sqlite:///runs/NAME/mlflow.db`` shows it; this needs the full MLflow package.
"""

import os
import time
from collections.abc import Mapping

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before the import, so that it does not use the network

from mlflow.entities import Metric, Param, ViewType
from mlflow.tracking import MlflowClient

from aoi_fl.server.tracking.base import Tracker

_STATUS = {"completed": "FINISHED", "interrupted": "KILLED"}
_MOST = 100  # parameters that MLflow takes at once
_LONGEST = 6000  # characters that MLflow takes of a parameter's value


class MLflow(Tracker):
    """Logs each number of a round as a metric, and the configuration as parameters."""

    tool, files = "MLflow", ("mlflow.db*",)

    def _begin(self) -> int:
        self._client = MlflowClient(tracking_uri=f"sqlite:///{self.folder / 'mlflow.db'}")
        experiment = self._client.get_experiment_by_name("aoi-fl")
        if experiment is None:
            number = self._client.create_experiment("aoi-fl", artifact_location=(self.folder / "mlflow").as_uri())
        else:
            number = experiment.experiment_id
        parameters = {key: str(value)[:_LONGEST] for key, value in sorted(self._config.items())}
        for run in self._client.search_runs([number], run_view_type=ViewType.ACTIVE_ONLY):
            self._run = run.info.run_id
            if run.data.params != parameters:  # an extended run; MLflow changes no parameter
                self._client.delete_run(self._run)
                continue
            self._client.update_run(self._run, status="RUNNING")
            steps = [int(metric.step) for metric in self._client.get_metric_history(self._run, "seconds")]
            return max(steps, default=0)
        self._run = self._client.create_run(number, run_name=self.name).info.run_id
        pairs = [Param(key, value) for key, value in parameters.items()]
        for begin in range(0, len(pairs), _MOST):
            self._client.log_batch(self._run, params=pairs[begin : begin + _MOST])
        return 0

    def _log(self, round_: int, values: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        self._client.log_batch(self._run, [Metric(name, value, now, round_) for name, value in values.items()])

    def _end(self, status: str) -> None:
        self._client.set_terminated(self._run, _STATUS.get(status, "FAILED"))
