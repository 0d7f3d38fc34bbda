"""The server: a strategy of its own."""

import json

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp

from advanced_pytorch.strategy import KeepsTheBest
from advanced_pytorch.task import Net, evaluate, images, measure

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train the network; the strategy saves it."""
    torch.manual_seed(1)
    strategy = KeepsTheBest(fraction_train=0.5, fraction_evaluate=0.5)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": context.run_config["lr"]}),
        num_rounds=context.run_config["rounds"],
        evaluate_fn=evaluate,
    )
    saved = Net()
    saved.load_state_dict(torch.load("best_model.pt"))
    evaluated = {number: metrics["eval_acc"] for number, metrics in result.evaluate_metrics_clientapp.items()}
    assert abs(measure(saved, *images(None))[1] - strategy.best) < 1e-9
    print("RESULT", json.dumps({"error": 1 - strategy.best, "evaluated": evaluated}), flush=True)
