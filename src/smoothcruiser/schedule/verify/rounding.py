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


def rounding(schedule: Schedule, node_moments: dict[Node, Moments]) -> float:
    """Return how far rounding may move one sample at the root."""
    facts = schedule.facts
    row_ends = _row_ends(schedule, node_moments)
    value_scale = max(abs(x) for pair in row_ends.values() for x in pair)
    value_scale += math.sqrt(max(float(np.max(m.rare)) for m in node_moments.values()))
    value_scale += (
        2.0 * facts.reward_bound + facts.regularizer_bound + facts.operator.strength
    )
    curvature = facts.curvature if facts.curvature < math.inf else 0.0
    # for an operator, its gradient and the inner product: (8K + 24) u S of section 8
    operator_error = UNIT * (8 * facts.num_actions + 24) * value_scale
    # a reward that float32 rounds by the shape of its batch (section 8)
    operator_error += facts.reward_error
    row_errors: dict[int, float] = {}
    for row in sorted(row_ends):  # children stand before their parents
        level, center = schedule.levels[row], schedule.centers[row]
        row_errors[row] = operator_error
        if level.query >= 0:
            backup_low, backup_high = (
                r + facts.discount * x
                for r, x in zip(facts.reward_range, row_ends[level.query], strict=True)
            )
            sample_error = UNIT * max(
                abs(backup_low - center), abs(backup_high - center)
            )
            query_error = facts.discount * row_errors[level.query] + operator_error
            # how much an error of Q-hat moves D, where F has a curvature (section 8)
            error_factor = 1.0
            if level.continuation >= 0:
                error_factor = 2.0 + curvature * (backup_high - backup_low) / 2.0
            row_errors[row] += error_factor * (
                query_error + level.samples * sample_error
            )
            # a policy that is off by 2 curv e multiplies |xi'' - b|
            passed_root, around_root = _continuation_roots(schedule, row, node_moments)
            for j, chance in enumerate(level.rungs):
                if chance > 0.0:
                    mean_error = query_error + 2.0**j * level.samples * sample_error
                    rung_error = (
                        error_factor + 4.0 * curvature * around_root
                    ) * mean_error + 2.0 * operator_error
                    row_errors[row] += rung_error / math.sqrt(chance)
        if level.continuation >= 0:
            onward_factor = 1.0 + (passed_root if level.query >= 0 else 0.0)
            row_errors[row] += (
                onward_factor * facts.discount * row_errors[level.continuation]
            )
    return row_errors[schedule.root.child] + operator_error


def _row_ends(
    schedule: Schedule, node_moments: dict[Node, Moments]
) -> dict[int, tuple[float, float]]:
    """Return the ends of the samples of each row, at any number of steps left."""
    row_ends: dict[int, tuple[float, float]] = {}
    empty_ends = (0.0, 0.0) if schedule.facts.terminals else (math.inf, -math.inf)
    for (row, _), moments in node_moments.items():
        row_low, row_high = row_ends.get(row, empty_ends)
        row_ends[row] = (
            min(row_low, float(np.min(moments.low))),
            max(row_high, float(np.max(moments.high))),
        )
    return row_ends


def _continuation_roots(
    schedule: Schedule, row: int, node_moments: dict[Node, Moments]
) -> tuple[float, float]:
    """Return the shares of the continuation in corrections: roots of second moments.

    The first is that of sum_j E|delta_j|^2/p_j, and the second that of xi'' - b. Both
    are 0 for a plug-in, which has no continuation.
    """
    level = schedule.levels[row]
    used_rungs = [j for j, chance in enumerate(level.rungs) if chance > 0.0]
    if not used_rungs or level.continuation < 0:
        return 0.0, 0.0
    base, samples = ground(schedule.facts), np.array([float(level.samples)])
    passed_moment = around_moment = 0.0
    for index, remaining in node_moments:
        if index != row:
            continue
        steps_after = None if remaining is None else remaining - 1
        query, onward = (
            backup(base, node_moments[child, steps_after], steps_after)
            for child in (level.query, level.continuation)
        )
        terms = estimator_of(level.kind).terms(base, level, samples, query, onward)
        rung_shares = [
            float(np.max(terms.passed[j])) / level.rungs[j] for j in used_rungs
        ]
        passed_moment = max(passed_moment, sum(rung_shares))
        around_moment = max(around_moment, float(np.max(onward.about(level.constant))))
    return math.sqrt(passed_moment), math.sqrt(around_moment)
