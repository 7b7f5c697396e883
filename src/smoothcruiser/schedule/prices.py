"""Rows of a schedule's table, and their prices: oracle calls and visits.

Prices are exact or averages, functions of rows, the same for a draft of the compiler
and for a finished table. For each of its samples, a level with a query makes K N calls
of its own, and a level with a continuation makes one. The calls of its children are
added. A randomized level makes corrections by chance: on average sum_j 2 p_j m_j more
samples per action and sum_j p_j more continuations, m_j = 2^(j-1) N.

Averages are fractions, rounded up to a multiple of 2^-40. The number that a run
exceeds with a chance below ``RARELY`` follows from the cumulants of the calls
(docs/randomized.md, R9).

The levels that a run reaches, with the steps left before the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Any, ClassVar, Literal, Protocol

from smoothcruiser.errors import BrokenPromise
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.shapes import Count

Target = Literal["q_values", "value"]


@dataclass(frozen=True)
class Level:
    """One row of the table.

    ``query`` and ``continuation`` are row indices, -1 where there is none.
    """

    # keys that ``Schedule.to_dict`` adds to a row
    json_more: ClassVar[Mapping[str, Any]] = {"calls": Count, "visits": Count}

    kind: IntEnum  # a ``Kind``, or one that ``schedule.kinds.register`` has added
    samples: Count = 0
    query: int = -1
    continuation: int = -1
    constant: float = 0.0
    shift: float = 0.0  # added to the output with the sign of the player to move
    # chance of each correction of a randomized kind: rung j (from 1) compares means of
    # 2**(j-1) ``samples`` with their average; otherwise there is no correction
    rungs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Root:
    """The sampling at the requested state.

    It takes ``samples`` samples over level ``child``, per action for q_values.
    """

    target: Target
    samples: Count
    child: int
    bound: str  # which inequality closes the promise: "hoeffding", "catoni", "paper"
    # checkpoints: counts below ``samples`` at which the data may stop an action
    looks: tuple[Count, ...] = ()
    # share of delta for the checkpoints; the fixed promise keeps the remainder
    adaptive_delta: float = 0.0


class PricedTable(Hashable, Protocol):
    """The parts of a ``schedule.schedule.Schedule`` that prices and verifiers read."""

    @property
    def facts(self) -> Facts:
        """The facts of the problem that the table is for."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """The rows; children stand before their parents."""

    @property
    def root(self) -> Root:
        """The sampling at the requested state."""

    @property
    def epsilon(self) -> float:
        """The promised accuracy."""

    @property
    def delta(self) -> float:
        """The promised chance of an error above epsilon, at the most."""

    @property
    def clip(self) -> tuple[float, float] | None:
        """The box for every Q-hat inside the tree (method "paper" only)."""

    @property
    def delta_prime(self) -> float | None:
        """The paper's confidence of one node (method "paper" only)."""

    @property
    def num_calls(self) -> int:
        """The price of the whole run."""

    @property
    def centers(self) -> tuple[float, ...]:
        """For each level, the number around which the backups of its query lie."""


Number = int | Fraction

RARELY = 1e-9  # the chance that a run makes more calls than a schedule's price says
_FINEST = 2**40
_STEPS = 120  # of a golden section: the golden ratio to the power 120 is 10^25
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# relative: more than the rounding error of a sum over some thousand rows
_ROUNDING = 1e-9


def _round_up(x: Number) -> Number:
    return x if isinstance(x, int) else Fraction(math.ceil(x * _FINEST), _FINEST)


def _query_samples(level: Level) -> Number:
    """Return how many samples of its query one sample of ``level`` takes per action."""
    if level.query < 0:
        return 0
    correction_factor = sum(Fraction(p) * 2**j for j, p in enumerate(level.rungs, 1))
    return (
        level.samples
        if correction_factor == 0
        else level.samples * (1 + correction_factor)
    )


def _num_continuations(level: Level) -> Number:
    """Return how many continuations one sample of ``level`` follows."""
    if level.continuation < 0:
        return 0
    return 1 + sum(Fraction(p) for p in level.rungs) if level.rungs else 1


def _calls_per_sample(level: Level, num_actions: int) -> Number:
    """Return the oracle calls of one sample of ``level``, without its children's."""
    return num_actions * _query_samples(level) + _num_continuations(level)


def mean_level_calls(levels: Sequence[Level], num_actions: int) -> tuple[Number, ...]:
    """Return the calls of one sample of each level, its children's included."""
    level_means: list[Number] = []
    for level in levels:
        sample_calls = _calls_per_sample(level, num_actions)
        if level.query >= 0:
            sample_calls += (
                num_actions * _query_samples(level) * level_means[level.query]
            )
        if level.continuation >= 0:
            sample_calls += _num_continuations(level) * level_means[level.continuation]
        level_means.append(_round_up(sample_calls))
    return tuple(level_means)


def level_calls(levels: Sequence[Level], num_actions: int) -> tuple[int, ...]:
    """Return ``mean_level_calls`` as whole numbers, rounded up."""
    return tuple(
        math.ceil(mean_calls) for mean_calls in mean_level_calls(levels, num_actions)
    )


def price(levels: Sequence[Level], root: Root, num_actions: int) -> int:
    """Return the oracle calls of the whole run, on average over the rungs."""
    child_calls = mean_level_calls(levels, num_actions)[root.child]
    num_visits = root_visits(root, num_actions)
    return root_calls(root, num_actions) + math.ceil(num_visits * child_calls)


def root_calls(root: Root, num_actions: int) -> int:
    """Return the oracle calls that the root makes itself.

    It makes one per sample for action values, and none where it samples the
    value.
    """
    return root_visits(root, num_actions) if root.target == "q_values" else 0


