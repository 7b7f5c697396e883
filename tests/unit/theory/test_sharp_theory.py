"""The estimator algebra and the root bounds against numbers computed by hand
and against exact binomial tails.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.theory import stopping
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import backup, blind, constant, plug_in, rollout
from smoothcruiser.theory.noise import log_mgf, plug_in_noise, skew_probability

ONE = np.array([1.0])
PLAIN = Facts(2, 2, 0.5, sc.Entropy(1.0), (0.0, 1.0))  # V in [2 log 2, 2 + 2 log 2]


def test_constant():
    """The middle of [2 log 2, 2 + 2 log 2], off by at most 1 either way, free
    and without noise.
    """
    guess = constant(ground(PLAIN), None)
    assert guess.low[0, 0] == pytest.approx(1.0 + 2.0 * math.log(2.0))
    assert (guess.bias_low[0, 0], guess.bias_high[0, 0]) == pytest.approx((-1.0, 1.0))
    assert (guess.variance[0, 0], guess.log_calls[0]) == (0.0, -math.inf)


def test_backup_of_a_constant():
    """Xi = r + c/2: range 1, variance 1/4, bias half of the constant's, one call."""
    draw = backup(ground(PLAIN), constant(ground(PLAIN), None), None)
    assert (
        draw.spread[0, 0],
        draw.variance[0, 0],
        draw.bias_span[0, 0],
        draw.log_calls[0],
    ) == pytest.approx((1.0, 0.25, 1.0, 0.0))


def test_plug_in_by_hand():
    """N = 1: phi = log cosh(0.5/sqrt 2), width 1 + phi, centred by -phi/2, K N
    (1 + C) = 2 calls.
    """
    base = ground(PLAIN)
    level = plug_in(base, backup(base, constant(base, None), None), ONE)
    phi = math.log(math.cosh(0.5 / math.sqrt(2.0)))
    assert level.width[0] == pytest.approx(1.0 + phi)
    assert level.bias_high[0, 0] == pytest.approx(-level.bias_low[0, 0])
    assert level.shift[0] == pytest.approx(-phi / 2.0)
    assert math.exp(level.log_calls[0]) == pytest.approx(2.0)


def test_rollout_by_hand():
    """N = 1 over the constant: E D = (tilt^2 + 2 sigma^2/N)/(8 lambda) = 1.5/8;
    one call more than the query's two.
    """
    base = ground(PLAIN)
    draw = backup(base, constant(base, None), None)
    level = rollout(base, draw, ONE, draw, None)
    assert level.width[0] == pytest.approx(1.0 + 0.1875)
    assert level.shift[0] == pytest.approx(0.09375)
    assert math.exp(level.log_calls[0]) == pytest.approx(3.0)


def test_blind_by_hand():
    """B_Q = 2: D = log((e^2 + 1)/2) - 1, one call."""
    base = ground(PLAIN)
    level = blind(base, backup(base, constant(base, None), None), None)
    loss = math.log((math.exp(2.0) + 1.0) / 2.0) - 1.0
    assert (level.width[0], level.shift[0], level.log_calls[0]) == pytest.approx(
        (1.0 + loss, loss / 2.0, 0.0)
    )


def test_value_bounds_per_player():
    """In a game of any order a max state lies at least M above the lowest
    backup: the constant gets 2M narrower and is signed.
    """
    facts = Facts(2, 2, 0.5, sc.Entropy(1.0), (0.0, 1.0), game=True)
    m = math.log(2.0)
    low, high = ground(facts).values(None)
    assert facts.value_span() == pytest.approx(2.0 * (1.0 + 2.0 * m))
    assert (high - low)[:, 0] == pytest.approx([facts.value_span() - 2.0 * m] * 2)
    guess = constant(ground(facts), None)
    assert guess.width[0] == pytest.approx(facts.value_span() - 2.0 * m)
    assert guess.shift[0] == pytest.approx(m)


def test_terminals_enter_by_the_hull():
    """A next state can be worth 0: the range of gamma X reaches down to 0 and
    the bias interval of a draw contains 0.
    """
    base = ground(Facts(2, 2, 0.5, sc.Entropy(1.0), (0.0, 1.0), terminals=True))
    guess = constant(base, None)
    draw = backup(base, guess, None)
    assert draw.low[0, 0] == 0.0
    assert draw.high[0, 0] == pytest.approx(1.0 + 0.5 * float(guess.high[0, 0]))
    assert draw.bias_low[0, 0] <= 0.0 <= draw.bias_high[0, 0]
    # a state that has not ended is worth log 2 at least
    assert float(base.values(None)[0][0, 0]) == pytest.approx(math.log(2.0))


