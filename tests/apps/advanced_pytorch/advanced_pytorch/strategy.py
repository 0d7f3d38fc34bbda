"""Federated averaging that keeps the best model."""

from collections.abc import Callable, Iterable

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result


class KeepsTheBest(FedAvg):
    """Halves the learning rate every second round, and saves the model whenever it is better than all before."""

    best = 0.0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Lower the rate, then choose as ever."""
        if server_round % 2 == 0:
            config["lr"] *= 0.5
        return super().configure_train(server_round, arrays, config, grid)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Play the rounds, and write down what is best."""

        def judge(number: int, arrays: ArrayRecord) -> MetricRecord | None:
            metrics = None if evaluate_fn is None else evaluate_fn(number, arrays)
            if number and metrics is not None:
                self._keep(metrics["accuracy"], arrays)
            return metrics

        return super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, judge)

    def _keep(self, accuracy: float, arrays: ArrayRecord) -> None:
        if accuracy > self.best:
            self.best = accuracy
            torch.save(arrays.to_torch_state_dict(), "best_model.pt")
