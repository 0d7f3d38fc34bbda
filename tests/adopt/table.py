"""Flower's own examples and strategies, each with the app that stands for it and how it is adopted."""

from dataclasses import dataclass, field

from tests.adopt.adoption import COUNTING, FEDAVG, OTHER, OWN


@dataclass(frozen=True)
class Row:
    """One of Flower's examples or strategies.

    ``server`` are phrases of an app's server in tests/apps, and what is written in their place to make the stock app;
    ``names`` are those to read in place of a chapter's own; ``error`` is what the app's own measure must stay below,
    adopted or not.
    """

    app: str
    chapter: str
    error: float
    config: dict[str, int | float]
    server: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def _strategy(name, arguments, rounds, chapter=OTHER, error=0.05, liar=-1):
    stock = {"import FedAvg": f"import {name}"}
    stock["FedAvg(fraction_train=0.5, min_available_nodes=6)"] = f"{name}({arguments})"
    example = "Krum" if chapter == COUNTING else "FedAdam"
    config = {"rounds": rounds, "liar": liar, "lr": 0.2}
    return Row("quickstart_numpy", chapter, error, config, stock, names={example: name})


# The server of the advanced app with a strategy of Flower's own.
PLAIN = {
    "advanced_pytorch.strategy import KeepsTheBest": "flwr.serverapp.strategy import FedAvg",
    "KeepsTheBest": "FedAvg",
    'torch.load("best_model.pt")': "result.arrays.to_torch_state_dict()",
    "strategy.best": 'result.evaluate_metrics_serverapp[context.run_config["rounds"]]["accuracy"]',
}
ROWS = {
    "quickstart-numpy": Row("quickstart_numpy", FEDAVG, 0.01, {"rounds": 8, "lr": 0.2}),
    "quickstart-sklearn": Row("quickstart_sklearn", FEDAVG, 0.2, {"rounds": 6}),
    "quickstart-pytorch": Row("advanced_pytorch", FEDAVG, 0.2, {"rounds": 8, "lr": 0.1}, PLAIN),
    "advanced-pytorch": Row("advanced_pytorch", OWN, 0.2, {"rounds": 8, "lr": 0.2}),
    "FedProx": _strategy("FedProx", "proximal_mu=0.5", 8),
    "FedAdam": _strategy("FedAdam", "eta=0.3", 25, error=0.3),
    "FedYogi": _strategy("FedYogi", "eta=0.3", 25, error=0.3),
    "FedAdagrad": _strategy("FedAdagrad", "eta=0.5", 25, error=0.3),
    "FedAvgM": _strategy("FedAvgM", "server_momentum=0.3", 10),
    # Three of ten a round would leave the lower half of a trimmed mean nobody to trim.
    "FedMedian": _strategy("FedMedian", "", 6, COUNTING, liar=3),
    "FedTrimmedAvg": _strategy("FedTrimmedAvg", "beta=0.2", 6, COUNTING, liar=3),
    "Krum": _strategy("Krum", "num_malicious_nodes=1", 6, COUNTING, liar=3),
    "MultiKrum": _strategy("MultiKrum", "num_malicious_nodes=1, num_nodes_to_select=2", 6, COUNTING, liar=3),
    "FedXgbBagging": Row("xgboost_bagging", OTHER, 0.1, {"rounds": 5}, names={"FedAdam": "FedXgbBagging"}),
}