def test_operator_without_shift_invariance_is_refused():
    """The algebra rests on F(Q + c) = F(Q) + c."""
    odd = sc.CustomOperator(
        value_function=lambda q: 0.5 * float(np.max(q)),
        gradient_function=lambda q: 0.5 * (q == np.max(q)),
        smooth=1.0,
    )
    with pytest.raises(sc.InvalidInput, match="paper"):
        ground(Facts(2, 2, 0.5, odd, (0.0, 1.0)))


def test_operator_that_is_not_convex_gets_both_sides():
    """Without convexity Jensen has no side: the interval grows by phi both ways
    and is centred as it is.
    """
    op = sc.CustomOperator(
        value_function=lambda q: float(np.mean(q)),
        gradient_function=lambda q: np.full(len(q), 1 / len(q)),
        smooth=0.1,
        sums_to_one=True,
    )
    base = ground(Facts(2, 2, 0.5, op, (0.0, 1.0)))
    draw = backup(base, constant(base, None), None)
    level = plug_in(base, draw, ONE)
    phi = float(plug_in_noise(base.rule, ONE, draw.spread, draw.variance)[0, 0])
    assert level.width[0] == pytest.approx(float(draw.bias_span[0, 0]) + 2.0 * phi)
    assert level.shift[0] == pytest.approx(0.0, abs=1e-12)


# --- one draw, the root -------------------------------------------------------


@pytest.mark.parametrize("u", [1e-6, 1e-3, 0.1, 1.0, 5.0, 40.0])
def test_log_mgf_is_the_supremum_over_bernoulli_laws(u):
    """S4: no Bernoulli law of smaller variance has a larger log moment
    generating function, and one attains it.
    """
    for p in (0.01, 0.2, 0.5):
        bound = float(log_mgf(u, p))
        laws = np.linspace(1e-6, p, 4001)
        best = float(np.max(np.log1p(laws * np.expm1(u)) - laws * u))
        assert best <= bound * (1 + 1e-6) + 1e-15
        assert bound <= best * (1 + 1e-3) + 1e-15 or u < 1e-3
    assert float(log_mgf(u, 0.5)) <= u * u / 8.0


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5])
@pytest.mark.parametrize("n", [5, 40, 200])
def test_bennett_bounds_exact_binomial_tails(p, n):
    """P(mean >= p + t) <= exp(-n rate) for Bernoulli draws, and the rate is at
    least Hoeffding's and Bernstein's.
    """
    for t in (0.02, 0.1, 0.3):
        rate = stopping.bennett_rate(t, 1.0, p * (1 - p))
        above = float(binom.sf(math.ceil(n * (p + t) - 1e-9) - 1, n, p))
        below = float(binom.cdf(math.floor(n * (p - t) + 1e-9), n, p))
        assert max(above, below) <= math.exp(-n * rate) * (1 + 1e-9)
        assert rate >= 2 * t * t * (1 - 1e-9)
        assert rate >= t * t / (2 * p * (1 - p) + 2 * t / 3) * (1 - 1e-9)


def test_root_samples_is_minimal_and_inverts_the_radius():
    """n draws close t, n - 1 do not; Hoeffding alone would need log(40)/(2 *
    0.01) = 185.
    """
    level = math.log(2 * 2 / 0.1)
    n, name = stopping.root_samples(0.1, 1.0, 0.25, level)
    rate, _ = stopping.best_rate(0.1, 1.0, 0.25)
    assert name == "bennett"
    assert (n - 1) * rate < level <= n * rate
    assert n <= 185
    wider, narrower = (stopping.root_radius(m, 1.0, 0.25, level) for m in (n - 1, n))
    assert narrower <= 0.1 < wider
    assert (
        stopping.root_samples(0.1, 0.05, 0.0, level)[0] == 1
    )  # samples that cannot miss


@pytest.mark.parametrize("variance", [1e-3, 1e-20, 1e-40, 5e-324])
@pytest.mark.parametrize("n", [1, 10, 10**6])
def test_a_line_ends_at_the_radius_however_small_the_variance(variance, n):
    """A declared total leaves next to no variance; that once divided by 0."""
    slope = stopping.line_slope(n, 1.0, variance, 3.0)
    end = stopping.line_radius(n, slope, 1.0, variance, 3.0)
    assert end == pytest.approx(
        stopping.root_radius(n, 1.0, max(variance, 1e-300), 3.0), rel=1e-6
    )


def test_skew_probability_solves_its_equation():
    """p(1 - p) = sigma^2/R^2 with p <= 1/2."""
    p = float(skew_probability(2.0, 0.64))
    assert p * (1 - p) == pytest.approx(0.16)
    assert p <= 0.5
