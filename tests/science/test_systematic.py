"""Systematic participation against its definition in rational arithmetic, and against enumeration."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoi_fl.science.interval_law import StrideLaw
from aoi_fl.science.rates import exact, size_rates
from aoi_fl.science.rule import Clocks, Terms
from aoi_fl.science.strides import Strides
from aoi_fl.science.systematic import SystematicPolicy

UNEQUAL = np.array([0.5, 0.5, 0.25, 0.3, 0.3, 0.3, 1.0, 1 / 7, 0.85, 2 / 3])


def played(policy, rounds):
    """Return (rounds, n) the clients that take part, by their counts round after round."""
    return np.diff([policy.count(round_) for round_ in range(rounds + 1)], axis=0) > 0


def takes_part(client, round_):
    """Tell whether a participation of one client is due in a round."""
    return bool((client.count(round_) > client.count(round_ - 1))[0])


def by_definition(rate, phase, rounds):
    """⌊t·r + u⌋ > ⌊(t−1)·r + u⌋ in rational arithmetic."""
    return [math.floor(t * rate + Fraction(phase)) > math.floor((t - 1) * rate + Fraction(phase)) for t in rounds]


@pytest.mark.parametrize("phases", ["spread", "random"])
def test_given_rates_follow_their_law_for_a_whole_cycle(phases):
    """A client of rate a/b has taken part a times after b rounds, from there on as before; k = Σ a/b of n."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rates, _ = size_rates(rng.integers(1, 12, 9), int(rng.integers(1, 9)))
        policy = SystematicPolicy.rated(rates, phases, 0.0, seed)
        fractions = [exact(rate) for rate in rates.tolist()]
        rounds = max(2 * fraction.denominator for fraction in fractions) + 1
        chosen = played(policy, rounds)
        waits, weights = [], []
        for i, fraction in enumerate(fractions):
            assert chosen[:, i].tolist() == by_definition(fraction, policy.phases[i], range(1, rounds + 1))
            own = np.diff(np.flatnonzero(chosen[:, i]))[: fraction.numerator].tolist()
            assert sum(own) == fraction.denominator
            assert set(np.flatnonzero(StrideLaw(rates[i]).interval_pmf()) + 1) == set(own)
            waits += own
            weights += [1 / fraction.denominator] * len(own)  # of which each round brings one in 1/b
        variance = np.cov(waits, ddof=0, aweights=weights)
        assert policy.law().interval_variance == pytest.approx(float(variance), abs=1e-9)


def test_spread_phases_give_exactly_k_in_every_round():
    for n in range(1, 31):
        for k in range(1, n + 1):
            strides = SystematicPolicy.equal(n, k, seed=n).strides
            # n rounds are a whole period; the later ones are those of a long run.
            assert {int((strides.last_start(t) == t).sum()) for t in [*range(1, n + 1), *range(10**6, 10**6 + n)]} == {
                k
            }


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("phases", ["spread", "random"])
def test_every_client_alone_plays_its_part(jitter, phases):
    policy = SystematicPolicy.rated(UNEQUAL, phases, jitter, seed=6)
    chosen = played(policy, 150)
    first_ages = policy.first_age(1, np.zeros(0))
    for i in range(len(UNEQUAL)):
        terms = Terms((), float(policy.rates[i]), float(policy.phases[i]), jitter)
        alone, taken = SystematicPolicy.from_message(terms, 6, i), np.flatnonzero(chosen[:, i]) + 1
        assert [takes_part(alone, t) for t in range(1, 151)] == chosen[:, i].tolist()
        following = [int(alone.next_round(Clocks(np.array([t - 1])), t, np.zeros(0))[0]) for t in range(1, taken[-1])]
        assert following == [taken[taken >= t][0] for t in range(1, taken[-1])]
        before = next(t for t in range(0, -200, -1) if takes_part(alone, t))
        assert first_ages[i] == -before


def by_cubes(rate, jitter):
    """P(X = x) in rational arithmetic: |x − 1/r|³/(12c²), a second difference in steps of 1, and of that one of c."""
    mean, steps = 1 / rate, ((-1, 1), (0, -2), (1, 1))
    width = min(jitter, 1 - rate) / rate
    return {
        x: sum(p * q * abs(x - mean + i + j * width) ** 3 for i, p in steps for j, q in steps) / (12 * width**2)
        for x in range(math.floor(mean - width), math.ceil(mean + width) + 1)
    }


@pytest.mark.parametrize("rate", ["3/20", "1/2", "1/5", "2/3", "9/10", "7/100", "1/93", "92/93", "123/100000"])
def test_law_under_jitter_in_rational_arithmetic(rate):
    for jitter in ["1e-14", "1e-9", "1e-5", "0.01", "0.2", "0.5", "1"]:
        exactly = by_cubes(Fraction(rate), Fraction(jitter))
        of = StrideLaw(float(Fraction(rate)), float(jitter))
        law = of.interval_pmf()
        assert law.min() >= 0
        wanted = [float(exactly.get(x, 0)) for x in range(1, max(exactly) + 1)]
        assert law == pytest.approx(wanted, rel=1e-6, abs=1e-14)
        variance = float(sum((x - 1 / Fraction(rate)) ** 2 * p for x, p in exactly.items()))
        assert of.interval_variance == pytest.approx(variance, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rate", [0.15, 0.4, 0.9, 0.07])
def test_variance_over_windows_under_jitter_by_integration(rate):
    """Y = how many of j − u + J·w_j lie in (0, rT]. Given u each is a coin of its own: Var = E[Σ p(1−p)] + Var[Σ p]."""
    for jitter in [0.05, 0.3, 1.0]:
        for rounds in [1, 2, 3, 10, 33, 100]:
            put_off = min(jitter, 1 - rate)
            u = (np.arange(20011) + 0.5) / 20011
            j = np.arange(-1, math.ceil(rate * rounds) + 2)[:, None]
            p = np.clip((rate * rounds - j + u) / put_off, 0, 1) - np.clip((u - j) / put_off, 0, 1)
            variance = (p * (1 - p)).sum(axis=0).mean() + p.sum(axis=0).var()
            assert StrideLaw(rate, jitter).window_variances([rounds])[0] == pytest.approx(variance, abs=1e-4)


@pytest.mark.parametrize("rate", [0.15, 0.5, 1 / 3, 0.9, 1 / 93, 92 / 93, 1.0, 1e-9, 0.123456789])
def test_the_latest_participation_precedes_the_next_stride(rate):
    ticks = np.unique(np.linspace(0, exact(rate).denominator - 1, 500).astype(int))
    phases = (ticks + 1e-9) / exact(rate).denominator
    strides = Strides(np.full(len(ticks), rate), phases, jitter=1.0)
    starts = strides.last_start(0)
    assert (strides.due(starts, np.nextafter(1.0, 0)) < strides.start_of(strides.begun(0) + 1)).all()


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.15, 0.5, 1 / 3, 0.99]), st.integers(1, 40)), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_the_count_of_participations_survives_a_new_rate(jitter, spells):
    """By the shift: so nobody takes what came before the change a second time, however often rates change."""
    rate, shift, now, due = spells[0][0], 0.0, 0, 0.3
    for new_rate, rounds in spells:
        shift, rate = shift + now * (rate - new_rate), new_rate
        client = SystematicPolicy(np.array([rate]), np.array([0.3]), jitter, shifts=shift, number=0)
        for _ in range(rounds):
            now, due = now + 1, due + rate
            count = client.count(now)
            assert due - 1 - jitter - 1e-6 < count < due + 1e-6
            assert client.round_of(count) <= now < client.round_of(count + 1)
