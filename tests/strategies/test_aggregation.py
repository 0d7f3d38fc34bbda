"""Selection of ours with aggregation of Flower's, and the other way round: real strategies on the in-process engine."""

import inspect

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from aoi_fl.science.errors import ConfigError
from aoi_fl.server.engine.local import LocalGrid
from aoi_fl.strategies import RandomSelection
from aoi_fl.strategies.fedavg_arguments import chain_of
from tests.fakes import ToyApp, honest_app, model, record_of, zeros
from tests.refusals import refused

N = 5


def run(strategy, folder, rounds=1, app=None, start=None, **how):
    """Run rounds on the in-process engine; return Flower's result."""
    grid = LocalGrid(app or honest_app(), {"runs-dir": str(folder)}, N)
    return strategy.start(grid, start or model(), rounds, **how)


def test_every_argument_of_fedavg_is_taken_or_refused_by_name():
    default = flower.FedAvg()
    for name in inspect.signature(flower.FedAvg).parameters:
        try:
            RandomSelection(2, **{name: getattr(default, name)})
        except ConfigError as error:
            assert error.key == name


def test_the_arguments_of_fedavg_keep_their_meaning(tmp_path):
    asked = []

    def together(records, key):
        asked.append((len(records), key, sorted(records[0]["metrics"])))
        return MetricRecord({"most": max(r["metrics"]["loss"] for r in records)})

    how = {"train_metrics_aggr_fn": together, "evaluate_metrics_aggr_fn": together}
    strategy = RandomSelection(4, fraction_evaluate=0.6, min_available_nodes=N, **how)
    result = run(strategy, tmp_path)
    assert asked == [
        (4, "num-examples", ["loss", "num-examples"]),
        (3, "num-examples", ["accuracy", "loss", "num-examples"]),
    ]
    assert "most" in result.train_metrics_clientapp[1] and "most" in result.evaluate_metrics_clientapp[1]
    assert strategy._run.needs == N


@pytest.mark.parametrize("dtype", ["complex64", "<U3"])
def test_a_model_without_a_mean_is_refused_before_round_1(dtype, tmp_path):
    with refused("array 'w' of the model"):
        run(RandomSelection(N), tmp_path, start=record_of({"w": np.zeros(3, dtype)}))


def test_a_strategy_plays_one_run(tmp_path):
    strategy = RandomSelection(3)
    run(strategy, tmp_path)
    with refused("strategy", "RandomSelection"):
        run(strategy, tmp_path)


class HalvingChoice(RandomSelection):
    """Halves the rate of learning and of evaluation each round, as strategies do in Flower's loop."""

    def configure_train(self, server_round, arrays, config, grid):
        config["lr"] = config.get("lr", 1.0) / 2
        return super().configure_train(server_round, arrays, config, grid)

    def configure_evaluate(self, server_round, arrays, config, grid):
        config["lr"] = config.get("lr", 4.0) / 2
        return super().configure_evaluate(server_round, arrays, config, grid)


@pytest.mark.parametrize("given", [None, {"lr": 8.0}])
def test_a_strategys_configuration_persists_to_the_next_round(given, tmp_path):
    seen = []

    def note(message, act, kind, round_, client):
        if client == 0 and kind != "query.hello":
            seen.append(message.content["config"]["lr"])
        return act()

    configs = {key: given and ConfigRecord(given) for key in ("train_config", "evaluate_config")}
    run(HalvingChoice(N), tmp_path, 3, ToyApp(evaluates=1.0, spoil=note), **configs)
    assert seen == ([4.0, 4.0, 2.0, 2.0, 1.0, 1.0] if given else [0.5, 2.0, 0.25, 1.0, 0.125, 0.5])


def test_the_configuration_of_a_round_reaches_the_client(tmp_path):
    seen = []

    def note(message, act, kind, round_, client):
        if (kind, round_) == ("train", 2):
            seen.append(dict(message.content["config"]))
        return act()

    strategy, given = RandomSelection(N, configure=lambda round_: {"lr": 1 / round_}), {"lr": 9.0, "word": "x"}
    run(strategy, tmp_path, 2, ToyApp(spoil=note), train_config=ConfigRecord(given))
    assert seen == [{"lr": 0.5, "word": "x", "server-round": 2}] * N


