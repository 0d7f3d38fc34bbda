import json
import sys

import numpy as np
import pytest

from aoi_fl.cli.main import app
from aoi_fl.config.policies import BUDGETED, POLICIES
from aoi_fl.science.sizes import make_sizes
from tests.processes import python
from tests.refusals import refused


def test_policy_json_against_the_closed_forms(aoi, told):
    line = "policy --clients 100 --per-round 15 --policy"
    markov, systematic = (told(f"{line} {policy}") for policy in ("markov-optimal --max-age 10", "systematic"))
    for shown in (markov, systematic):
        assert shown["interval_pmf"] == pytest.approx({"6": 1 / 3, "7": 2 / 3})
        assert (shown["interval_mean"], shown["interval_variance"]) == pytest.approx((20 / 3, 2 / 9))
    assert markov["probabilities"] == pytest.approx([0] * 5 + [1 / 3] + [1] * 5)
    assert markov["stationary"] == pytest.approx([0.15] * 6 + [0.1] + [0] * 4)
    deviation = systematic["window_deviation"]
    assert (deviation["10"], deviation["100"]) == pytest.approx((0.05, 0))
    jittered = told(f"{line} systematic --jitter 0.2")
    assert (jittered["least_variance"], jittered["interval_variance"]) == pytest.approx((2 / 9, 0.46528), abs=1e-5)
    assert "Law of X" in aoi("policy --policy systematic")[1] and "takes part with" in aoi("policy")[1]


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in BUDGETED])
def test_unbiased_weights_are_played_or_refused_by_name(aoi, policy):
    status, out, err = aoi(f"simulate --policy {policy} --clients 9 --per-round 3 --rounds 5 --weights unbiased --json")
    if policy in ("markov-optimal", "markov-increasing", "systematic", "random", "oldest-age", "f3ast"):
        assert (status, err) == (0, "") and json.loads(out)["interval_mean"]
    else:
        assert (status, out) == (2, "") and err.startswith("aoi: weights is 'unbiased'")


def test_simulate_json_is_consistent_with_its_trace(told):
    line = "simulate --policy random --clients 20 --per-round 6 --rounds 50 --seed 3 --sizes uniform:1:9 --trace"
    shown = told(line)
    assert [len(chosen) for chosen in shown["selections"]] == [6] * 50
    taken = np.zeros((50, 20), dtype=bool)
    for t, chosen in enumerate(shown["selections"]):
        taken[t, chosen] = True
    sizes = make_sizes("uniform:1:9", 20, 3)
    assert shown["data_a_participation"] == pytest.approx((taken * sizes).sum() / taken.sum() / sizes.mean())
    assert told(line) == shown  # the same seed, the same rounds
    assert "selections" not in told(line.removesuffix("--trace"))


def test_a_simulation_is_shown_to_people(aoi):
    line = "simulate --policy markov-optimal --clients 20 --per-round 6 --max-age 4 --start zero --rounds 12 --trace"
    status, out, _ = aoi(line)
    assert status == 0
    for heading in ("markov-optimal", "Intervals X", "√Var(Y)/T", "Jain", "Selections"):
        assert heading in out


@pytest.mark.parametrize("policy", ["markov-optimal", "systematic"])
def test_rates_that_a_file_gives(told, refusal, tmp_path, policy):
    file = tmp_path / "clients.csv"
    rows = [f"client-{i},{rate}" for i, rate in enumerate((0.5, 0.25, 1, 0.25))]
    file.write_text("\n".join(["name,rate", *reversed(rows)]))
    line = f"simulate --policy {policy} --clients 4 --per-round 2 --rates given --clients-file {file}"
    played = told(f"{line} --rounds 400")
    assert played["round_mean"] == pytest.approx(2, abs=0.1)
    assert played["participation"]["max"] == 400 and played["participation"]["min"] < 130
    keys = f"-c policy={policy} -c num-clients=4 -c clients-per-round=2 -c rates=given -c clients-file={file}"
    assert told(f"simulate {keys} -c num-server-rounds=400") == played
    file.write_text("\n".join(["name,rate", *rows[:3], "client-9,0.25"]))
    message = refusal(line)
    assert "column name is 'client-9'" in message and "client-3 has no rate" in message


@pytest.mark.parametrize("policy", ["markov-optimal", "systematic"])
def test_how_much_of_the_rates_is_out_of_reach(aoi, told, policy):
    line = f"simulate --policy {policy} --clients 30 --per-round 12 --rounds 300"
    assert "out_of_reach" not in told(line)
    beyond = 30 * (0.4 - 0.1)
    for rule in ("none", "availability"):
        shown = told(f"{line} --there 0.1 --compensate {rule}")
        assert shown["out_of_reach"] == pytest.approx(beyond)
    assert shown["round_mean"] == pytest.approx(12 - beyond, abs=0.3)
    assert "not achievable by availability" in aoi(f"{line} --there 0.1")[1]
    shown = told(f"{line} --clock bernoulli:0.1 --deadline 600 --compensate availability")
    assert shown["out_of_reach"] == pytest.approx(12 - shown["round_mean"], abs=1.0)


