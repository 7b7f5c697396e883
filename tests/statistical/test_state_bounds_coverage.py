"""Levels over bounds that depend on the state keep their moments, and intervals hold.

The bounds are the worst that the claim allows: V is their lower end, their upper
end, or either by turns, so that every leaf is off by half the gap. A sample mean is
4.5 standard errors off once in 100,000 tests.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.interpreted.python import PythonEngine
from smoothcruiser.engines.shards import Shard
from smoothcruiser.schedule.kinds import KINDS
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule
from smoothcruiser.schedule.verify.sharp import row_moments
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import Moments, backup

Z = 4.5
DRAWS = 1200
SIZE = 5
SKEWS = {"lower": lambda s: 0.0, "upper": lambda s: 1.0, "turns": lambda s: s % 2}


def world(name):
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(SIZE, 0.4), (SIZE, 2))
    R = rng.integers(0, 2, (SIZE, 2, SIZE)).astype(float)
    turns = np.arange(SIZE) % 2 + 1
    options = {
        "MDP": {},
        "game with ends": {"players": turns, "terminal": np.arange(SIZE) == 4},
        "horizon": {"horizon": 3},
    }[name]
    return sc.tabular(P, R, discount=0.6, operator=sc.Entropy(0.5), **options)


def bounded(problem, skew):
    """Bounds 0.3 wider than the values at every number of steps left from 1 on."""
    solution = sc.solve(problem)
    values = solution.values[None] if solution.stages is None else solution.stages[1:]
    least, most = values.min(axis=0) - 1e-9, values.max(axis=0) + 1e-9

    def lower(state):
        return float(least[state] - 0.3 * skew(state))

    def upper(state):
        return float(most[state] + 0.3 * (1.0 - skew(state)))

    gap = max(upper(s) - lower(s) for s in range(SIZE))
    return replace(problem, value_bounds=(lower, upper), value_gap=gap), solution


def tower(facts):
    """A middle, a plug-in over it, a rollout that asks both, all centred."""
    shape = (
        Level(Kind.MIDDLE),
        Level(Kind.PLUGIN, samples=2, query=0),
        Level(Kind.ROLLOUT, samples=2, query=0, continuation=1),
    )
    steps = facts.horizon
    base, rows, made = ground(facts), [], []
    for i, row in enumerate(shape):
        left = None if steps is None else steps - (len(shape) - 1 - i)
        below = None if left is None else left - 1
        query, onward = (
            backup(base, made[child], below) if child >= 0 else None
            for child in (row.query, row.continuation)
        )
        counts = np.array([float(row.samples)])
        moments = KINDS[row.kind].moments(base, counts, query, onward, left)
        rows.append(KINDS[row.kind].finish_row(row, moments))
        made.append(moments)
    return tuple(rows)


def claims(schedule, problem) -> Moments:
    return row_moments(schedule)[schedule.root.child, problem.horizon]


@pytest.mark.parametrize("name", ["MDP", "game with ends"])
@pytest.mark.parametrize("skew", SKEWS)
def test_levels_over_a_middle_keep_their_moments(name, skew):
    problem, solution = bounded(world(name), SKEWS[skew])
    rows = tower(problem.facts)
    for top in range(3):  # the middle itself is off by half the gap, exactly
        root = Root("value", DRAWS, top, "none")
        schedule = Schedule(
            "hand", problem.facts, rows[: top + 1], root, math.inf, 1.0
        )
        made = claims(schedule, problem)
        for state in (0, 1):
            player = problem.mover(state) - 1
            job = Job(problem, schedule, state, float(solution.values[state]))
            found = PythonEngine(job).run_shard(Shard(0, state, 0, DRAWS), 7)
            mean = found.total / DRAWS  # of the distances to V
            variance = max(0.0, found.square / DRAWS - mean * mean)
            error = Z * math.sqrt(variance / DRAWS) + 1e-9
            assert made.bias_low[player, 0] - error <= mean
            assert mean <= made.bias_high[player, 0] + error
            assert variance <= made.variance[player, 0] * 1.2 + 1e-9


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
@pytest.mark.parametrize("name", ["MDP", "game with ends", "horizon"])
def test_intervals_hold_the_truth(name, method):
    """Of 12 runs at delta = 0.1, six or more miss once in 1,800 tests."""
    misses = 0
    for seed, skew in enumerate(4 * list(SKEWS.values())):
        problem, solution = bounded(world(name), skew)
        found = sc.plan(problem, 0, method=method, epsilon=0.35, delta=0.1, seed=seed)
        low, high = found.interval
        misses += not low - 1e-8 <= solution.values[0] <= high + 1e-8
    assert misses < 6
