"""Stops at moments that the samples choose: the intervals hold as if nobody stopped.

The world is made to break them: it stops the search whenever it sees a reward of 1, in
the middle of the call that would pay it. If that sample were dropped, only zeros
would be seen, and every run would miss. With delta = 0.2 the exact binomial test below
raises a false alarm with probability 1e-4.
"""

import pytest
from scipy.stats import binom

import smoothcruiser as sc

pytestmark = pytest.mark.compiles
DELTA, RUNS, STOPS = 0.2, 6, 120


class Spiteful:
    """Breaks off every call that would pay 1, but for its repetition."""

    def __init__(self, after=0):
        self.left, self.last = after, b""  # calls until it begins
        self.broke = 0  # calls that it broke off

    def __call__(self, state, action, rng):
        place, self.left = rng.words.tobytes(), self.left - 1
        reward = float(rng.random() < 0.5)
        if reward and place != self.last and self.left < 0:
            self.last, self.broke = place, self.broke + 1
            raise KeyboardInterrupt
        return reward, 0


def spiteful(step, discount):
    return sc.MDP(
        step, num_actions=1, discount=discount, operator=sc.Max(), initial_state=0
    )


def test_a_search_that_is_stopped_by_its_best_samples_holds(monkeypatch):
    one_sample = "smoothcruiser.certified.search_loop.SLICE_SECONDS"
    monkeypatch.setattr(one_sample, 0.0)
    missed = 0
    for seed in range(RUNS):
        step = Spiteful()
        memory = sc.Certified(spiteful(step, 0.5), delta=DELTA, seed=seed)
        step.left = 10**6
        memory.query(budget=30)  # inspects the step
        step.left = 0
        while step.broke < STOPS:
            low, high = memory.query(budget=200).interval
        missed += not low <= 1.0 <= high
    assert missed <= binom.isf(1e-4, RUNS, DELTA)


def test_an_evaluation_that_is_stopped_by_its_best_rollout_holds():
    """The rollout under way is dropped and none follows: the interval holds for
    every count, also for one that the next sample chose.
    """
    missed, seeds = 0, range(4 * RUNS)
    for seed in seeds:
        step = Spiteful(after=100 + seed)
        found = sc.evaluate(
            spiteful(step, 0.5), lambda s: [1.0], delta=DELTA, seed=seed
        )
        assert any("Stopped by hand" in note for note in found.notes)
        missed += not found.interval[0] <= 1.0 <= found.interval[1]
    assert missed <= binom.isf(1e-4, len(seeds), DELTA)