def test_run_keys_are_taken_for_the_options_of_their_meaning(told):
    for keys, options in (
        (
            "-c policy=wics -c budget=30 -c ageing=root -c num-clients=12 -c seed=4",
            "--policy wics --budget 30 --ageing root --clients 12 --seed 4",
        ),
        (
            "-c policy=systematic -c rates=size -c sizes=zipf:2.0 -c phases=random -c jitter=0.2 -c weights=size",
            "--policy systematic --rates size --sizes zipf:2.0 --phases random --jitter 0.2 --weights size",
        ),
        (
            "-c policy=pow-d -c candidates=20 -c clock=always -c train-timeout=30 -c weights=auto",
            "--policy pow-d --candidates 20 --clock always --deadline 30",
        ),
    ):
        assert told(f"simulate {options} --rounds 99") == told(f"simulate {keys} -c num-server-rounds=99")
    line = "simulate --policy random --rounds 9"
    assert told(f"{line} -c clients-file= -c clock=") == told(line)
    by_options = told("policy --clients 20 --per-round 5 -c max-age=3")
    assert told("policy -c num-clients=20 -c clients-per-round=5 --max-age 3") == by_options


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("simulate --policy random --clients 1000000 --per-round 1000000 --rounds 1000000", "participations", "1e+12"),
        ("policy -c coordination=poll", "-c coordination", "poll"),
        ("policy -c num-clients=4 --clients 5", "num-clients", "5"),
        ("policy -c max-age=4 -c max-age=5", "-c max-age", "5"),
        ("simulate --policy markov-optimal --rounds 0", "num-server-rounds", "0"),
        ("simulate --policy markov-optimal --start warm", "start", "warm"),
        ("simulate --policy systematic --start zero", "start", "zero"),
        ("policy --policy random", "policy", "random"),
        ("run --until 0h --clock always", "until", "0h"),
        ("run -c num-client=4", "num-client", None),
        ("run -c =4", "-c", "=4"),
        ("run -c dataset=npz:nowhere.npz", "dataset", "nowhere.npz"),
        ("run --clients 4 --per-round 2 -c runs-dir=/proc/nowhere", "runs-dir", "/proc/nowhere"),
        (f"simulate --policy random --clock always --until {'9' * 400}", "until", "9" * 40),
        ("simulate --policy random --clock generated --model-bytes 1e6", "model-bytes", 1000000.0),
        ("reproduce thoery", "experiment", "thoery"),
        ("simulate --policy random --deadline 9", "train-timeout", "9"),
        ("simulate --policy random --clock always --there 0.5", "there", 0.5),
    ],
)
def test_a_mistake_is_refused_with_key_and_value(monkeypatch, line, key, value):
    monkeypatch.setattr(sys, "argv", ["aoi", *line.split()])
    with refused(key, value):
        app()


def test_an_estimate_ignores_rounds_beyond_the_end(aoi, monkeypatch):
    monkeypatch.setattr("aoi_fl.server.engine.machine.usable_memory", lambda: 500_000.0)
    line = "simulate --policy random --clients 20 --per-round 5 --clock always --json"
    status, shown, err = aoi(f"{line} --until 1h")  # rounds of 11 s and not of 1 s
    assert status == 0 and json.loads(shown)["rounds"] == 328, err
    week_of_coins = f"{line} --rounds 9".replace("always", "bernoulli:0.3").replace("20", "30")
    for more in (f"{line} --until 8h", week_of_coins):
        status, _, err = aoi(more)
        assert status == 2 and "GB of memory" in err


@pytest.mark.parametrize("line", ["simulate --there 0", "policy --nothing", "no-such-command"])
def test_a_wrong_command_line_is_status_2_without_a_traceback(aoi, line):
    status, _, err = aoi(line)
    assert status == 2
    assert "Traceback" not in err and "Usage" in err


def test_the_light_commands_import_nothing_heavy():
    script = """
import sys

from aoi_fl.cli.main import app, main
sys.argv = ["aoi", "--help"]
try: main()
except SystemExit as end: assert not end.code
assert not {"pydantic", "rich"} & set(sys.modules)
sys.argv = ["aoi", "run", "-c", "polcy=random"]
try: main()
except SystemExit as end: assert end.code == 2
assert "numpy" not in sys.modules
sys.argv = ["aoi", "simulate", "--policy", "random", "--rounds", "3", "--json"]
try: main()
except SystemExit as end: assert not end.code
heavy = {"torch", "torchvision", "plotly", "matplotlib", "flwr", "ray", "scipy", "sklearn"} & set(sys.modules)
assert not heavy, heavy
"""
    python("-c", script)
