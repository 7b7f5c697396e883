"""The betting root on laws made to break it, and proof that a broken one is noticed.

One step with a reward of two values: the root samples Q itself, without any bias, so
nothing but its own bounds keeps the promise. A run fails if at any second checkpoint, or at
the end, the interval of any action misses the truth: that is more than a stop can do.
Seeds are fixed; the false-alarm rate of a binomial test, had they been free, is 1e-4.
benchmarks/coverage/root_coverage.py does the same at length, with engines and games.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.engines.root_scores import add_scores
from smoothcruiser.engines.run import RootSums
from smoothcruiser.engines.stopping_rule import StoppingRule, stopping_rule
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule

DELTA, RUNS = 0.02, 100
FACTS = Facts(2, 2, 0.5, sc.Max(), (0.0, 1.0), horizon=1)
SCHEDULE = compile_schedule(FACTS, epsilon=0.06, delta=DELTA)
RULE = stopping_rule(SCHEDULE)
# (low value, high value, chance of the high one)
LAWS = {
    "fair coin": (0.0, 1.0, 0.5),
    "rare high": (0.0, 1.0, 0.01),
    "skewed": (0.0, 1.0, 0.06),
    "rare low": (0.0, 1.0, 0.985),
    "near the edge": (0.96, 1.0, 0.2),
    "between two bins": (0.3031, 0.3107, 0.5),
}


def failures(rule: StoppingRule, law: tuple[float, float, float], seed: int) -> int:
    """How many of ``RUNS`` runs of two actions miss the truth at any checkpoint."""
    low, high, chance = law
    truth = low + chance * (high - low)
    counts = (0, *SCHEDULE.root.looks[::2], SCHEDULE.root.samples)
    one, other = (
        (x, add_scores(rule.score, [x])) for x in (d - rule.center for d in law[:2])
    )
    rng = np.random.default_rng(seed)
    failed = 0
    for _ in range(RUNS):
        missed = False
        for _ in range(2):
            wins = 0
            for before, after in pairwise(counts):
                wins += int(rng.binomial(after - before, chance))
                total = wins * other[0] + (after - wins) * one[0]
                bins = zip(one[1], other[1], strict=True)
                score = tuple((after - wins) * a + wins * b for a, b in bins)
                middle, half = rule.ball(RootSums(after, total, 0.0, score))
                missed |= abs(middle - truth) > half
        failed += missed
    return failed


def tail(failed: int) -> float:
    """The chance of so many failures if each had probability delta."""
    return float(binom.sf(failed - 1, RUNS, DELTA))


def test_the_root_has_nothing_but_its_bounds():
    assert RULE.promise.bias == 0.0
    assert len(SCHEDULE.root.looks) > 20


@pytest.mark.parametrize("name", LAWS)
def test_no_checkpoint_excludes_the_truth(name):
    """Law: all intervals of a run hold at once with probability 1 - delta."""
    failed = failures(RULE, LAWS[name], len(name))
    assert tail(failed) > 1e-4, failed


def test_half_the_level_is_noticed():
    """Mutation: log(1/alpha) halved."""
    broken = replace(RULE.promise, bet_level=0.5 * RULE.promise.bet_level)
    failed = failures(replace(RULE, promise=broken), LAWS["skewed"], 1)
    assert tail(failed) < 1e-3, failed


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_is_dropped_is_noticed(side, monkeypatch):
    """Mutation: one end of the bets at the mean itself."""
    whole = StoppingRule._bet_ends

    def broken(self: StoppingRule, tally: RootSums) -> tuple[float, float]:
        ends = list(whole(self, tally))
        ends[side] = self.mean(tally)
        return ends[0], ends[1]

    monkeypatch.setattr(StoppingRule, "_bet_ends", broken)
    assert tail(failures(RULE, LAWS["fair coin"], 2)) < 1e-4


def test_the_least_interval_keeps_epsilon():
    """Law: at the last count no law has a wider interval than epsilon."""
    for name in LAWS:
        low, high, chance = LAWS[name]
        count = SCHEDULE.root.samples
        wins = round(count * chance)
        parts = [add_scores(RULE.score, [x - RULE.center]) for x in (low, high)]
        score = tuple(
            (count - wins) * a + wins * b for a, b in zip(*parts, strict=True)
        )
        total = wins * (high - RULE.center) + (count - wins) * (low - RULE.center)
        half = RULE.ball(RootSums(count, total, 0.0, score))[1]
        assert half <= SCHEDULE.epsilon * (1.0 + 1e-9)
        assert math.isfinite(half)
