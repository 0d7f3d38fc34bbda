"""The server: federated averaging, and an evaluation of its own."""

import json

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart_pytorch.task import Net, evaluate

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the network and save it."""
    torch.manual_seed(1)
    strategy = FedAvg(fraction_train=0.5, fraction_evaluate=0.5)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
        num_rounds=context.run_config["rounds"],
        evaluate_fn=evaluate,
    )
    torch.save(result.arrays.to_torch_state_dict(), "final_model.pt")
    evaluated = {number: metrics["eval_acc"] for number, metrics in result.evaluate_metrics_clientapp.items()}
    accuracy = result.evaluate_metrics_serverapp[context.run_config["rounds"]]["accuracy"]
    print("RESULT", json.dumps({"error": 1 - accuracy, "evaluated": evaluated}), flush=True)
