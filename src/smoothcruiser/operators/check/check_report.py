"""Results of a check of an operator: conditions, and the report of all of them.

Beside them the ``OperatorProbe``, which evaluates an operator at points and pairs of
points, with the size of rounding errors there.

Check that the constants of an operator are numbers of the right kind.

One sentence names the first that is not.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.operators.base import Operator

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


NAME = "constants"
REQUIREMENT = "every declared constant is a number, and of the right kind"
FLAGS = ("convex", "has_omega", "uniform_at_zero", "weighted", "entropic")
PROPERTIES = ("shift_invariant", "has_prior", "built_in")


def check_constants(operator: Operator, k: int) -> Condition:
    """Return the condition that all declared numbers and flags are valid."""
    # name, function that reads it, smallest value, whether it may be infinite
    number_declarations: list[tuple[str, Callable[[], Any], float, bool]] = [
        ("strength", lambda: operator.strength, 0.0, False),
        (f"offset({k})", lambda: operator.offset(k), -math.inf, False),
        (f"curvature({k})", lambda: operator.curvature(k), 0.0, True),
        (f"smoothness({k})", lambda: operator.smoothness(k), 0.0, True),
        (f"omega_width({k})", lambda: operator.omega_width(k), 0.0, True),
        ("strong_convexity()", operator.strong_convexity, 0.0, False),
        (f"rounding_scale({k})", lambda: operator.rounding_scale(k), 0.0, False),
    ]
    finding = ""
    for name, read_value, smallest_allowed, may_be_infinite in number_declarations:
        if name.startswith("omega_width"):  # it reads the range
            finding = finding or _range_fault(operator, k)
        finding = finding or _number_fault(
            name, read_value, smallest_allowed, may_be_infinite
        )
    for name in (*FLAGS, *PROPERTIES):
        value = getattr(operator, name)
        if not finding and not isinstance(value, bool):
            finding = f"{name} has to be True or False, and is {value!r}"
    return Condition(NAME, not finding, REQUIREMENT, finding)


def _number_fault(
    name: str,
    read_value: Callable[[], Any],
    smallest_allowed: float,
    may_be_infinite: bool,
) -> str:
    """Return the fault of a declared number; "" where there is none."""
    value, error_text = _try_call(read_value)
    if error_text:
        return f"{name} raises {error_text}"
    if (
        not _is_number(value)
        or (not may_be_infinite and math.isinf(value))
        or value < smallest_allowed
    ):
        required_kind = "a number" if may_be_infinite else "a finite number"
        lower_limit = (
            ""
            if smallest_allowed == -math.inf
            else f" of at least {smallest_allowed:g}"
        )
        return f"{name} has to be {required_kind}{lower_limit}, and is {value!r}"
    return ""


def _range_fault(operator: Operator, k: int) -> str:
    """Return the fault of ``omega_range``; "" where there is none."""
    declared_range, error_text = _try_call(lambda: operator.omega_range(k))
    if error_text:
        return f"omega_range({k}) raises {error_text}"
    if (
        not isinstance(declared_range, tuple | list)
        or len(declared_range) != 2
        or not all(_is_number(x) for x in declared_range)
        or declared_range[0] > declared_range[1]
    ):
        return (
            f"omega_range({k}) has to be two numbers, the smaller first, and is "
            f"{declared_range!r}"
        )
    return ""


def _try_call(read_value: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return read_value(), ""
    except SmoothcruiserError:
        raise  # a sentence of its own, such as a prior of another length
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, numbers.Real)
        and not isinstance(value, bool)
        and not math.isnan(value)
    )
