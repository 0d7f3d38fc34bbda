"""A stock ServerApp with FedAvg; it writes down what has arrived."""

import json
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Noting(FedAvg):
    norms, secrets = [], 0

    def aggregate_train(self, server_round, replies):
        for reply in replies:
            if reply.has_error():
                continue
            values = [a.ravel() for a in reply.content["arrays"].to_numpy_ndarrays()]
            self.norms.append(float(np.linalg.norm(np.concatenate(values))))
            self.secrets += "secret" in reply.content["metrics"]
        return ArrayRecord([np.zeros(3)]), None


@app.main()
def main(grid, context):
    strategy = Noting(min_train_nodes=1, min_available_nodes=1, fraction_train=1.0, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=int(context.run_config["rounds"]))
    found = {"norms": strategy.norms, "secrets": strategy.secrets}
    Path(context.run_config["out"]).write_text(json.dumps(found))
