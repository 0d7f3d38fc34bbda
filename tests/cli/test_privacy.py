"""``aoi privacy``: fields against numbers that were computed elsewhere."""

import pytest

from aoi_fl.config.policies import POLICIES, SEPARATED
from aoi_fl.config.run import RunConfig
from aoi_fl.science.errors import ConfigError

SETTING = "--clients 100 --per-round 15 --rounds 100 --delta 1e-3"


@pytest.fixture
def shown(told):
    return lambda options: told(f"privacy {SETTING} {options}")


# at error 6 in clips: a noise of s = 6 / √(mean_t Σ_j B_tj²), over √(17 Σ c_j²)
@pytest.mark.parametrize(
    "policy, most", [("markov-optimal", 7.4), ("systematic --phases random", 7.6), ("systematic", None)]
)
def test_six_bands_at_error_six(shown, policy, most):
    options = f"--policy {policy} --noise-multiplier 0.40894"
    plain, amplified = shown(options), shown(f"{options} --amplified")
    assert (plain["min_separation"], plain["max_participations"], plain["bands"]) == (6, 17, 6)
    assert plain["error"] == pytest.approx(6, rel=1e-3)
    assert plain["epsilon"] == amplified["epsilon"] == pytest.approx(9.906, rel=1e-3)
    assert plain["epsilon_amplified"] is None
    assert amplified["amplified"] == (amplified["epsilon_amplified"] is not None) == (most is not None)
    assert most is None or 0.95 * most < amplified["epsilon_amplified"] < most
    assert bool(amplified["conditions"]) and "conditions" not in plain


@pytest.mark.parametrize(
    "policy",
    ["systematic --phases random", *(pytest.param(p, marks=pytest.mark.slow) for p in ("markov-optimal", "random"))],
)
def test_the_noise_multiplier_of_an_epsilon_gives_it_back(shown, policy):
    for option, key in (("", "epsilon"), ("--amplified", "epsilon_amplified")):
        found = shown(f"--policy {policy} --epsilon 4 {option}")
        assert 3.97 < found[key] <= 4
        again = shown(f"--policy {policy} --noise-multiplier {found['noise_multiplier']} {option}")
        assert again[key] == found[key]


def test_the_table_has_every_policy_and_no_epsilon_for_one_that_a_private_run_refuses(shown):
    rows = {row["policy"]: row for row in shown("--policy all --noise-multiplier 1")["policies"]}
    assert tuple(rows) == POLICIES
    assert {name for name, row in rows.items() if (row["min_separation"] or 1) > 1} == set(SEPARATED)
    for name, row in rows.items():
        try:
            RunConfig.parse({"policy": name, "privacy": "white", "delta": 1e-3})
        except ConfigError:
            assert row["refused"] and row["epsilon"] is None
        else:
            assert row["refused"] is None and row["epsilon"] > 0


def test_neighbours_adversary_and_assumptions_are_printed(aoi):
    out = aoi(f"privacy {SETTING} --policy systematic --noise-multiplier 1")[1]
    assert all(word in out for word in ("Neighbours", "adversary", "Assumed"))


@pytest.mark.parametrize(
    "options, named",
    [
        ("--policy systematic --bands 7 --noise-multiplier 1", "6"),
        ("--policy random --bands 2 --noise-multiplier 1", "bands"),
        ("--policy systematic", "noise"),
        ("--policy systematic --noise-multiplier 1 --epsilon 2", "noise"),
        ("--policy systematic --noise-multiplier 0", "noise-multiplier"),
        ("--policy systematic --epsilon -1", "epsilon"),
        ("--policy systematic --epsilon 1 --delta 1", "delta"),
        ("--policy systematic --epsilon 1 --delta 9e-16", "delta"),
        ("--policy systematic --epsilon 1 --delta 0.02", "delta"),  # 1/n is 0.01
        ("--policy systematic --epsilon 1e-6 --delta 1e-15", "epsilon"),
        ("--policy markov-optimal --max-age 3 --bands 5 --noise-multiplier 1", "max-age"),
        ("--policy oort --epsilon 1", "policy"),
        ("--policy random --epsilon 1 --jitter 0.5", "jitter"),
        ("--policy nobody --epsilon 1", "nobody"),
    ],
)
def test_bad_input_is_refused_with_the_key(refusal, options, named):
    assert named in refusal(f"privacy {options}")
