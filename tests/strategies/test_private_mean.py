"""The private mean: clipping, divisor, noise, composition, account, secret, and all that it refuses before round 1."""

import json
import logging
import math
import secrets
import stat
from functools import partial, wraps
from itertools import pairwise

import numpy as np
import pytest
from flwr.serverapp import strategy as flower

from aoi_fl.flower.messages import failure
from aoi_fl.science.errors import ConfigError
from aoi_fl.science.privacy.account import Account, epsilon_of
from aoi_fl.science.privacy.factorisation import CorrelatedNoise, coefficients
from aoi_fl.science.selection import OldestAgeSelector
from aoi_fl.strategies import (
    AgeAwareStrategy,
    MarkovParticipation,
    Plan,
    Policy,
    PolicyTraits,
    RandomSelection,
    RoundOptions,
    SystematicParticipation,
)
from aoi_fl.strategies.aggregation.private import PrivateMean
from aoi_fl.strategies.selection.selector import OortSelection
from tests.fakes import (
    HELLO,
    MODEL,
    TRAIN,
    Notes,
    ToyApp,
    everyone,
    honest_app,
    hostile_app,
    play,
    record_of,
    steps_of,
    unchanged,
    values,
)
from tests.refusals import refused

systematic = partial(SystematicParticipation, 4, 2)
SILENT = 1e-9  # a noise multiplier that no assertion notices
KEY = bytes(range(32))


def private(rounds=2, per_round=4, **how):
    return PrivateMean(**({"clip": 1e6, "noise_multiplier": SILENT, "rounds": rounds, "per_round": per_round} | how))


def run(spec, app, folder, make=everyone, **how):
    """Play all rounds of a private mean."""
    return play(partial(make, aggregation=spec), app, folder, **{"rounds": spec.rounds} | how)


def norm(partition):
    return math.sqrt(sum(float((np.asarray(steps_of(partition)[k]) ** 2).sum()) for k in ("w", "b")))


def test_updates_are_clipped_one_at_a_time_and_divided_by_k(tmp_path):
    clip, k = 3.0, 5  # of four clients; one of them stays below the clip
    spec = private(1, k, clip=clip)
    notes = run(spec, honest_app(), tmp_path, partial(RandomSelection, k), min_clients=4)
    found = values(notes.result.arrays)
    for name in ("w", "b"):
        steps = sum(np.asarray(steps_of(p)[name]) * min(1, clip / norm(p)) for p in range(4))
        np.testing.assert_allclose(found[name], MODEL[name] + steps / k, rtol=1e-5)
        assert found[name].dtype == MODEL[name].dtype
    assert found["steps"] == MODEL["steps"]  # whole numbers stay


def test_one_client_moves_the_sum_by_a_clip_at_most(tmp_path):
    app = ToyApp(lambda array, client, round_: (array + 1e9).astype(array.dtype), examples=10**6)
    notes = run(private(1, clip=0.5), app, tmp_path)
    moved = np.concatenate([np.ravel(values(notes.result.arrays)[k] - MODEL[k]) for k in ("w", "b")])
    assert np.linalg.norm(moved) == pytest.approx(0.5, rel=1e-3)  # four of a clip each, by four


BIG = record_of({"w": np.zeros(20_000, np.float32)})


def test_the_noise_is_that_of_key_bands_and_account(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda size: KEY)
    clip, noise, rounds, bands = 2.0, 0.7, 6, 2
    spec = PrivateMean(clip, noise, rounds, per_round=2, bands=bands)
    notes = run(spec, ToyApp(unchanged), tmp_path, systematic, start=BIG)
    account = Account(2, rounds, noise, bands)
    drawn = CorrelatedNoise(KEY, coefficients(bands), account.deviation * clip, 20_000, [KEY] * rounds)
    expected = sum(drawn.of(t) for t in range(1, rounds + 1)) / 2
    np.testing.assert_allclose(values(notes.result.arrays)["w"], expected, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        flower.FedAvg,
        partial(flower.FedAvgM, server_learning_rate=1.0, server_momentum=0.5),
        partial(flower.FedAdam, eta=0.1),
    ],
)
def test_a_strategy_that_averages_makes_its_step_of_the_mean(tmp_path, make):
    arrays = record_of({k: v for k, v in MODEL.items() if k != "steps"})

    spec, equal = private(3, clip=1e3, strategy=make()), partial(everyone, weights="equal")
    noisy = run(spec, honest_app(), tmp_path / "private", equal, start=arrays).models[-1]
    plain = play(partial(equal, aggregation=make()), honest_app(), tmp_path / "plain", 3, start=arrays).models[-1]
    for name, value in plain.items():
        np.testing.assert_allclose(noisy[name], value, rtol=1e-4, atol=1e-4)


