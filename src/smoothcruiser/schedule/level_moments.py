"""Bias and range of each level of a table, recomputed from the table.

They are for readers (``text``, ``display``).

The numbers are those that a verifier of the table finds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.prices import Node, nodes
from smoothcruiser.schedule.verify.sharp import row_moments
from smoothcruiser.theory.paper_ladder import PaperConstants

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Schedule


@dataclass(frozen=True)
class LevelMoments:
    """Bias and range of one sample of a level, the worst over players and stages."""

    bias: float
    spread: float


def level_moments(schedule: Schedule) -> tuple[LevelMoments, ...]:
    """Return bias and range of every level, recomputed from the table.

    They come from ``theory.moments``, or from Lemma 2 for the paper's tables.
    """
    node_moments = (
        _paper_moments(schedule)
        if schedule.delta_prime is not None
        else _sharp_moments(schedule)
    )
    worst_moments = [LevelMoments(0.0, 0.0)] * len(schedule.levels)
    for (index, _), (bias, spread) in node_moments.items():
        worst_moments[index] = LevelMoments(
            max(bias, worst_moments[index].bias),
            max(spread, worst_moments[index].spread),
        )
    return tuple(worst_moments)


def _sharp_moments(schedule: Schedule) -> dict[Node, tuple[float, float]]:
    return {
        node: (
            float(np.max(m.bias)),
            math.inf if np.any(m.rare > 0.0) else float(np.max(m.high - m.low)),
        )
        for node, m in row_moments(schedule).items()
    }


def _paper_moments(schedule: Schedule) -> dict[Node, tuple[float, float]]:
    """Return the accuracies of Lemma 2, i, with ranges of Lemma 2, ii.

    Every sample that is not a constant lies in [-C_gamma, C_gamma].
    """
    constants = PaperConstants.of(schedule.facts, schedule.delta_prime)
    node_moments: dict[Node, tuple[float, float]] = {}
    no_moments = (math.nan, math.nan)
    for index, remaining in nodes(schedule):
        level = schedule.levels[index]
        steps_after = None if remaining is None else remaining - 1
        query, onward = (
            node_moments.get((child, steps_after), no_moments)[0]
            for child in (level.query, level.continuation)
        )
        estimator = estimator_of(level.kind)
        accuracy = estimator.paper_accuracy(constants, level, query, onward, remaining)
        spread = 0.0 if estimator.is_leaf else 2.0 * constants.ceiling
        node_moments[index, remaining] = (accuracy, spread)
    return node_moments