class Personal(flower.FedAvg):
    """Its messages are of types of their own."""

    kinds = ("train.personal", "evaluate.personal")

    def configure_train(self, *arguments):
        return self._of(self.kinds[0], super().configure_train(*arguments))

    def configure_evaluate(self, *arguments):
        return self._of(self.kinds[1], super().configure_evaluate(*arguments))

    def _of(self, kind, messages):
        return [Message(m.content, m.metadata.dst_node_id, kind) for m in messages]


def test_message_types_of_a_strategy_reach_the_client(tmp_path):
    app = honest_app()
    app.train("personal")(app._fit)
    app.evaluate("personal")(app._judge)
    result = run(RandomSelection(N, aggregation=Personal()), tmp_path, app=app)
    kinds = [kind for kind, *_ in app.sent]
    assert kinds[-2 * N :] == [Personal.kinds[0]] * N + [Personal.kinds[1]] * N
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5


def test_a_type_of_message_that_does_not_train_is_refused(tmp_path):
    strategy = Personal()
    strategy.kinds = ("query.personal", "evaluate")
    with refused("aggregation", "Personal"):
        run(RandomSelection(N, aggregation=strategy), tmp_path)


class Scaffold(flower.FedAvg):
    """Sends a control variate beside the model, and takes the clients' mean of it back."""

    def __init__(self):
        super().__init__()
        self.control, self.names = 0.0, []

    def configure_train(self, *arguments):
        messages = list(super().configure_train(*arguments))
        for message in messages:
            message.content["control"] = record_of({"c": self.control})
        return messages

    def aggregate_train(self, server_round, replies):
        replies = [reply for reply in replies if not reply.has_error()]
        self.names.append([sorted(reply.content) for reply in replies])
        self.control = float(np.mean([reply.content.pop("control")["c"].numpy() for reply in replies]))
        return super().aggregate_train(server_round, replies)


@pytest.mark.parametrize("deviates", [False, True])
def test_other_records_reach_the_strategy_by_name(deviates, tmp_path, caplog):
    """A record or metric of one client alone is left out, and ends no run."""

    def spoil(message, act, kind, round_, client):
        if kind != "train":
            return act()
        control = message.content["control"]["c"].numpy() + 0.5
        content = (reply := act()).content
        content["control"] = record_of({"c": control})
        if client == 0 and deviates:
            content["extra"] = zeros()
            content["metrics"]["rare"] = 1.0
            content["weights"] = content.pop("metrics")
        return reply

    strategy = Scaffold()
    make = RandomSelection(N, aggregation=strategy, fraction_evaluate=0.0)
    result = run(make, tmp_path, 3, ToyApp(spoil=spoil), start=zeros())
    assert strategy.control == 1.5 and strategy.names == [[["arrays", "control", "metrics"]] * N] * 3
    assert result.arrays["w"].numpy().tolist() == [3.0, 3.0]
    said = [m for m in caplog.messages if "Left out" in m]
    assert len(said) == deviates and all("'rare'" in m and "'extra'" in m for m in said)


class SaveTheBest(Strategy):
    """A wrapper of a user, which calls what it wraps as it likes."""

    def __init__(self, inner):
        self.inner = inner
        for step in ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate", "summary"):
            setattr(self, step, getattr(inner, step))

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = summary = None


def test_any_attribute_of_a_wrapper_may_hold_the_strategy(tmp_path):
    inner = flower.FedAdam(eta=0.1)
    outer = SaveTheBest(inner)
    assert chain_of(outer) == [outer, inner]  # else it waits for ever
    run(RandomSelection(1, aggregation=outer), tmp_path, app=ToyApp(evaluates=1.0), start=zeros())
    assert inner.min_available_nodes == 2 and inner.m_t
