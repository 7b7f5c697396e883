"""The estimator algebra and the root's bounds against numbers computed by hand, exact
binomial tails, and the samples themselves.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.theory import bets, randomized, stopping
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


# --- randomized levels, R0 and R5 of docs/randomized.md -----------------------


N0, RUNGS = 2, (0.3, 0.2, 0.05)
COUNT, LAST = np.array([float(N0)]), np.array([float(N0 * 2 ** len(RUNGS))])
CHANCES = np.array(RUNGS)[:, None]
FACTS = {
    "entropy": Facts(3, 3, 0.6, sc.Entropy(0.7), (0.0, 1.0)),
    "game": Facts(2, 2, 0.6, sc.Entropy(0.7), (0.0, 1.0), game=True),
    "ends": Facts(
        4, 2, 0.6, sc.Sparsemax(1.1), (-1.0, 2.0), game=True, terminals=True
    ),
}


def children(facts):
    """The backups of a plug-in and of a rollout over it, which are no mirror images."""
    base = ground(facts)
    leaf = backup(base, constant(base, None), None)
    query = backup(base, plug_in(base, leaf, np.array([5.0])), None)
    onward = rollout(base, query, np.array([4.0]), query, None)
    return base, query, backup(base, onward, None)


def same_bias(one, other):
    for name in ("bias_low", "bias_high", "shift"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-14
        )


@pytest.mark.parametrize("name", FACTS)
def test_a_randomized_rollout_has_the_bias_of_all_its_samples(name):
    base, query, onward = children(FACTS[name])
    terms = randomized.rollout_terms(base, query, COUNT, onward, len(RUNGS))
    made = randomized.random_rollout(base, query, COUNT, onward, None, CHANCES, terms)
    whole, first = (rollout(base, query, n, onward, None) for n in (LAST, COUNT))
    same_bias(made, whole)
    assert np.all(whole.width < 0.99 * first.width)
    added = np.sum(terms.second / CHANCES[:, None, :], axis=0)
    np.testing.assert_allclose(made.rare, onward.rare + added)
    assert np.all(made.variance <= first.variance + added + 1e-12)
    # what corrections add in the mean widens the part Y: it holds the plain rollout
    assert np.all(made.low <= whole.low)
    assert np.all(made.high >= whole.high)
    again = randomized.rollout_terms(
        base, query, COUNT, backup(base, made, None), len(RUNGS)
    )
    chain = randomized.random_rollout(
        base, query, COUNT, backup(base, made, None), None, CHANCES, again
    )
    passed = base.facts.discount**2 * base.after(made.rare, made.rare)[1]
    added = np.sum(again.second / CHANCES[:, None, :], axis=0)
    np.testing.assert_allclose(chain.rare, passed + added)


@pytest.mark.parametrize("name", [*FACTS, "max"])
def test_a_randomized_plug_in_has_the_bias_of_all_its_samples(name):
    plain = Facts(3, 3, 0.6, sc.Max(), (0.0, 1.0))
    facts = FACTS.get(name, plain)
    base = ground(facts)
    query = backup(base, constant(base, None), None)
    query = backup(base, plug_in(base, query, np.array([5.0])), None)
    terms = randomized.plug_in_terms(base, query, COUNT, len(RUNGS))
    made = randomized.random_plug_in(base, query, COUNT, CHANCES, terms)
    whole, first = (plug_in(base, query, n) for n in (LAST, COUNT))
    same_bias(made, whole)
    assert np.all(whole.width < 0.99 * first.width)
    added = np.sum(terms.second / CHANCES[:, None, :], axis=0)
    np.testing.assert_allclose(made.variance, first.variance + added)
    np.testing.assert_allclose(made.rare, added)


def test_a_second_moment_that_is_no_number_promises_nothing():
    second = np.array([[[np.nan]], [[0.5]]])
    none, ones = np.zeros_like(second), np.ones((2, 1))
    terms = randomized.Terms(second, none, ones, np.zeros(1))
    assert randomized._correction_variance(terms, 0.5 * ones)[0, 0] == np.inf


# --- the root that needs a second moment only, R8 -----------------------------


def test_the_line_ends_at_the_radius_and_is_no_narrower_before():
    n, second, level = 1000, 3.0, 4.0
    slope = stopping.catoni_slope(n, second, level)
    radius = math.sqrt(2.0 * second * level / n)
    assert stopping.catoni_radius(n, slope, second, level) == pytest.approx(radius)
    assert n * stopping.catoni_rate(radius, second) == pytest.approx(level)
    for fewer in (1, 10, 500):
        best = math.sqrt(2.0 * second * level / fewer)
        assert stopping.catoni_radius(fewer, slope, second, level) >= best
    assert stopping.catoni_radius(0, slope, second, level) == math.inf


def test_samples_without_a_range_are_its_case_alone():
    assert stopping.best_rate(0.1, math.inf, 2.0) == (
        stopping.catoni_rate(0.1, 2.0),
        "catoni",
    )
    samples, name = stopping.root_samples(0.1, math.inf, 2.0, 3.0)
    assert (samples, name) == (1200, "catoni")
    assert stopping.root_radius(samples, math.inf, 2.0, 3.0) == pytest.approx(0.1)
    assert stopping.best_rate(0.1, 5.0, 2.0)[1] != "catoni"


@pytest.mark.parametrize("jump", [1.0, 55.0, 1000.0])
def test_it_covers_samples_with_rare_jumps(jump):
    """Jumps of ``jump`` deviations, off centre; each side may miss in e^-level."""
    rng = np.random.default_rng(int(jump))
    n, runs, level = 400, 2000, math.log(2.0 / 0.2)
    chance = 1.0 / jump**2
    center, mean = 0.0, 0.4
    law = mean + math.sqrt(0.5) * jump * np.where(
        rng.random((runs, n)) < chance, rng.choice([-1.0, 1.0], (runs, n)), 0.0
    )
    law += math.sqrt(0.5) * rng.choice([-1.0, 1.0], (runs, n))
    second = 1.0 + mean**2
    slope = stopping.catoni_slope(n, second, level)
    x = slope * (law - center)
    scores = np.sign(x) * np.log1p(np.abs(x) + x * x / 2.0)
    line = np.arange(1, n + 1)
    estimates = center + np.cumsum(scores, axis=1) / (line * slope)
    radius = 0.5 * slope * second + level / (line * slope)
    missed = np.any(np.abs(estimates - mean) > radius, axis=1)  # at any count
    assert missed.mean() <= 0.2 + 4.0 * math.sqrt(0.16 / runs)
    assert np.abs(estimates[:, -1] - mean).max() > 0.2 * radius[-1]


# --- bets on a mean -----------------------------------------------------------


AT_THE_END = (0.0,) * len(
    bets.SHARES
)  # all poles at the end of the range are one pole


def test_samples_that_do_not_vary():
    """Law: with the pole at the end M of the range, n samples at x give M - (M - x)
    e^{-l/n} and x e^{-l/n}.
    """
    weights = [0] * 9
    weights[2] = 40 * 16
    low, high = bets.bet_interval(tuple(weights), 16, AT_THE_END, 3.0)
    assert high == pytest.approx(8.0 - 6.0 * math.exp(-3.0 / 40.0), abs=1e-9)
    assert low == pytest.approx(2.0 * math.exp(-3.0 / 40.0), abs=1e-9)


def wealth(x, q, poles):
    """The log of W_n(q) for samples in [0, 1], straight from its definition."""
    terms = [
        math.log(share) + float(np.sum(np.log(1.0 + t - x) - math.log(1.0 + t - q)))
        for share, t in zip(bets.SHARES, poles, strict=True)
    ]
    return float(np.logaddexp.reduce(terms))


@pytest.mark.parametrize("bins", [16, 256])
def test_a_histogram_gives_little_more_than_the_samples(bins):
    """Law: linear binning widens both ends, by O(1/bins^2); at the ends of the binned
    interval the bets on the samples themselves have won at least as much.
    """
    x = np.random.default_rng(1).beta(2.0, 5.0, 400)
    poles, level = bets.offsets(0.02, 1.0, 0.25), 4.0
    points = np.floor(x * bins).astype(int)
    share = np.floor((x * bins - points) * 2**24).astype(int)
    weights = np.zeros(bins + 1, dtype=int)
    np.add.at(weights, points, 2**24 - share)
    np.add.at(weights, points + 1, share)
    ends = bets.bet_interval(tuple(weights.tolist()), 2**24, poles, level)
    low, high = (end / bins for end in ends)
    assert low < float(x.mean()) < high
    for q, sample in ((high, x), (1.0 - low, 1.0 - x)):
        assert wealth(sample, q, poles) >= level - 1e-6
        assert wealth(sample, q - 3.0 / bins**2, poles) < level


def crossing(p, level, n, upper):
    """The exact probability that bets on Bernoulli(p) exclude p at some count <= n."""
    poles = bets.offsets(0.05, 1.0, 0.25)
    alive = {0: 1.0}  # ones so far -> probability that p was never excluded
    lost = 0.0
    for count in range(1, n + 1):
        after = {}
        for ones, chance in alive.items():
            for more, part in ((1, p), (0, 1.0 - p)):
                after[ones + more] = after.get(ones + more, 0.0) + chance * part
        alive = {}
        for ones, chance in after.items():
            low, high = bets.bet_interval((count - ones, ones), 1, poles, level)
            if p > high if upper else p < low:
                lost += chance
            else:
                alive[ones] = chance
    return lost


@pytest.mark.parametrize("p", [0.03, 0.3])
@pytest.mark.parametrize("upper", [False, True])
def test_bets_hold_at_every_count_at_once(p, upper):
    """Law: the exact chance of excluding the mean at any of 120 counts is at most
    e^-l on each side, and not far below: half the level would not do.
    """
    level = 2.0
    missed = crossing(p, level, 120, upper)
    assert math.exp(-1.8 * level) < missed <= math.exp(-level)


def test_rounding_is_on_the_safe_side_of_many_samples():
    """Law: 10^12 equal samples still leave room for the mean itself."""
    weights = [0] * 257
    weights[100] = 10**12
    low, high = bets.bet_interval(
        tuple(weights), 1, bets.offsets(1.0, 256.0, 128.0**2), 5.0
    )
    assert low < 100.0 < high
    assert high - low < 1e-6


def test_checkpoints_begin_where_samples_that_do_not_vary_would_stop():
    """Law: geometric counts; at the first one equal samples close the radius, and none
    can where the plan is short.
    """
    looks = bets.choose_checkpoints(0.01, 1.0, 2, 20_000, 0.05)
    level = bets.bet_level(2, 0.05)
    weights = [0] * 257
    weights[128] = looks[0]
    low, high = bets.bet_interval(
        tuple(weights), 1, bets.offsets(2.56, 256.0, 64.0), level
    )
    assert (high - low) / 2.0 <= 2.56 * 1.001
    assert all(a < b for a, b in pairwise((*looks, 20_000)))
    assert bets.choose_checkpoints(0.5, 1.0, 2, 10, 0.05) == ()
    assert bets.choose_checkpoints(0.1, 1.0, 2, 20, 0.05) == ()
