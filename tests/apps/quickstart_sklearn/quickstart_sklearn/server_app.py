"""The server: federated averaging of scikit-learn's parameters."""

import json

import joblib
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart_sklearn.task import create, images, parameters, take

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Fit the model and save it."""
    model = create()
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=1.0)
    result = strategy.start(
        grid=grid, initial_arrays=ArrayRecord(parameters(model)), num_rounds=context.run_config["rounds"]
    )
    take(model, result.arrays.to_numpy_ndarrays())
    joblib.dump(model, "logreg_model.pkl")
    evaluated = {number: metrics["accuracy"] for number, metrics in result.evaluate_metrics_clientapp.items()}
    print("RESULT", json.dumps({"error": 1 - model.score(*images(None)), "evaluated": evaluated}), flush=True)
