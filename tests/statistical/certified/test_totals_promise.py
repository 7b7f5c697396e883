"""Declared totals never shut out a true value.

Worlds made to break Lemma T: rewards of either sign, ends that come late, a horizon
that cuts episodes off, a min player alone, regularizers with ends
(``benchmarks/certified/totals.py``, which has its own solver). Fixed seeds.
"""

from dataclasses import replace

import pytest
from benchmarks.certified import totals
from scipy.stats import binom

import smoothcruiser as sc

WORLDS = range(48)  # every shape once, all but the longest cycle of operators


def test_bounds_before_the_first_call_hold_every_true_value():
    """V and Q of all states and stages lie in the bounds of facts and theory."""
    assert [totals.excluded(totals.world(n)) for n in WORLDS] == [0] * len(WORLDS)


def test_a_total_that_is_a_little_too_narrow_is_found_out():
    """The same test fails where the declared total leaves out a tenth of the true
    one on either side, so it can fail.
    """
    wrong = 0
    for n in WORLDS[::2]:
        world = totals.world(n)
        low, high = world.problem.total_reward_range
        cut = 0.1 * (high - low)
        narrow = replace(world.problem, total_reward_range=None)
        facts = replace(world.problem.facts, total_range=(low + cut, high - cut))
        narrow.__dict__["facts"] = facts
        wrong += totals.excluded(world._replace(problem=narrow)) > 0
    assert wrong >= 8


@pytest.mark.compiles
def test_certificates_hold_the_truth_as_often_as_promised():
    """Certified search on 16 worlds, twice each: misses as rare as delta allows, by
    an exact binomial test with a false alarm of 1e-3.
    """
    missed = [
        totals.misses(totals.world(n), seed, most_calls=800, methods=("certified",))
        for n in range(0, 48, 3)
        for seed in range(2)
    ]
    bad = sum(found["certified"] for found in missed if found)
    assert binom.sf(bad - 1, len(missed), totals.DELTA) > 1e-3


@pytest.mark.compiles
def test_rewards_that_are_stored_on_a_grid_stay_in_the_box():
    """Rewards of many values in [0.5, 0.51] are stored as 0.5 or 0.53125, beyond the
    declared total; the mean 0.505 stays inside every interval.
    """
    problem = sc.MDP(
        lambda s, a, rng: (0.5 + 0.01 * rng.random(), s, True),
        num_actions=1, discount=0.5, operator=sc.Max(), initial_state=0,
        terminal=True, total_reward_range=(0.5, 0.51),
    )  # fmt: skip
    for seed in range(8):
        answer = sc.plan(
            problem, method="certified", delta=0.1, budget=4_000, seed=seed
        )
        assert answer.interval[0] <= 0.505 <= answer.interval[1]