def test_epsilon_is_recorded_round_by_round(tmp_path):
    spec = private(6, 2, noise_multiplier=0.8, bands=2, delta=1e-3)
    notes = run(spec, honest_app(), tmp_path, systematic)
    account = Account(2, 6, 0.8, 2)
    expected = [account.epsilon(1e-3, t) for t in range(1, 7)]
    assert notes.column("epsilon") == pytest.approx(expected)
    told = notes.strategy._run.request(6)  # of it a device computes the ε of its own updates
    assert [epsilon_of(math.sqrt(k) * told.mu, told.delta) for k in (1, 2, 3)] == pytest.approx(expected[::2])


def test_a_run_ends_before_its_epsilon_is_exceeded(tmp_path):
    account = Account(1, 6, 0.8)
    most = account.epsilon(1e-3, 4) * 1.001
    spec = private(6, noise_multiplier=0.8, delta=1e-3, max_epsilon=most)
    notes = run(spec, honest_app(), tmp_path)
    assert len(notes.rounds) == 4
    assert notes.result.epsilon == notes.rounds[-1].epsilon <= most
    assert "max-epsilon" in notes.strategy.complete


def test_an_update_too_soon_does_not_count(tmp_path):
    def forget(message, act):  # of an app that keeps no promise
        terms = message.content["aoi"]
        for key in ("min-separation", "rounds"):
            terms.pop(key, None)
        terms["wire"] = "central"
        return act()

    class Errs(Policy):  # a server that asks everybody all the time
        traits = PolicyTraits(4, law=OldestAgeSelector(2, seed=1))

        def plan(self, view):
            return Plan(np.arange(4), np.ones(4))

    app = hostile_app(forget, (HELLO, TRAIN), range(4))
    notes = run(private(6, 2, bands=2), app, tmp_path, partial(AgeAwareStrategy, Errs()))
    trained = notes.trained()
    assert any(trained) and not any(set(one) & set(next_) for one, next_ in pairwise(trained))
    assert any(part.outcome == "refused" for part in notes.parts)


def test_the_secret_is_for_its_owner_alone(tmp_path):
    secret = tmp_path / "noise.key"
    spec = private(6, 2, bands=2, secret=secret)
    notes = Notes(kill=(3,))
    with pytest.raises(KeyboardInterrupt):
        run(spec, honest_app(), tmp_path, systematic, notes=notes)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("noise.*")} == {0o600}
    key = json.loads(secret.read_text())["key"]
    assert len(bytes.fromhex(key)) == 32
    after = run(spec, honest_app(), tmp_path, systematic, start=notes.arrays, resume=notes.resume())
    others = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert others and not any(key.encode() in path.read_bytes() for path in others)
    assert not any("noise" in name for name in after.memories[6])
    assert not secret.exists()  # the run is complete


@pytest.mark.parametrize("step", [None, flower.FedAvgM(server_learning_rate=1.0, server_momentum=0.5)])
def test_an_empty_round_has_noise_and_counts_as_empty(tmp_path, step):
    def spoil(message, act, kind, round_, client):
        return failure(message, "broken") if kind == "train" and round_ == 2 else act()

    app = ToyApp(spoil=spoil)
    spec = private(3, noise_multiplier=1.0, clip=1.0, strategy=step)
    notes = run(spec, app, tmp_path)
    assert notes.column("empty") == [False, True, False]
    assert np.abs(notes.models[1]["w"] - notes.models[0]["w"]).min() > 0


def test_a_private_run_forces_no_client(tmp_path):
    spec = PrivateMean(1.0, 1.0, 80, per_round=1)
    notes = run(spec, honest_app(), tmp_path, partial(MarkovParticipation.increasing, 3, 1))
    assert not any(notes.column("forced"))
    assert any(notes.column("empty"))  # clients draw their seeds from the operating system


