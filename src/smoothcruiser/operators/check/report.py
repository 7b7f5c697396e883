"""What a check of an operator says: conditions, and the report of all of them.

Beside them the ``OperatorProbe``, which evaluates an operator at points and pairs of
points, and the sizes of what rounding may do there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators.base import Operator
from smoothcruiser.shown import Shown, brief

ROUNDING = 1e-9  # what sums of k numbers near 1 may miss

Point = tuple[float, ...]


@dataclass(frozen=True)
class Condition:
    """One condition: whether it held at every point tried and, if not, the
    first point and numbers that refute it.
    """

    name: str
    holds: bool
    requirement: str
    finding: str = ""  # what was found instead, with its numbers
    q: Point | None = None
    other: Point | None = None  # Q', where the condition is one of pairs

    @property
    def sentence(self) -> str:
        """What was declared, what was found, and where."""
        where = "" if self.q is None else f" at Q = {show(self.q)}"
        where += "" if self.other is None else f", Q' = {show(self.other)}"
        return f"{self.requirement}; {self.finding}{where}"


@dataclass(frozen=True)
class OperatorReport(Shown):
    """What ``check_operator`` found; ``str()`` is a table."""

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
    """Two points Q and Q' with what the lemmas say of them: the remainder, and
    the sizes of Q - Q' that bound it.
    """

    q: Point
    base: Point  # Q', where the gradient is taken
    remainder: float  # D(Q, Q')
    span: float  # of Q - Q'
    square: float  # |Q - Q'|^2
    centred: float  # |h - mean h|^2 with h = Q - Q'
    noise: float  # what rounding may add to the remainder


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
        """The same over the first ``num_actions`` of its actions."""
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
        found = []
        for q in others:
            step = [x - y for x, y in zip(q, base, strict=True)]
            mean = math.fsum(step) / len(step)
            other = self.value(q)
            linear = math.fsum(x * g for x, g in zip(step, gradient, strict=True))
            size = max(abs(x) for x in (*q, *base)) + self.operator.strength
            found.append(
                Pair(
                    q,
                    base,
                    other - value - linear,
                    max(step) - min(step),
                    math.fsum(x * x for x in step),
                    math.fsum((x - mean) ** 2 for x in step),
                    # of the cancelling sums
                    1e-14 * len(base) * (1.0 + abs(value) + size),
                )
            )
        return found


def show(q: Sequence[float]) -> str:
    """A point, for people."""
    return "[" + ", ".join(f"{x:.4g}" for x in q) + "]"
