"""The server: two rounds with both clients; the file ``out`` then says what became of them and of the model."""

import json
from pathlib import Path

import flwr
import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from aoi_fl.flower.grids import uploads
from aoi_fl.strategies import RandomSelection, RoundOptions
from deployed_app.client import TRUTH

app = ServerApp()


class Notes:
    """Keeps what became of each client in each round: ``trained``, or why not."""

    def __init__(self):
        self.rounds = []

    def clients_seen(self, clients):
        """Keep nothing of who is met."""

    def round_done(self, record, arrays, memory):
        """Note a round."""
        self.rounds.append({p.name: p.reason or p.outcome for p in record.participations})


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play two rounds and write down how they went."""
    notes = Notes()
    strategy = RandomSelection(
        2,
        options=RoundOptions(run="deployed", join_timeout=200.0, ask_timeout=200.0, train_timeout=200.0),
        observer=notes,
    )
    result = strategy.start(grid, ArrayRecord([np.zeros(3)]), 2)
    (slope,) = result.arrays.to_numpy_ndarrays()
    said = {"flower": flwr.__version__, "rounds": notes.rounds, "uploads": uploads(grid)}
    said["error"] = float(np.abs(slope - TRUTH).max())
    out = Path(context.run_config["out"])
    out.with_suffix(".part").write_text(json.dumps(said))
    out.with_suffix(".part").rename(out)