HOSTILE = {
    "boast": lambda a: a + 1e6,
    "huge": lambda a: np.full_like(a, 3e38),
    "tiny": lambda a: a + 1e-300,
    "wide": lambda a: a + np.full(a.shape, 1e300),
    "nan": lambda a: a * np.nan,
    "infinite": lambda a: a + np.inf,
    "one": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, 1e30, a),
    "half": lambda a: a + 6e4,
}
STARTS = {
    "float32": np.zeros(4, np.float32),
    "float64": np.full(4, 1e308),
    "float16": np.zeros(4, np.float16),
    "0-d": np.array(0.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "big-endian": np.zeros(4, ">f4"),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("second", [False, True])
def test_no_hostile_update_moves_the_model_by_more_than_a_clip(tmp_path, hostile, start, second):
    rest = {"v": np.zeros(2, np.float32), "count": np.array([7]), "mask": np.array([0.0, -np.inf], np.float32)}

    def spoil(message, act, kind, round_, client):
        reply = act()
        if kind == "train" and client == 1:
            with np.errstate(all="ignore"):
                bad = {"w": HOSTILE[hostile](STARTS[start]), **rest, "count": np.array([10**9])}
            reply.content["arrays"] = record_of(bad)
            if second:
                reply.content["more"] = record_of(bad)
        return reply

    spec = private(1, clip=1.0, frozen=("mask",), strategy=flower.FedAvgM(server_learning_rate=1.0))
    arrays = record_of({"w": STARTS[start], **rest})
    app = ToyApp(unchanged, examples=1, spoil=spoil)
    notes = run(spec, app, tmp_path, start=arrays)
    found = notes.models[-1]
    starts = {"w": STARTS[start], "v": rest["v"]}
    moved = [np.ravel(found[k].astype(np.float64) - value.astype(np.float64)) for k, value in starts.items()]
    assert np.linalg.norm(np.concatenate(moved)) <= 1 / 4 * (1 + 1e-3)
    assert found["count"][0] == 7 and found["mask"].tolist() == [0.0, -np.inf]


@pytest.mark.parametrize(
    "name, array",
    [
        ("mask", np.array([0.0, -np.inf])),
        ("running_mean", np.ones(2)),
    ],
)
def test_an_array_that_cannot_have_noise_is_refused_unless_frozen(tmp_path, name, array):
    arrays = record_of({"w": np.zeros(3, np.float32), name: array.astype(np.float32)})
    with refused("model", name):
        run(private(1), ToyApp(unchanged), tmp_path, start=arrays)
    notes = run(private(1, frozen=("*" + name[-4:],)), ToyApp(unchanged), tmp_path, start=arrays)
    np.testing.assert_array_equal(notes.models[0][name], array)


class Mine(RandomSelection):
    def aggregate_train(self, server_round, replies):
        return super().aggregate_train(server_round, replies)


WHITE = partial(everyone, aggregation=private(6))


def with_own_step(**how):
    """Return a strategy with a step that is set on the instance."""
    strategy = WHITE(**how)
    strategy.aggregate_train = wraps(strategy.aggregate_train)(lambda round_, replies: (None, None))
    return strategy


BANDED = private(6, bands=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip": 0.0},
        {"clip": math.nan},
        {"noise_multiplier": 0.0},
        {"bands": 0},
        {"delta": 1.0},
        {"max_epsilon": 0.0},
        {"strategy": flower.Krum()},
    ],
)
def test_a_private_mean_that_guarantees_nothing_is_refused_when_made(wrong):
    with pytest.raises(ConfigError):
        private(**wrong)


@pytest.mark.parametrize(
    ("make", "how"),
    [
        *((partial(everyone, aggregation=private(6, wrong)), {}) for wrong in (3, 5)),
        (partial(everyone, aggregation=private(6, max_epsilon=1e-3)), {}),
        (partial(WHITE, weights="size"), {}),
        (WHITE, {"late_rounds": 2}),
        (WHITE, {"rounds": 5}),
        (partial(Mine, 4, aggregation=private(6)), {}),
        (with_own_step, {}),
        (partial(OortSelection, 4, aggregation=private(6)), {}),
        (partial(systematic, aggregation=private(6, bands=3)), {}),
        (partial(systematic, rates="size", aggregation=BANDED), {}),
        (partial(MarkovParticipation.optimal, 4, 2, compensate="dropout", aggregation=BANDED), {}),
        (partial(RandomSelection, 2, aggregation=BANDED), {}),
    ],
)
def test_what_breaks_the_guarantee_is_refused_before_round_one(tmp_path, make, how):
    notes = Notes()
    with pytest.raises(ConfigError):
        play(make, honest_app(), tmp_path, notes=notes, **{"rounds": 6} | how)
    assert not notes.rounds


@pytest.mark.parametrize("metrics", ["hidden", "clear"])
def test_a_private_run_records_participation_alone(tmp_path, metrics, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)

    def spoil(message, act, kind, round_, client):
        return failure(message, "ValueError: 31337") if kind == "train" and client == 1 else act()

    app = ToyApp(unchanged, examples=31337, loss=31337.0, spoil=spoil, evaluates=lambda client: 31337.0)
    spec, evaluate_clients = private(2, metrics=metrics), None if metrics == "hidden" else 2
    with caplog.at_level("DEBUG", logger="flwr"):
        notes = run(spec, app, tmp_path, evaluate_clients=evaluate_clients)
    told = [caplog.text, repr(notes.clients), repr(notes.rounds), repr(notes.result.train_metrics_clientapp)]
    told += [repr(notes.result.evaluate_metrics_clientapp), repr(notes.memories)]
    assert any("31337" in text for text in told) == (metrics == "clear")
    assert all(part.seconds is None for part in notes.rounds[0].participations) == (metrics == "hidden")
    assert notes.trained() == [[0, 2, 3], [0, 2, 3]]
    assert (len(notes.grid.whom("evaluate", 1, 2)) == 0) == (metrics == "hidden")


@pytest.mark.parametrize(
    "how", [{"evaluate_clients": 2}, {"train_metrics_aggr_fn": max}, {"evaluate_metrics_aggr_fn": max}]
)
def test_metrics_in_the_clear_are_asked_for(how):
    with refused(next(iter(how))):
        everyone(aggregation=private(), options=RoundOptions(**how))
    everyone(aggregation=private(metrics="clear"), options=RoundOptions(**how))
