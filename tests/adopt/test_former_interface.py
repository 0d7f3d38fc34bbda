"""Apps of Flower's former interface: each is refused with what takes its place, at the place where it is made."""

import flwr.clientapp
import numpy as np
import pytest
from flwr.client import NumPyClient
from flwr.server import ServerApp, ServerAppComponents, ServerConfig

from aoi_fl.client import ClientApp, attach
from aoi_fl.science.errors import ConfigError, NothingTrainedError
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.server.engine.local_run import run_local
from aoi_fl.strategies import RandomSelection, RoundOptions
from tests.fakes import ToyApp, zeros
from tests.refusals import refused


class Former(NumPyClient):
    def fit(self, parameters, config):
        return parameters, 5, {}


def client_fn(context):
    return Former().to_client()


def policy(**settings):
    return RandomSelection(2, options=RoundOptions(run="former", seed=1), **settings)


def start(app, model=None):
    return policy().start(LocalGrid(app, {}, 3), zeros() if model is None else model, 1)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClientApp(client_fn),
        lambda: ClientApp(client_fn=client_fn, mods=[]),
        lambda: attach(flwr.clientapp.ClientApp(client_fn)),
    ],
)
def test_a_client_fn_is_refused_where_it_is_given(make):
    with pytest.raises(ConfigError, match=r"client_fn.*@app\.train\(\)"):
        make()


@pytest.mark.parametrize("returned", [([np.zeros(2)], 5, {}), None, {"loss": 1.0}, [np.zeros(2)]], ids=str)
def test_a_function_that_returns_no_message_is_named(returned):
    for app in (ClientApp(), flwr.clientapp.ClientApp()):
        app.train()(lambda message, context: returned)
        what = r"the function for train returned is .*must be a Message"
        with pytest.raises(NothingTrainedError, match=what) as found:
            start(attach(app))
        assert ".py:" not in str(found.value)  # which would be a file of ours


def test_components_of_a_server_are_refused():
    app = ServerApp(server_fn=lambda context: ServerAppComponents(strategy=policy(), config=ServerConfig(num_rounds=1)))
    with pytest.raises(ConfigError, match=r"ServerAppComponents.*@app\.main\(\)"):
        run_local(app, ToyApp(), {}, nodes=3)


def test_a_model_that_is_no_record_is_refused():
    with refused("initial_arrays", allowed="an ArrayRecord"):
        start(ToyApp(), [np.zeros(2)])
