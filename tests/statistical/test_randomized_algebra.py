"""Randomized levels by simulation: mean and variance of every row of tables that are
made to attain the bounds, in MDPs and games, with two to ten actions.

The sampler is the plain one of ``test_sharp_algebra``. That the mean is exactly that
of more samples, and that mutations are seen, is in ``unit/engines``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_sharp_algebra import Sampler, coin, good_bad, hidden, misses, ragged, turns

import smoothcruiser as sc
from smoothcruiser.schedule.kinds import KINDS, Kind
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import Moments, backup

RUNS = 700
RUNGS = (0.3, 0.15, 0.05)


def table(problem, kind, first=1):
    """A constant, a rollout or plug-in over it, and two randomized levels over both."""
    base = ground(problem.facts)
    smooth = problem.facts.curvature < math.inf
    levels: list[sc.Level] = []
    made: list[Moments] = []

    def add(level: sc.Level):
        query, onward = (
            backup(base, made[child], None) if child >= 0 else None
            for child in (level.query, level.continuation)
        )
        n = np.array([float(level.samples)])
        estimator = KINDS[level.kind]
        moments = estimator.of_row(base, level, n, None, query, onward, None)
        levels.append(estimator.finish_row(level, moments))
        made.append(moments)

    add(sc.Level(Kind.CONSTANT))
    add(sc.Level(Kind.ROLLOUT, 2, 0, 0) if smooth else sc.Level(Kind.PLUGIN, 2, 0))
    onward = 1 if kind == Kind.RANDOM_ROLLOUT else -1
    add(sc.Level(kind, first, 1, onward, rungs=RUNGS))
    if (
        kind == Kind.RANDOM_ROLLOUT
    ):  # a chain: corrections that continue at corrections
        add(sc.Level(kind, first, 1, 2, rungs=RUNGS))
        add(sc.Level(Kind.ROLLOUT, 2, 1, 3))
    return levels, made


def check_level(problem, sampler, index, claim, runs=RUNS):
    truth = problem.exact(None)
    for s in np.nonzero(~problem.terminal)[0]:
        draws = sampler.draw(index, np.full(runs, s))
        assert not list(misses(problem, draws, s, truth[s], claim))


CASES = {
    "coin": coin(sc.Entropy(0.5), 0.5),
    "coin, ten actions": coin(sc.Entropy(1.0), 0.4, k=10),
    "good or bad": good_bad(sc.Entropy(0.5), 0.5),
    "good or bad, sparsemax": good_bad(sc.Sparsemax(1.9137), 0.5),
    "good or bad, square root": good_bad(sc.SquareRoot(2.0), 0.5),
    "hidden reward, KL": hidden(sc.KL(1.0, (0.3, 0.7)), 0.6),
    "alternating game": turns(sc.Entropy(0.7), 0.5, alternating=True),
    "game": turns(sc.Entropy(0.7), 0.5, alternating=False),
    "ragged": ragged(sc.Entropy(0.7), 0.5),
}


SLOW = {"coin, ten actions", "alternating game", "good or bad, square root"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else []) for x in CASES],
)
@pytest.mark.parametrize("kind", [Kind.RANDOM_ROLLOUT, Kind.RANDOM_PLUGIN])
def test_randomized_levels_keep_their_claims(kind, name):
    problem = CASES[name]
    levels, made = table(problem, kind)
    sampler = Sampler(problem, tuple(levels), seed=5)
    for index in range(2, len(levels)):
        check_level(problem, sampler, index, made[index], RUNS // index)


def test_a_randomized_plug_in_serves_plain_max():
    problem = coin(sc.Max(), 0.4, k=3)
    levels, made = table(problem, Kind.RANDOM_PLUGIN)
    sampler = Sampler(problem, tuple(levels), seed=2)
    check_level(problem, sampler, 2, made[2])
