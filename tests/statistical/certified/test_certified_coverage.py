"""The promise of certified search under repetition: bounds miss no more often
than delta, and the test can fail.

Fixed seeds, so the outcome is fixed too. Were every run to miss with
probability exactly delta, the exact binomial test below would raise a false
alarm with probability at most 1e-3.
"""

import math

import numba
import numpy as np
import pytest
from benchmarks.certified import certified as benchmark
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.certified.bounds import counts, law
from smoothcruiser.certified.bounds.base import WALK, BoundRules, Outcomes
from smoothcruiser.certified.bounds.betting import POLE_COSTS, POLE_OFFSETS
from smoothcruiser.certified.graph import NODE, free_entries, pair_type
from smoothcruiser.certified.sweeps import pooled
from smoothcruiser.jit.build import compile_function

FALSE_ALARM = 1e-3


def too_many(misses, runs, delta):
    """Whether so many misses have a probability below FALSE_ALARM if each run
    misses with probability delta.
    """
    return bool(binom.sf(misses - 1, runs, delta) < FALSE_ALARM)


def test_every_bound_of_every_state_seen_holds():
    """Eight families of problems, all operators, discounts to 0.99: all bounds
    at once miss in at most delta of the runs; nested.
    """
    results = [benchmark.one_run(i, most_calls=10_000, delta=0.1) for i in range(240)]
    assert {r[0] for r in results} == set(benchmark.FAMILIES)
    assert all(r[2] for r in results)
    assert not too_many(sum(r[1] for r in results), len(results), 0.1)


def test_radii_divided_by_four_are_found_out():
    """The same test on the families where radii have nothing to hide behind
    fails when radii are a quarter of what they must be.
    """
    numbers = [
        i
        for i in range(480)
        if list(benchmark.FAMILIES)[i % len(benchmark.FAMILIES)] in ("coin", "ends")
    ]
    results = [
        benchmark.one_run(i, most_calls=10_000, delta=0.1, radius_scale=0.25)
        for i in numbers
    ]
    assert too_many(sum(r[1] for r in results), len(results), 0.1)


def share_that_fails(draw, mean, alpha, scale=1.0):
    """In how many of 1,000 sequences of 600 draws on [0, 1] any pole's upper
    bound falls below the mean at any n.
    """
    rng = np.random.default_rng(0)
    x = draw(rng, (1_000, 600))
    n = np.arange(1, x.shape[1] + 1)
    running = np.cumsum(x, axis=1) / n
    failed = np.zeros(len(x), dtype=bool)
    for offset, price in zip(POLE_OFFSETS, POLE_COSTS, strict=True):
        pole = 1.0 + offset
        with np.errstate(divide="ignore"):
            mean_log = np.cumsum(np.log(pole - x), axis=1) / n
        bound = pole - np.exp(mean_log - (math.log(1.0 / alpha) + price) / n)
        failed |= np.any(running + (bound - running) * scale < mean - 1e-12, axis=1)
    return float(failed.mean())


def test_one_pair_holds_for_all_n_at_once():
    """Lemma 1 under the union over poles: fails in at most alpha of the
    sequences, looked at after every draw; a quarter radius fails.
    """
    alpha = 0.2
    laws = [
        (lambda rng, size: (rng.random(size) < 0.5).astype(float), 0.5),
        (lambda rng, size: (rng.random(size) < 0.02).astype(float), 0.02),
        (lambda rng, size: rng.random(size), 0.5),
        (lambda rng, size: np.where(rng.random(size) < 0.99, 0.3, 1.0), 0.307),
    ]
    for draw, mean in laws:
        share = share_that_fails(draw, mean, alpha)
        assert not too_many(round(1_000 * share), 1_000, alpha)
    # not vacuous: some sequences do reach the bound
    assert share_that_fails(*laws[0], alpha) > 0.01
    assert too_many(
        round(1_000 * share_that_fails(*laws[0], alpha, scale=0.25)), 1_000, alpha
    )


def test_every_run_reaches_epsilon_on_bernoulli_rewards():
    """Random MDPs and games with rewards 0 and 1, discounts to 0.99: no run
    stops short, and bounds miss at most delta.
    """
    results = [benchmark.one_reach(i, delta=0.1) for i in range(48)]
    assert all(r[1] for r in results)
    assert {r[0] for r in results} == set(benchmark.REACH_DISCOUNTS)
    assert not too_many(sum(r[2] for r in results), len(results), 0.1)


def test_the_price_that_explain_states_suffices():
    """A budget of exactly that price is enough, also where every steered draw
    is wasted on one pair.
    """
    for kind in (benchmark.Certified, benchmark.Wasteful):
        results = [benchmark.one_certain(i, delta=0.1, kind=kind) for i in range(24)]
        assert all(r[1] for r in results)
        assert all(r[4] <= 1.0 for r in results)
        assert not too_many(sum(r[2] for r in results), len(results), 0.1)


LAW_ALPHA, LAW_RUNS, WIDEST, LAST = 0.1, 20_000, 6, 2_000
# 2 exp(-cost) is the pair's alpha, of which the law has 3/4
COST = -math.log(LAW_ALPHA / 2.0 / 0.75)


