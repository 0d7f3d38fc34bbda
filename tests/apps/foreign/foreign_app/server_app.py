"""The server: federated averaging of a linear model."""

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from foreign_app.client_app import TRUTH

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Fit the model and print how far it is from the truth."""
    initial = ArrayRecord({"slope": Array(np.zeros(3))})
    strategy = FedAvg(fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=6)
    result = strategy.start(
        grid,
        initial,
        num_rounds=context.run_config["rounds"],
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
    )
    slope = result.arrays["slope"].numpy()
    clients = {number: metrics["train_loss"] for number, metrics in result.train_metrics_clientapp.items()}
    print("RESULT", json.dumps({"distance": float(np.abs(slope - TRUTH).max()), "losses": clients}), flush=True)
