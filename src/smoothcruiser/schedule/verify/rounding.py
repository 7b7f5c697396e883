"""How far floating point may move one sample at the root.

It adds up row by row (docs/theory.md, section 8). Where corrections are made by
chance, an error of size e in one that is made with probability p and divided by p
counts as e/sqrt(p): that is its root mean square, and it bounds the mean
(docs/randomized.md, R10).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.nodes import Node
from smoothcruiser.theory.ground import ground
from smoothcruiser.theory.moments import Moments, backup

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Schedule

UNIT = 2.0**-53  # the largest relative error of one operation in double precision


def rounding(schedule: Schedule, known: dict[Node, Moments]) -> float:
    """Return how far rounding may move one sample at the root."""
    facts = schedule.facts
    ends = _ends(schedule, known)
    scale = max(abs(x) for pair in ends.values() for x in pair)
    scale += math.sqrt(max(float(np.max(m.rare)) for m in known.values()))
    scale += (
        2.0 * facts.reward_bound + facts.regularizer_bound + facts.operator.strength
    )
    curvature = facts.curvature if facts.curvature < math.inf else 0.0
    # for an operator, its gradient and the inner product: (8K + 24) u S of section 8
    few = UNIT * (8 * facts.num_actions + 24) * scale
    # a reward that float32 rounds by the shape of its batch (section 8)
    few += facts.reward_error
    worst: dict[int, float] = {}
    for row in sorted(ends):  # children stand before their parents
        level, center = schedule.levels[row], schedule.centers[row]
        worst[row] = few
        if level.query >= 0:
            low, high = (
                r + facts.discount * x
                for r, x in zip(facts.reward_range, ends[level.query], strict=True)
            )
            each = UNIT * max(abs(low - center), abs(high - center))
            asked = facts.discount * worst[level.query] + few
            # how much an error of Q-hat moves D, where F has a curvature (section 8)
            grown = 1.0
            if level.continuation >= 0:
                grown = 2.0 + curvature * (high - low) / 2.0
            worst[row] += grown * (asked + level.samples * each)
            # a policy that is off by 2 curv e multiplies |xi'' - b|
            passed, around = _passed(schedule, row, known)
            for j, chance in enumerate(level.rungs):
                if chance > 0.0:
                    mean = asked + 2.0**j * level.samples * each
                    error = (grown + 4.0 * curvature * around) * mean + 2.0 * few
                    worst[row] += error / math.sqrt(chance)
        if level.continuation >= 0:
            share = 1.0 + (passed if level.query >= 0 else 0.0)
            worst[row] += share * facts.discount * worst[level.continuation]
    return worst[schedule.root.child] + few


def _ends(
    schedule: Schedule, known: dict[Node, Moments]
) -> dict[int, tuple[float, float]]:
    """Return the ends of the samples of each row, at any number of steps left."""
    ends: dict[int, tuple[float, float]] = {}
    start = (0.0, 0.0) if schedule.facts.terminals else (math.inf, -math.inf)
    for (row, _), moments in known.items():
        low, high = ends.get(row, start)
        ends[row] = (
            min(low, float(np.min(moments.low))),
            max(high, float(np.max(moments.high))),
        )
    return ends


def _passed(
    schedule: Schedule, row: int, known: dict[Node, Moments]
) -> tuple[float, float]:
    """Return what corrections take of the continuation, as roots of second moments.

    The first is that of sum_j E|delta_j|^2/p_j, and the second that of xi'' - b. Both
    are 0 for a plug-in, which has no continuation.
    """
    level = schedule.levels[row]
    used = [j for j, chance in enumerate(level.rungs) if chance > 0.0]
    if not used or level.continuation < 0:
        return 0.0, 0.0
    base, samples = ground(schedule.facts), np.array([float(level.samples)])
    passed = around = 0.0
    for index, remaining in known:
        if index != row:
            continue
        after = None if remaining is None else remaining - 1
        query, onward = (
            backup(base, known[child, after], after)
            for child in (level.query, level.continuation)
        )
        terms = estimator_of(level.kind).terms(base, level, samples, query, onward)
        each = [float(np.max(terms.passed[j])) / level.rungs[j] for j in used]
        passed = max(passed, sum(each))
        around = max(around, float(np.max(onward.about(level.constant))))
    return math.sqrt(passed), math.sqrt(around)
