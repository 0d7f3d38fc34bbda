"""The server: federated averaging of a linear model."""

import json

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart_numpy.client_app import TRUTH

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Fit the model and print how far it is from the truth."""
    strategy = FedAvg(fraction_train=0.5, min_available_nodes=6)
    result = strategy.start(
        grid,
        initial_arrays=ArrayRecord([np.zeros(3)]),
        num_rounds=context.run_config["rounds"],
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
    )
    (slope,) = result.arrays.to_numpy_ndarrays()
    evaluated = {number: metrics["eval_loss"] for number, metrics in result.evaluate_metrics_clientapp.items()}
    error = float(np.abs(slope - TRUTH).max())
    print("RESULT", json.dumps({"error": error, "evaluated": evaluated}), flush=True)
