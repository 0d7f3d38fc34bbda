"""``aoi arena``: the same as ``aoi compare --clock``, with a preset of its own."""

import json

import pytest

from aoi_fl.lab.experiments import comparing
from aoi_fl.lab.experiments.studies.entrants import BOTH


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--policies random", "policies is 'random'"),
        ("--partition dirichlet:x", "partition is 'dirichlet:x'"),
        ("-c num-clients=4", "clients-per-round"),
        ("--policies random,systematic:jitter=2", "jitter is '2'"),
        ("--policies random,random:seed=3", "policies is 'random:seed=3'"),
        ("--policies random,random:weights=size:weights=equal", "'random:weights=size:weights=equal'"),
        ("--policies random,oort,random", "policies is 'random'"),
        ("--policies random,random:clock-start=40000", "policies is 'random:clock-start=40000'"),
        ("--clock generatd", "clock is 'generatd'"),
    ],
)
def test_impossible_settings_are_refused_before_any_run(refusal, arguments, words, tmp_path):
    assert words in refusal(f"arena --quick --quiet {arguments}")
    assert not list(tmp_path.iterdir())


def test_selection_is_played_in_simulated_time(aoi, told, refusal):
    line = "simulate --clock generated --deadline 30 --policy"
    random = told(f"{line} random")
    assert 0 < random["device_hours_in_vain"] < random["device_hours"]
    assert 1 <= random["seconds_a_round"] <= 31
    assert told(f"{line} fedcs")["device_hours"] > 0, "whom FedCS takes for in time by the deadline of the clock"
    said = " ".join(aoi(f"{line.replace('30', '2')} random --per-round 40")[2].split())
    assert "A round selects 40 clients, but only" in said
    assert "the deadline is 2 s, and the fastest of the clients takes" in said and "Raise it" in said
    some = f"{line} random --over-selection 1.5 --until 30min --rounds 100000"
    timed = told(some)
    assert timed["rounds"] < 1000 and 0.5 <= timed["simulated_hours"] < 0.52 and timed["round_mean"] <= 15
    assert "over-selection is 1.5" in refusal(f"{some} --weights unbiased")
    assert "train-timeout" in refusal("simulate --policy random --deadline 30")


K4, ALONE = "random:clients-per-round=4", "random:clients-per-round={}:over-selection=1"


@pytest.mark.parametrize(
    ("keys", "few"),
    [
        ({}, [K4, ALONE.format(4), ALONE.format(3), ALONE.format(2), ALONE.format(4) + BOTH]),
        # Without over-selection the first two are the same.
        ({"clients-per-round": 3}, [ALONE.format(3), ALONE.format(2)]),
    ],
)
def test_entrants_that_do_not_differ_are_left_out(keys, few):
    found = comparing.arena({"clock": "always", **keys}, quick=True)[0].split(",")
    assert [entrant for entrant in found if "clients-per-round" in entrant] == few
    assert len({entrant.partition(":")[0] for entrant in found}) == 10


SMALL = ("-cnum-clients=20", "-cuntil=10", "-clocal-epochs=1")


def test_the_arena_prints_what_compare_prints(aoi, told):
    shared = ("--seeds", "1", *SMALL, "-cclients-per-round=4")
    status, out, err = aoi("arena --quick --json --policies random,oldest-age", *shared)
    assert status == 0 and "A round selects 6 clients, but only" in err
    _, keys = comparing.arena({"clock": "generated"}, quick=True)
    rest = [f"-c{k}={v}" for k, v in keys.items() if f"-c{k}" not in {w.partition("=")[0] for w in shared}]
    assert told("compare random,oldest-age", *shared, *rest) == json.loads(out)
