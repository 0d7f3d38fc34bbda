"""``aoi privacy``, and b and K in ``aoi policy``: fields against numbers that were computed elsewhere."""

import json

import pytest

from aoi_fl.config.policies import POLICIES
from aoi_fl.science.privacy import amplification

SETTING = "--clients 100 --per-round 15 --rounds 100 --delta 1e-3"


@pytest.fixture
def aoi(aoi):
    """Run a line as the command in this process; return (status, stdout, stderr)."""
    return lambda line: aoi(*line.split())


@pytest.fixture
def shown(aoi):
    return lambda options: json.loads(aoi(f"privacy {SETTING} --json {options}")[1])


# ε at error 6 in clips: a noise of s = 6 / √(mean_t Σ_j B_tj²), over √(17 Σ c_j²)
def test_markov_with_six_bands_at_error_six(shown):
    found = shown("--policy markov-optimal --bands 6 --noise-multiplier 0.40894")
    assert (found["min_separation"], found["max_participations"]) == (6, 17)
    assert found["error"] == pytest.approx(6, rel=1e-3)
    assert found["epsilon"] == pytest.approx(7.0, rel=0.03)
    assert found["epsilon_without_amplification"] == pytest.approx(9.91, rel=0.01)
    assert 0 < found["epsilon_error"] < 0.1


def test_without_amplification_epsilon_is_exact(shown):
    found = shown("--policy systematic --bands 6 --noise-multiplier 0.40894 --no-amplification")
    assert found["max_participations"] == 15
    assert found["epsilon"] == pytest.approx(9.906, rel=1e-3)
    assert (found["amplified"], found["epsilon_error"]) == (False, 0)


def test_random_with_white_noise_at_error_six(shown):
    pytest.importorskip("dp_accounting", reason="the extra privacy is not installed")
    found = shown("--policy random --noise-multiplier 0.0844317")
    assert found["error"] == pytest.approx(6, rel=1e-3)
    assert found["epsilon"] == pytest.approx(10.5, rel=0.01)
    assert any("coins" in line for line in found["assumptions"])


def test_age_costs_at_most_seven_tenths_of_random(shown):
    pytest.importorskip("dp_accounting", reason="the extra privacy is not installed")
    random = shown("--policy random --noise-multiplier 0.0844317")
    markov = shown("--policy markov-optimal --bands 6 --noise-multiplier 0.40894")
    assert markov["epsilon"] <= 0.7 * random["epsilon"]


@pytest.mark.parametrize("policy", ["markov-optimal", "systematic"])
def test_the_noise_multiplier_of_an_epsilon_gives_it_back(shown, policy):
    found = shown(f"--policy {policy} --epsilon 4")
    assert found["bands"] == 6
    assert found["epsilon"] == pytest.approx(4, rel=0.03)
    again = shown(f"--policy {policy} --noise-multiplier {found['noise_multiplier']}")
    assert again["epsilon"] == pytest.approx(found["epsilon"], rel=1e-6)


def test_the_table_has_every_policy(shown, monkeypatch):
    monkeypatch.setattr(amplification, "has_library", lambda: False)
    rows = {row["policy"]: row for row in shown("--policy all --noise-multiplier 1")["policies"]}
    assert tuple(rows) == POLICIES
    separated = {name for name, row in rows.items() if row["min_separation"] > 1}
    assert separated == {"markov-optimal", "systematic", "oldest-age"}
    assert not rows["random"]["amplified"]


def test_neighbours_adversary_and_assumptions_are_printed(aoi):
    out = aoi(f"privacy {SETTING} --policy systematic --noise-multiplier 1")[1]
    assert all(word in out for word in ("Neighbours", "adversary", "Assumed"))


@pytest.mark.parametrize(
    "options, named",
    [
        ("--policy systematic --bands 7 --noise-multiplier 1", "6"),
        ("--policy random --bands 2 --noise-multiplier 1", "bands"),
        ("--policy systematic --phases spread:1 --bands 6 --noise-multiplier 1", "bands"),
        ("--policy systematic", "noise"),
        ("--policy systematic --noise-multiplier 1 --epsilon 2", "noise"),
        ("--policy systematic --noise-multiplier 0", "noise-multiplier"),
        ("--policy systematic --epsilon -1", "epsilon"),
        ("--policy systematic --epsilon 1 --delta 0", "delta"),
        ("--policy systematic --epsilon 1 --delta 1", "delta"),
        ("--policy random --epsilon 1 --phases spread:0.5", "phases"),
        ("--policy nobody --epsilon 1", "nobody"),
    ],
)
def test_bad_input_is_refused_with_the_key(aoi, options, named):
    status, out, err = aoi(f"privacy {options}")
    assert (status, out) == (2, "")
    assert named in err


@pytest.mark.parametrize(
    "options, bounds",
    [
        ("--policy markov-optimal", (6, 17)),
        ("--policy markov-increasing", (1, 100)),
        ("--policy systematic", (6, 15)),
        ("--policy systematic --phases spread:0.2", (5, 16)),
        ("--policy systematic --rounds 20", (6, 3)),
        ("--policy markov-optimal --rates size --sizes uniform:10:30", None),
    ],
)
def test_policy_shows_the_bounds_of_participation(aoi, options, bounds):
    found = json.loads(aoi(f"policy --clients 100 --per-round 15 {options} --json")[1])
    if bounds is None:
        fastest = 1 / max(found["rates"])
        assert found["min_separation"] == int(fastest)
    else:
        assert (found["min_separation"], found["max_participations"]) == bounds
