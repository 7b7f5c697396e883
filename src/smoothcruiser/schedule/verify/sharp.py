"""An independent check of a sharp schedule, from the table and the facts alone.

The promise is recomputed bottom up.

For each row (and, with a horizon, each number of remaining steps at which the
root can reach it) the moments of ``theory.moments`` are recomputed with the
row's own constant and shift. Then the root's samples must close epsilon at
delta - adaptive_delta. A constant must be the middle of its bounds, and a row's
shift the one that centres it: in a table that was altered anywhere below a
shift, the shift no longer does. This file leaves out whether the theory is
right (docs/theory.md, tests/statistical) and whether the table is cheap
(``optimizer``).

How far floating point may move one sample at the root.

It adds up row by row (docs/theory.md, section 8). Where corrections are made by
chance, an error of size e in one that is made with probability p and divided by p
counts as e/sqrt(p): that is its root mean square, and it bounds the mean
(docs/randomized.md, R10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.kinds.base import TOLERANCE
from smoothcruiser.schedule.prices import Node, children, root_node
from smoothcruiser.theory.analysis import Ground, ground
from smoothcruiser.theory.bets import bet_level
from smoothcruiser.theory.moments import Backup, Moments, backup, itself
from smoothcruiser.theory.stopping import (
    ROOT_BOUNDS,
    best_rate,
    catoni_slope,
    root_radius,
)

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import Level, PricedTable


@dataclass(frozen=True)
class SecondMoment:
    """Bounds on the samples Y of a root where these have no range.

    The estimate is c + sum of psi(alpha (Y - c))/(n alpha).
    """

    centers: tuple[float, ...]  # c, per player to move at the root
    second: float  # E (Y - c)^2 is at most this
    alpha: float


@dataclass(frozen=True)
class RootPromise:
    """Bounds on one sample at the root, and the joint promise of all of them.

    An executor stops and reports by it.
    """

    # per player to move at the root: one sample, or its part Y (docs/randomized.md,
    # Lemma V), lies in [low, high]
    low: tuple[float, ...]
    high: tuple[float, ...]
    spread: float  # R: the longer of those intervals
    variance: float  # an upper bound on the variance of one sample
    bias: float  # |E sample - truth| is at most this
    # |mean - E sample| is at most this for all actions, with probability
    # 1 - (delta - adaptive_delta)
    radius: float
    # log of 1/(share of one side of one mean) of that promise, as far as the verifier
    # insists on it: at this level the line at the last count is within the radius
    level: float
    # how many means the union bound is over: the actions, or 1 for target "value"
    means: int
    # log of 1/(share of one side of one mean) of the bets on the data; nan where they
    # have no share of delta
    bet_level: float
    # how far floating point may move one sample (docs/theory.md, section 8)
    rounding: float
    # where a second moment is all that is known of a sample (bound "catoni")
    moment: SecondMoment | None = None

    @property
    def half_width(self) -> float:
        """The radius plus the bias: at most epsilon."""
        return self.radius + self.bias


def verify_sharp(schedule: PricedTable) -> None:
    """Raise ``BrokenPromise``, naming the level, unless the table keeps its promise."""
    _check_promise(schedule)
    root_backup, _ = _root_backup(schedule)
    bias, spread, variance = _root_numbers(schedule, root_backup)
    root = schedule.root
    slack = schedule.epsilon * (1.0 + TOLERANCE) - bias
    level = _promise_level(schedule)
    # moments that are no numbers, or below 0, keep nothing either
    is_sound = slack > 0.0 and min(spread, variance) >= 0.0
    if not is_sound or not root.samples * best_rate(slack, spread, variance)[
        0
    ] >= level * (1.0 - TOLERANCE):
        raise BrokenPromise(
            f"The root's {root.samples} draws of level {root.child} do not keep "
            f"epsilon={schedule.epsilon:g} at delta={schedule.delta:g}: "
            f"the level's bias takes {bias:g} of it; raise the root's samples or the "
            "samples of the levels below."
        )


def root_promise(schedule: PricedTable) -> RootPromise:
    """Return the moments of one sample at the root and the radius of their mean."""
    root_backup, node_moments = _root_backup(schedule)
    bias, spread, variance = _root_numbers(schedule, root_backup)
    root = schedule.root
    num_means = _num_means(schedule)
    level = _promise_level(schedule)
    second_moment = None
    if root.bound == "catoni":
        alpha = catoni_slope(root.samples, variance, level)
        centers = tuple(float(x) for x in root_backup.centers[:, 0])
        second_moment = SecondMoment(centers, variance, alpha)
    bets_level = math.nan
    if root.adaptive_delta > 0.0:
        bets_level = bet_level(num_means, root.adaptive_delta)
    radius = min(
        root_radius(root.samples, spread, variance, level),
        max(0.0, schedule.epsilon - bias),
    )
    sample_low, sample_high = (
        tuple(float(x) for x in range_end[:, 0])
        for range_end in (root_backup.low, root_backup.high)
    )
    return RootPromise(
        low=sample_low,
        high=sample_high,
        spread=float(np.max(root_backup.spread)),
        variance=float(np.max(root_backup.variance)),
        bias=bias,
        radius=radius,
        level=level * (1.0 - TOLERANCE),
        means=num_means,
        bet_level=bets_level,
        rounding=rounding(schedule, node_moments),
        moment=second_moment,
    )


def _num_means(schedule: PricedTable) -> int:
    return schedule.facts.num_actions if schedule.root.target == "q_values" else 1


def _promise_level(schedule: PricedTable) -> float:
    return math.log(
        2.0 * _num_means(schedule) / (schedule.delta - schedule.root.adaptive_delta)
    )


def _check_promise(schedule: PricedTable) -> None:
    root = schedule.root
    if not (schedule.epsilon > 0.0 and 0.0 < schedule.delta < 1.0):
        raise BrokenPromise(
            "A promise needs epsilon > 0 and delta in (0, 1), got "
            f"{schedule.epsilon!r} and {schedule.delta!r}."
        )
    if schedule.clip is not None:
        raise BrokenPromise(
            "The sharp analysis does not allow a clip inside the tree: it breaks "
            "Jensen's side; remove clip."
        )
    if not 0.0 <= root.adaptive_delta < schedule.delta:
        raise BrokenPromise(
            f"The looks may spend a share of delta in [0, {schedule.delta:g}), got "
            f"{root.adaptive_delta!r}."
        )
    if root.bound not in ROOT_BOUNDS:
        raise BrokenPromise(
            f"A root names the bound that closes its promise, one of "
            f"{', '.join(ROOT_BOUNDS)}, got {root.bound!r}."
        )
    if root.bound == "catoni" and root.looks:
        raise BrokenPromise(
            f"A root with the bound 'catoni' does not look at its data, got {root}."
        )
    rising_counts = (*root.looks, root.samples)
    if root.looks and (
        root.adaptive_delta == 0.0
        or root.looks[0] < 2
        or any(a >= b for a, b in pairwise(rising_counts))
    ):
        raise BrokenPromise(
            "Looks must rise from 2 or more to below the root's samples and have a "
            f"share of delta, got {root}."
        )


NodeMoments = dict[Node, Moments]


def _root_backup(schedule: PricedTable) -> tuple[Backup, NodeMoments]:
    """Return the moments of one sample at the root, and those of all rows."""
    node_moments = row_moments(schedule)
    root_row, steps_left = root_node(schedule)
    base = ground(schedule.facts)
    if schedule.root.target == "value":
        return itself(
            base, node_moments[root_row, steps_left], steps_left
        ), node_moments
    return backup(base, node_moments[root_row, steps_left], steps_left), node_moments


def _root_numbers(
    schedule: PricedTable, root_backup: Backup
) -> tuple[float, float, float]:
    """Return (bias, spread, variance) for the bound that the root names.

    The bound "catoni" uses a second moment about the centre, and no range; without a
    range there is no other.
    """
    if schedule.root.bound == "catoni":
        return (
            float(root_backup.bias[0]),
            math.inf,
            float(np.max(root_backup.about(root_backup.centers))),
        )
    if not np.all(root_backup.rare == 0.0) and schedule.epsilon < math.inf:
        raise BrokenPromise(
            f"Level {schedule.root.child} makes corrections by chance, so its samples "
            "have no range and a root over them needs the bound 'catoni', got "
            f"{schedule.root.bound!r}."
        )
    return (
        float(root_backup.bias[0]),
        float(np.max(root_backup.spread)),
        float(np.max(root_backup.variance)),
    )


def row_moments(schedule: PricedTable) -> NodeMoments:
    """Return the moments of every row that the root reaches, from its children's.

    The latest ones are cached, so nobody may change them. A table written by hand may
    have lists in the place of tuples: it has no hash, and is not cached.
    """
    try:
        return _cached_row_moments(schedule)
    except TypeError:
        return _row_moments(schedule)


@lru_cache(maxsize=8)
def _cached_row_moments(schedule: PricedTable) -> NodeMoments:
    return _row_moments(schedule)


def _row_moments(schedule: PricedTable) -> NodeMoments:
    """Walk with an explicit stack, for tables of thousands of rows."""
    base = ground(schedule.facts)
    node_moments: NodeMoments = {}
    stack = [root_node(schedule)]
    while stack:
        index, remaining = stack[-1]
        if (index, remaining) in node_moments:
            stack.pop()
            continue
        level = schedule.levels[index]
        if remaining is not None and remaining < 0:
            raise BrokenPromise(
                f"Level {index} would value a state beyond the horizon; the table "
                f"is deeper than {schedule.facts.horizon} steps."
            )
        steps_after = None if remaining is None else remaining - 1
        missing_nodes = [
            (child, steps_after)
            for child in children(level)
            if (child, steps_after) not in node_moments
        ]
        if missing_nodes:
            stack.extend(missing_nodes)
            continue
        _check_query(schedule, index, steps_after, node_moments)
        node_moments[index, remaining] = _moments(
            base, index, level, remaining, node_moments
        )
        stack.pop()
    return node_moments


def _check_query(
    schedule: PricedTable,
    index: int,
    steps_after: int | None,
    node_moments: NodeMoments,
) -> None:
    """Require that samples of the query have a range: all bounds on noise use it."""
    level = schedule.levels[index]
    if level.query < 0 or schedule.epsilon == math.inf:
        return
    if not np.all(node_moments[level.query, steps_after].rare == 0.0):
        raise BrokenPromise(
            f"Level {index} ({level.kind.name}) asks level {level.query}, whose samples "
            "have no range: corrections are made by chance there."
        )


def _moments(
    base: Ground,
    index: int,
    level: Level,
    remaining: int | None,
    node_moments: NodeMoments,
) -> Moments:
    estimator = estimator_of(level.kind)
    name = f"Level {index} ({level.kind.name})"
    if remaining == 0 and not estimator.is_leaf:
        raise BrokenPromise(
            f"{name} stands where no steps remain; a value there is 0, so a constant "
            "0 belongs there."
        )
    steps_after = None if remaining is None else remaining - 1
    query, onward = (
        backup(base, node_moments[child, steps_after], steps_after)
        if child >= 0
        else None
        for child in (level.query, level.continuation)
    )
    samples = np.array([float(level.samples)])
    centred = estimator.of_row(base, level, samples, None, query, onward, remaining)
    flaw = estimator.flaw(base, level, centred, remaining)
    if flaw is not None:
        raise BrokenPromise(f"{name} {flaw}.")
    return estimator.written_moments(base, level, centred, remaining)


UNIT = 2.0**-53  # the largest relative error of one operation in double precision


def rounding(schedule: PricedTable, node_moments: dict[Node, Moments]) -> float:
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
    schedule: PricedTable, node_moments: dict[Node, Moments]
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
    schedule: PricedTable, row: int, node_moments: dict[Node, Moments]
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
