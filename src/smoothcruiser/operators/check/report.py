"""Results of a check of an operator: conditions, and the report of all of them.

Beside them the ``OperatorProbe``, which evaluates an operator at points and pairs of
points, with the size of rounding errors there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.base import Operator
from smoothcruiser.shown import Shown, brief

ROUNDING = 1e-9  # error that sums of k numbers near 1 may have

Point = tuple[float, ...]


@dataclass(frozen=True)
class Condition:
    """One condition: whether it held at every point tried.

    If it did not, the first point and the numbers that refute it are given.
    """

    name: str
    holds: bool
    requirement: str
    finding: str = ""  # the refutation, with its numbers
    q: Point | None = None
    other: Point | None = None  # Q', where the condition is one of pairs

    @property
    def sentence(self) -> str:
        """The declared requirement, the refutation and its point."""
        location = "" if self.q is None else f" at Q = {show(self.q)}"
        location += "" if self.other is None else f", Q' = {show(self.other)}"
        return f"{self.requirement}; {self.finding}{location}"


@dataclass(frozen=True)
class OperatorReport(Shown):
    """Result of ``check_operator``; ``str()`` is a table."""

    operator: str
    num_actions: int
    points: int
    conditions: tuple[Condition, ...]

    @property
    def ok(self) -> bool:
        """Whether every condition held at every point tried."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the conditions that failed."""
        return tuple(
            condition.name for condition in self.conditions if not condition.holds
        )

    def __getitem__(self, name: str) -> Condition:
        """The condition called ``name``."""
        for condition in self.conditions:
            if condition.name == name:
                return condition
        raise InvalidInput(
            f"No condition is called {name!r}; there are "
            f"{', '.join(c.name for c in self.conditions)}."
        )

    def __repr__(self) -> str:
        return brief(
            "OperatorReport",
            operator=self.operator,
            num_actions=self.num_actions,
            points=self.points,
            failures=self.failures,
        )


@dataclass(frozen=True)
class Pair:
    """Two points Q and Q', their remainder, and the sizes of Q - Q' that bound it."""

    q: Point
    base: Point  # Q', where the gradient is taken
    remainder: float  # D(Q, Q')
    span: float  # of Q - Q'
    square: float  # |Q - Q'|^2
    centred: float  # |h - mean h|^2 with h = Q - Q'
    noise: float  # largest rounding error of the remainder


@dataclass(frozen=True)
class OperatorProbe:
    """An operator over ``len(weights)`` legal actions with these prior weights."""

    operator: Operator
    weights: Point

    @property
    def num_actions(self) -> int:
        """How many actions are legal."""
        return len(self.weights)

    def over(self, num_actions: int) -> OperatorProbe:
        """The same operator over the first ``num_actions`` of its actions."""
        if num_actions == self.num_actions:
            return self
        return OperatorProbe(self.operator, self.weights[:num_actions])

    @cached_property
    def zero(self) -> Point:
        """Q = 0."""
        return (0.0,) * self.num_actions

    def value(self, q: Sequence[float]) -> float:
        """F(q)."""
        return self.operator.value(q, weights=self.weights)

    def gradient(self, q: Sequence[float]) -> list[float]:
        """The gradient of F at q."""
        return self.operator.gradient(q, weights=self.weights)

    def pairs(self, base: Point, others: Iterable[Point]) -> list[Pair]:
        """(Q, Q') for every Q of ``others`` and Q' = ``base``."""
        value, gradient = self.value(base), self.gradient(base)
        point_pairs = []
        for q in others:
            step = [x - y for x, y in zip(q, base, strict=True)]
            mean_step = math.fsum(step) / len(step)
            value_at_q = self.value(q)
            linear_term = math.fsum(x * g for x, g in zip(step, gradient, strict=True))
            largest_value = max(abs(x) for x in (*q, *base)) + self.operator.strength
            point_pairs.append(
                Pair(
                    q,
                    base,
                    value_at_q - value - linear_term,
                    max(step) - min(step),
                    math.fsum(x * x for x in step),
                    math.fsum((x - mean_step) ** 2 for x in step),
                    # of the cancelling sums
                    1e-14 * len(base) * (1.0 + abs(value) + largest_value),
                )
            )
        return point_pairs


def show(q: Sequence[float]) -> str:
    """A point, for people."""
    return "[" + ", ".join(f"{x:.4g}" for x in q) + "]"