def random_laws(rng):
    """(LAW_RUNS, WIDEST) probabilities, 0 beyond the outcomes of a law."""
    sizes = rng.integers(1, WIDEST + 1, LAW_RUNS)
    mass = rng.gamma(
        rng.choice([0.3, 1.0, 5.0], LAW_RUNS)[:, None], 1.0, (LAW_RUNS, WIDEST)
    )
    rare = 10.0 ** rng.uniform(-3.0, -1.0, LAW_RUNS)
    some = (rng.random(LAW_RUNS) < 0.5) & (sizes > 1)
    mass[np.arange(WIDEST) >= sizes[:, None]] = 0.0
    mass /= mass.sum(axis=1, keepdims=True)
    mass[some] *= 1.0 - rare[some, None]
    mass[some, 0] += rare[some]
    mass[(mass > 0.0) & (mass < 1e-3)] = 1e-3
    return mass / mass.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def loop():
    """Bound all pairs on both sides, each with its own least probability."""
    refresh, side = compile_function(counts.refresh), compile_function(law.law_side)

    @numba.njit
    def run(g, least, lower, upper):
        for i in range(len(least)):
            rules = BoundRules(1.0, 1.0, least[i], 0.0)
            refresh(g, i, rules)
            lower[i] = side(g, i, False, WALK, rules)
            upper[i] = side(g, i, True, WALK, rules)

    return run


def graph_of(f, counts, pairs):
    """The seen outcomes of each run in a row, and the node of each outcome's f."""
    nodes = np.zeros(1 + LAW_RUNS * WIDEST, NODE)
    nodes["q_high"] = 1.0
    nodes["lower"][1:] = nodes["upper"][1:] = f.ravel()
    entries = free_entries(LAW_RUNS * WIDEST)
    order = np.argsort(counts == 0, axis=1, kind="stable")
    entries.weight[:] = np.take_along_axis(counts, order, axis=1).ravel()
    rows = np.arange(LAW_RUNS)[:, None] * WIDEST
    entries.target[:] = (1 + rows + order).ravel()
    pairs["start"] = rows[:, 0]
    pairs["length"], pairs["total"] = (counts > 0).sum(axis=1), counts.sum(axis=1)
    return Outcomes(nodes, pairs, entries)


def law_misses(loop, cost, *, declared):
    """Shares of runs that miss at some n: event, either bound, and the certificate.

    The last number is the share of runs whose support was certified.
    """
    rng = np.random.default_rng(7)
    laws = random_laws(rng)
    f = np.where(rng.random((LAW_RUNS, 1)) < 0.5, rng.random((LAW_RUNS, WIDEST)), 0.0)
    f = np.where(f == 0.0, rng.integers(0, 2, (LAW_RUNS, WIDEST)), f)
    value = (laws * f).sum(axis=1)
    positive = np.where(laws > 0.0, laws, 1.0)
    least = positive.min(axis=1) if declared else np.zeros(LAW_RUNS)
    pairs = np.zeros(LAW_RUNS, pair_type(law.LAW.fields))
    pairs["cost"] = cost
    counts = np.zeros((LAW_RUNS, WIDEST))
    lower, upper = np.zeros(LAW_RUNS), np.zeros(LAW_RUNS)
    missed = np.zeros((3, LAW_RUNS), bool)
    n = 0
    while n < LAST:
        more = max(1, min(n // 3, LAST - n))
        n += more
        counts += rng.multinomial(more, laws)
        g = graph_of(f, counts, pairs)
        loop(g, least, lower, upper)
        again = np.maximum(counts - 1.0, 0.0)
        p = again / np.maximum(again.sum(axis=1, keepdims=True), 1.0)
        excess = np.where(
            again > 0.0, again * np.log(np.where(p > 0, p, 1) / positive), 0
        )
        repeats = again.sum(axis=1) > 0.0
        missed[0] |= repeats & (excess.sum(axis=1) > pairs["law_beta"] + 1e-9)
        missed[1] |= (value > upper + 1e-12) | (value < lower - 1e-12)
        unseen = ((counts == 0) & (laws > 0.0)).any(axis=1)
        missed[2] |= (pairs["law_complete"] == 1) & unseen
    certified = float((pairs["law_complete"] == 1).mean())
    return (*missed.mean(axis=1), certified)


@pytest.mark.compiles
@pytest.mark.parametrize("declared", [False, True])
def test_the_event_and_what_follows_hold_at_all_n(loop, declared):
    event, bounds, support, certified = law_misses(loop, COST, declared=declared)
    assert bounds <= LAW_ALPHA
    assert support <= LAW_ALPHA
    assert event <= LAW_ALPHA
    assert max(bounds, support) <= event  # they follow from it, but for long runs
    assert (certified > 0.6) == declared


@pytest.mark.compiles
def test_a_thousand_times_alpha_misses(loop):
    """The runs can tell: this test keeps the ones above from passing idly."""
    event, bounds, support, _ = law_misses(loop, COST - math.log(1e3), declared=True)
    assert event > LAW_ALPHA
    assert bounds > LAW_ALPHA
    assert support > LAW_ALPHA


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
