"""The rounds of :mod:`aoi_fl.lab.benchmarks.pfl` in pfl's simulator, run in pfl's environment."""

import json
import sys
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn.functional import cross_entropy


class TwoNN(nn.Module):
    """The 2NN of McMahan et al. (2017), 784-200-200-10, with pfl's interface."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
        )

    def loss(self, x, y, eval=False):
        """Return the mean cross-entropy."""
        return cross_entropy(self.layers(x), y.long())  # pfl passes every array as float32

    @torch.no_grad()
    def metrics(self, x, y, eval=False):
        """Return the accuracy."""
        return {"accuracy": Weighted(int((self.layers(x).argmax(1) == y).sum()), len(y))}


class RoundTimes(TrainingProcessCallback):
    """Measures the time of every round."""

    def on_train_begin(self, *, model):
        """Start the first round's clock."""
        self.seconds = []
        self._since = time.perf_counter()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Stop a round's clock and start the next."""
        now = time.perf_counter()
        self.seconds.append(now - self._since)
        self._since = now
        return False, Metrics()


def main(path):
    """Run the rounds of a file of settings, and print their seconds, peak memory and accuracy."""
    given = np.load(path, allow_pickle=False)
    how = json.loads(str(given["how"]))
    torch.set_num_threads(how["threads"])
    torch.manual_seed(how["seed"])
    x, y, parts = given["x"], given["y"].astype(np.int64), given["parts"]
    clients = {str(i): Dataset([x[part], y[part]], user_id=str(i)) for i, part in enumerate(parts)}
    data = FederatedDataset(clients.__getitem__, get_user_sampler("random", list(clients)))
    inner = TwoNN()
    model = PyTorchModel(inner, torch.optim.SGD, torch.optim.SGD(inner.parameters(), lr=1.0))
    clock = RoundTimes()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=how["rounds"],
            evaluation_frequency=how["rounds"] + 1,
            train_cohort_size=how["per-round"],
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data),
        model,
        NNTrainHyperParams(
            local_num_epochs=how["epochs"], local_learning_rate=how["rate"], local_batch_size=how["batch"]
        ),
        NNEvalHyperParams(local_batch_size=1000),
        [clock],
    )
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024
    with torch.no_grad():
        right = inner.layers(torch.from_numpy(given["test_x"])).argmax(1) == torch.from_numpy(given["test_y"])
    print(json.dumps({"seconds": clock.seconds, "peak": peak, "accuracy": float(right.float().mean())}))


if __name__ == "__main__":
    main(sys.argv[1])