def root_visits(root: Root, num_actions: int) -> int:
    """Return how often the root samples its child."""
    return root.samples * (num_actions if root.target == "q_values" else 1)


def _visits(
    levels: Sequence[Level], child: int, times: int, num_actions: int
) -> list[Number]:
    visit_counts: list[Number] = [0] * len(levels)
    visit_counts[child] = times
    for i in range(len(levels) - 1, -1, -1):
        level = levels[i]
        visit_counts[i] = _round_up(visit_counts[i])
        if level.query >= 0:
            visit_counts[level.query] += (
                visit_counts[i] * num_actions * _query_samples(level)
            )
        if level.continuation >= 0:
            visit_counts[level.continuation] += visit_counts[i] * _num_continuations(
                level
            )
    return visit_counts


def level_visits(
    levels: Sequence[Level], child: int, times: int, num_actions: int
) -> tuple[int, ...]:
    """Return how often each level is sampled if level ``child`` is, ``times`` times."""
    return tuple(math.ceil(x) for x in _visits(levels, child, times, num_actions))


def own_calls(
    levels: Sequence[Level], root: Root, num_actions: int
) -> tuple[int, ...]:
    """Return the oracle calls that each level itself makes in a run.

    With the root's they add up to the price, up to rounding where it is an average.
    """
    num_root_visits = root_visits(root, num_actions)
    visit_counts = _visits(levels, root.child, num_root_visits, num_actions)
    return tuple(
        math.ceil(count * _calls_per_sample(level, num_actions))
        for count, level in zip(visit_counts, levels, strict=True)
    )


# --- the tail ------------------------------------------------------------------


def most_calls(levels: Sequence[Level], root: Root, num_actions: int) -> int:
    """Return a number of calls that a run exceeds with a chance below ``RARELY``.

    For every theta > 0, P(calls > x) <= exp(visits Lambda(theta) - theta x), Lambda the
    cumulant function of the calls of one root sample. Without rungs it is the price.
    """
    mean_calls = price(levels, root, num_actions)
    if not any(level.rungs for level in levels):
        return mean_calls
    own_call = 1.0 if root.target == "q_values" else 0.0
    num_visits = float(root_visits(root, num_actions))
    if mean_calls > 1e250:  # nobody runs it; Markov's inequality
        return math.ceil(mean_calls / Fraction(RARELY))

    def tail_bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        log_mean = num_visits * (
            own_call * theta + _cumulant(levels, root, num_actions, theta)
        )
        return (log_mean - math.log(RARELY)) / theta

    theta_low, theta_high = math.log(1e-6 / mean_calls), math.log(1e3)
    for _ in range(_STEPS):  # the bound is quasi-convex in theta
        golden_step = _GOLDEN * (theta_high - theta_low)
        if tail_bound(theta_high - golden_step) <= tail_bound(theta_low + golden_step):
            theta_high = theta_low + golden_step
        else:
            theta_low = theta_high - golden_step
    return max(
        mean_calls,
        math.ceil(tail_bound(0.5 * (theta_low + theta_high)) * (1.0 + _ROUNDING)),
    )


def _cumulant(
    levels: Sequence[Level], root: Root, num_actions: int, theta: float
) -> float:
    """Return log E exp(theta calls) of one sample of the root's child."""
    level_cumulants: list[float] = []
    for level in levels:
        query_part = onward_part = 0.0
        if level.query >= 0:
            query_part = (
                num_actions * level.samples * (theta + level_cumulants[level.query])
            )
        if level.continuation >= 0:
            onward_part = theta + level_cumulants[level.continuation]
        level_sum = query_part + onward_part
        # a correction takes 2 m_j = 2^j N samples per action and a continuation
        rung_exponents = [
            query_part * 2.0**j + onward_part for j in range(1, len(level.rungs) + 1)
        ]
        if rung_exponents and max(rung_exponents) > 700.0:
            return math.inf
        if rung_exponents:
            growth_sum = sum(
                p * math.expm1(exponent)
                for p, exponent in zip(level.rungs, rung_exponents, strict=True)
            )
            level_sum += math.log1p(growth_sum)
        level_cumulants.append(level_sum)
    return level_cumulants[root.child]


# (level, steps left) pairs; compiled tables have about as many as levels
MOST_NODES = 1_000_000

Node = tuple[int, int | None]  # a row, and the steps left there (None: no horizon)


def children(level: Level) -> list[int]:
    """The rows that ``level`` samples."""
    return [child for child in (level.query, level.continuation) if child >= 0]


def root_node(schedule: PricedTable) -> Node:
    """The root's child, with the steps left there."""
    steps_left = schedule.facts.horizon
    if steps_left is not None and schedule.root.target == "q_values":
        steps_left -= 1
    return schedule.root.child, steps_left


def nodes(schedule: PricedTable) -> list[Node]:
    """Return every row that the root reaches, with the steps left there.

    Children stand before their parents.
    """
    found_nodes: set[Node] = set()
    open_nodes = [root_node(schedule)]
    while open_nodes:
        node = open_nodes.pop()
        if node in found_nodes:
            continue
        found_nodes.add(node)
        if len(found_nodes) > MOST_NODES:
            raise BrokenPromise(
                f"More than {MOST_NODES} pairs of a level and its steps left: too "
                "many to verify."
            )
        steps_after = None if node[1] is None else node[1] - 1
        open_nodes += [
            (child, steps_after) for child in children(schedule.levels[node[0]])
        ]
    return sorted(found_nodes, key=lambda node: node[0])
