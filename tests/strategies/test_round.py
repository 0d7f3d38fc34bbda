"""The configuration of a round, as it reaches real clients in the in-process engine."""

from flwr.app import ConfigRecord

from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection, RoundOptions
from tests.fakes import (
    TRAIN,
    ToyApp,
    model,
)


def test_the_configuration_of_a_round_reaches_the_client(tmp_path):
    seen = []

    def note(message, act, kind, round_, client):
        if (kind, round_) == (TRAIN, 2):
            seen.append(dict(message.content["config"]))
        return act()

    options = RoundOptions(run="c", join_timeout=0.2, evaluate_clients=0)
    strategy = RandomSelection(4, options=options, configure=lambda round_: {"lr": 1 / round_})
    grid = LocalGrid(ToyApp(spoil=note), {"runs-dir": str(tmp_path)}, 4)
    strategy.start(grid, model(), 2, train_config=ConfigRecord({"lr": 9.0, "word": "x"}))
    assert seen == [{"lr": 0.5, "word": "x", "server-round": 2}] * 4
