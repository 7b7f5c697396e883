"""The promise of certified search under repetition: bounds miss no more often
than delta, and the test can fail.

Fixed seeds, so the outcome is fixed too. Were every run to miss with
probability exactly delta, the exact binomial test below would raise a false
alarm with probability at most 1e-3.
"""

import math

import numpy as np
from benchmarks.certified import certified as benchmark
from scipy.stats import binom

from smoothcruiser.certified.bounds.betting import POLE_COSTS, POLE_OFFSETS

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
