"""The pooled event and the intervals that rest on it, counted over random problems."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.certified.sweeps import pooled

RUNS, PAIRS, OUTCOMES, STEPS, FIRST = 8_000, 4, 6, 240, 3
ALPHA = 0.1


def prices(samples, discoveries):
    """``log_price`` of arrays."""
    terms = [
        weight
        + np.log(rate)
        + gammaln(rate + discoveries)
        + gammaln(1.0 + samples - discoveries)
        - gammaln(rate + 1.0 + samples)
        for rate, weight in zip(pooled.RATES, pooled.RATE_LOGS, strict=True)
    ]
    return -logsumexp(np.array(terms), axis=0)


def failures(scale):
    """Runs in which the sum of m_r u_r ever exceeds ``scale`` times B.

    Pairs join after ``FIRST`` samples. The next pair is the one that may lose most, as
    far as the sample knows: choices depend on everything before.
    """
    rng = np.random.default_rng(17)
    shape = rng.choice([0.02, 0.1, 0.5], size=(RUNS, 1, 1))
    laws = rng.gamma(np.broadcast_to(shape, (RUNS, PAIRS, OUTCOMES))) + 1e-12
    laws /= laws.sum(axis=2, keepdims=True)
    counts = np.zeros((RUNS, PAIRS, OUTCOMES))
    seen_again, found = np.zeros((RUNS, PAIRS)), np.zeros(RUNS)
    row, failed = np.arange(RUNS), np.zeros(RUNS, dtype=bool)
    for step in range(STEPS):
        n = counts.sum(axis=2)
        pair = np.full(RUNS, step % PAIRS)
        if step >= FIRST * PAIRS:  # where outcomes seen once are the largest part
            pair = np.argmax((1.0 + (counts == 1).sum(axis=2)) / n, axis=1)
        law = laws[row, pair]
        outcome = (law.cumsum(axis=1) < rng.random((RUNS, 1))).sum(axis=1)
        outcome = np.minimum(outcome, OUTCOMES - 1)
        new = counts[row, pair, outcome] == 0
        joined = n[row, pair] >= FIRST
        found += joined & new
        seen_again[row, pair] += joined & ~new
        counts[row, pair, outcome] += 1
        unseen = (laws * (counts == 0)).sum(axis=2)
        price = -np.log(ALPHA) + prices(seen_again.sum(axis=1) + found, found)
        failed |= (seen_again * unseen).sum(axis=1) > scale * price
    return int(failed.sum())


def test_the_price_is_that_of_one_memory():
    for samples, discoveries in ((0, 0), (10, 0), (1e5, 0), (1e5, 7), (40, 40)):
        one = pooled.log_price(samples, discoveries)
        assert one == pytest.approx(float(prices(samples, discoveries)), abs=1e-6)


def test_the_pooled_event_fails_rarely():
    assert failures(1.0) <= binom.ppf(0.999, RUNS, ALPHA)


@pytest.mark.slow
def test_a_third_of_the_price_would_be_too_little():
    assert failures(1.0 / 3.0) > 0


def a_problem(rng):
    """A random chain of few outcomes, some of them rare, that pays rarely."""
    states, actions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    P = np.zeros((states, actions, states))
    rare = float(rng.choice([0.0, 0.003, 0.02]))
    for s in range(states):
        for a in range(actions):
            P[s, a, rng.integers(states)] += 1.0 - rare
            P[s, a, rng.integers(states)] += rare
    R = (rng.random((states, actions, states)) < 0.3).astype(float)
    operator = [sc.Entropy(0.1), sc.Max(), sc.Sparsemax(0.3)][int(rng.integers(3))]
    discount = float(rng.choice([0.5, 0.9]))
    return sc.tabular(
        P, R, discount=discount, operator=operator, reward_range=(0.0, 1.0)
    )


def misses(runs, delta, scale):
    """Runs with a bound that excludes an exact value, and runs that the pool helped."""
    missed = helped = 0
    for number in range(runs):
        rng = np.random.default_rng([17, number])
        problem = a_problem(rng)
        exact = sc.solve(problem)
        slack = float(exact.residual_bound) + 1e-12
        memory = sc.Certified(problem, delta=delta, seed=number, bound="pooled")
        memory.radius_scale = scale
        try:
            for _ in range(4):
                estimate = memory.query(budget=int(10.0 ** rng.uniform(2.0, 3.5)))
        except sc.OracleError:  # bounds that exclude each other
            missed += 1
            continue
        assert isinstance(memory.region, pooled.PooledRegion)
        helped += memory.region.num_helped > 0
        low, high = estimate.interval
        wrong = not low - slack <= exact.values[0] <= high + slack
        for action, (low, high) in enumerate(memory.table()[0].q_intervals):
            q = sum(
                p * (r + problem.discount * exact.values[z])
                for p, r, z in problem.tables.outcomes(0, action)
            )
            wrong = wrong or not low - slack <= q <= high + slack
        missed += wrong
    return missed, helped


@pytest.mark.slow
def test_pooled_intervals_hold():
    runs, delta = 120, 0.2
    missed, helped = misses(runs, delta, 1.0)
    assert missed <= binom.ppf(0.999, runs, delta)
    assert missed <= 3  # far fewer: the union over pairs is paid in full
    assert helped > runs // 2


@pytest.mark.slow
def test_radii_that_are_too_small_are_noticed():
    missed, _ = misses(100, 0.2, 0.05)
    assert missed >= 10
