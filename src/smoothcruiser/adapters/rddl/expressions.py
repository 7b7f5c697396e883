"""RDDL expressions without variables: the form of a domain for one instance.

An RDDL domain speaks of all objects at once ("for every computer ?c"). For one instance
every quantifier is a finite list and every non-fluent a number, so that an expression
is a tree of a few kinds of nodes over *slots*, the places of a vector that holds the
fluents of the state, of the action, intermediate ones, and those of the next state.

  ConstantNode   a number or a truth value
  SlotNode       the value of one fluent
  ApplyNode      an operation of ``expressions`` on values
  ChoiceNode     if … then … else …
  FlipNode       Bernoulli(p)
  PickNode       Discrete: a place 0, 1, … in proportion to weights

The functions below build nodes and simplify them where the arguments are constants. The
omitted terms never change a value: x and False, 0 x, x + 0, 1 x. Sums and products keep
the order of their terms, and so their rounding.

Out of scope: how nodes are read from RDDL (``grounding``), run (``code``), bounded
(``laws``), and their laws (``laws``).

Operations of RDDL on numbers and truth values: a table.

Each row says how an operation is computed, how it is written as Python, and how its
result is bounded when its arguments are only known to lie in intervals.

Why the intervals hold for the *computed* values, rounding included: +, -, *, / and sqrt
of floats are correctly rounded, hence monotone in each argument, and a row computes its
bounds by the same operations in the same order as its value. ``exp``, ``ln`` and
``pow`` of a C library are not: their bounds are moved outwards by ``SLACK``, 2**-40 of
the result, a thousand times the errors that libraries document.

An interval is (low, high), with infinities where nothing is known; truth values are 0
and 1. Out of scope: trigonometry and other functions, which are interpreted
(``machines``), and random variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

Value: TypeAlias = bool | int | float
KINDS = ("bool", "int", "real")  # each holds the ones before it


class Untranslatable(Exception):
    """An expression that has no form here; the sentence names it."""


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """A number or a truth value."""

    value: Value

    @property
    def kind(self) -> str:
        """One of ``KINDS``."""
        return kind_of(self.value)


@dataclass(frozen=True, slots=True)
class SlotNode:
    """The value of the fluent at one place of the vector."""

    place: int
    kind: str


@dataclass(frozen=True, slots=True)
class ApplyNode:
    """An operation on values."""

    operation: str
    parts: tuple[Node, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class ChoiceNode:
    """If ``condition`` then ``first`` else ``second``."""

    condition: Node
    first: Node
    second: Node
    kind: str


@dataclass(frozen=True, slots=True)
class FlipNode:
    """True with a probability."""

    chance: Node
    kind: str = "bool"


@dataclass(frozen=True, slots=True)
class PickNode:
    """A place 0, 1, … in proportion to weights, which need not sum to 1 if ``free``."""

    weights: tuple[Node, ...]
    free: bool
    kind: str = "int"


Node: TypeAlias = (
    ConstantNode | SlotNode | ApplyNode | ChoiceNode | FlipNode | PickNode
)
TRUE, FALSE = ConstantNode(True), ConstantNode(False)


def kind_of(value: Value) -> str:
    """The kind of a value: a bool is no int here."""
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "real"


def widest(kinds: tuple[str, ...]) -> str:
    """The least kind that holds all of these."""
    return max(kinds, key=KINDS.index)


def parts_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node."""
    match node:
        case ApplyNode(parts=parts):
            return parts
        case ChoiceNode(condition=condition, first=first, second=second):
            return (condition, first, second)
        case FlipNode(chance=chance):
            return (chance,)
        case PickNode(weights=weights):
            return weights
    return ()


def is_random(node: Node) -> bool:
    """Whether a node samples."""
    return isinstance(node, FlipNode | PickNode) or any(map(is_random, parts_of(node)))


def places(node: Node) -> frozenset[int]:
    """The slots that a node reads."""
    if isinstance(node, SlotNode):
        return frozenset((node.place,))
    no_places: frozenset[int] = frozenset()
    return no_places.union(*map(places, parts_of(node)))


def samples(node: Node) -> int:
    """The most random numbers that one evaluation of a node takes."""
    samples_itself = isinstance(node, FlipNode | PickNode)
    return samples_itself + sum(map(samples, parts_of(node)))


# --- building -----------------------------------------------------------------


def apply(name: str, *parts: Node) -> Node:
    """The node of an operation, simplified."""
    operation = OPERATIONS[name]
    if operation.unit is not None:
        parts = _drop_units(parts, operation.unit) if len(parts) > 1 else parts
        if operation.zero is not None and ConstantNode(operation.zero) in parts:
            return ConstantNode(operation.zero)
        if len(parts) == 1 and name != "*":
            return parts[0]
        if len(parts) == 1:  # 1 x is a number, also where x is a truth value
            return (
                parts[0] if parts[0].kind != "bool" else _apply_operation(name, parts)
            )
    return _apply_operation(name, parts)


def _apply_operation(name: str, parts: tuple[Node, ...]) -> Node:
    operation = OPERATIONS[name]
    if operation.needs_bool and any(argument.kind != "bool" for argument in parts):
        raise Untranslatable(
            f"the operation {name} on something that is no truth value"
        )
    if operation.needs_int and any(argument.kind == "real" for argument in parts):
        raise Untranslatable(
            f"the operation {name} on something that is no whole number"
        )
    constant_values = [
        argument.value for argument in parts if isinstance(argument, ConstantNode)
    ]
    if len(constant_values) == len(parts):
        try:
            return ConstantNode(operation.evaluate(*constant_values))
        except (ArithmeticError, ValueError) as error:
            raise Untranslatable(f"{name} of {constant_values}: {error}") from error
    argument_kinds = tuple(argument.kind for argument in parts)
    result_kind = operation.kind or max("int", widest(argument_kinds), key=KINDS.index)
    return ApplyNode(name, parts, result_kind)


def _drop_units(parts: tuple[Node, ...], unit: Value) -> tuple[Node, ...]:
    """The terms that change anything, at least one."""
    effective_parts = tuple(
        argument
        for argument in parts
        if not (isinstance(argument, ConstantNode) and argument.value == unit)
    )
    return effective_parts or (ConstantNode(unit),)


def choice(condition: Node, first: Node, second: Node) -> Node:
    """The node of a condition, simplified."""
    if condition.kind != "bool":
        raise Untranslatable("a condition that is no truth value")
    if isinstance(condition, ConstantNode):
        return first if condition.value else second
    if first == second and not is_random(condition) and not is_random(first):
        return first
    return ChoiceNode(condition, first, second, widest((first.kind, second.kind)))


Interval = tuple[float, float]

ANYTHING: Interval = (-math.inf, math.inf)
UNKNOWN: Interval = (0.0, 1.0)  # a truth value that may be either
SLACK = 2.0**-40  # relative error of exp, ln and pow: theirs is below 2**-50


@dataclass(frozen=True)
class Operation:
    """How one operation is computed, written and bounded."""

    evaluate: Callable[..., Any]
    source: Callable[..., str]  # of its arguments' sources
    bounds: Callable[..., Interval]  # of its arguments' intervals
    kind: str | None = None  # of its result; None: the widest of its arguments'
    unit: Any = None  # an argument that changes nothing
    zero: Any = None  # an argument that decides the result
    needs_bool: bool = False
    needs_int: bool = False


# --- arithmetic ---------------------------------------------------------------


def add(*terms: Any) -> Any:
    """The sum, from left to right."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def multiply(*factors: Any) -> Any:
    """The product, from left to right, as a number."""
    product = 1
    for factor in factors:
        product = product * factor
    return product


def _ends(low: float, high: float) -> Interval:
    """An interval; where an end is no number (inf - inf), nothing is known of it."""
    return (
        -math.inf if math.isnan(low) else low,
        math.inf if math.isnan(high) else high,
    )


def _sum_bounds(*terms: Interval) -> Interval:
    return _ends(add(*(t[0] for t in terms)), add(*(t[1] for t in terms)))


def _difference_bounds(x: Interval, y: Interval) -> Interval:
    return _ends(x[0] - y[1], x[1] - y[0])


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0.0 or y == 0.0 else x * y  # 0 times any number, however large


def _product_bounds(*factors: Interval) -> Interval:
    return reduce(_pair_bounds, factors, (1.0, 1.0))


def _pair_bounds(x: Interval, y: Interval) -> Interval:
    corners = [_times(a, b) for a in x for b in y]
    return min(corners), max(corners)


def _quotient_bounds(x: Interval, y: Interval) -> Interval:
    if y[0] <= 0.0 <= y[1] or any(map(math.isinf, (*x, *y))):
        return ANYTHING
    corners = [a / b for a in x for b in y]
    return min(corners), max(corners)


# --- comparisons and logic ----------------------------------------------------


def _certain(yes: bool, no: bool) -> Interval:
    return (1.0, 1.0) if yes else (0.0, 0.0) if no else UNKNOWN


def _less(x: Interval, y: Interval) -> Interval:
    return _certain(x[1] < y[0], x[0] >= y[1])


def _at_most(x: Interval, y: Interval) -> Interval:
    return _certain(x[1] <= y[0], x[0] > y[1])


def _equal(x: Interval, y: Interval) -> Interval:
    return _certain(x[0] == x[1] == y[0] == y[1], x[1] < y[0] or y[1] < x[0])


def _not(x: Interval) -> Interval:
    return 1.0 - x[1], 1.0 - x[0]


def _all(*parts: Interval) -> Interval:
    return min(p[0] for p in parts), min(p[1] for p in parts)


def _any(*parts: Interval) -> Interval:
    return max(p[0] for p in parts), max(p[1] for p in parts)


# --- functions ----------------------------------------------------------------


def sign(x: Any) -> int:
    """-1, 0 or 1."""
    return int(x > 0) - int(x < 0)


def _monotone(function: Callable[[Any], Any]) -> Callable[[Interval], Interval]:
    def bounds(x: Interval) -> Interval:
        return tuple(  # type: ignore[return-value]
            end if math.isinf(end) else float(function(end)) for end in x
        )

    return bounds


def _sign_bounds(x: Interval) -> Interval:
    return float(sign(x[0])), float(sign(x[1]))


def _abs_bounds(x: Interval) -> Interval:
    lower_bound = 0.0 if x[0] <= 0.0 <= x[1] else min(abs(x[0]), abs(x[1]))
    return lower_bound, max(abs(x[0]), abs(x[1]))


def _outwards(low: float, high: float) -> Interval:
    return low - SLACK * abs(low), high + SLACK * abs(high)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _exp_bounds(x: Interval) -> Interval:
    return _outwards(_exp(x[0]), _exp(x[1]))


def _log_bounds(x: Interval) -> Interval:
    if x[0] <= 0.0:  # not defined at 0 and below: an error, or anything below
        return (-math.inf, ANYTHING[1] if math.isinf(x[1]) else _log_top(x[1]))
    lower_bound = math.log(x[0])
    return lower_bound - SLACK * abs(lower_bound) - SLACK, _log_top(x[1])


def _log_top(x: float) -> float:
    if x <= 0.0 or math.isinf(x):
        return math.inf
    upper_bound = math.log(x)
    # near 1 the result is small, its error not
    return upper_bound + SLACK * abs(upper_bound) + SLACK


def _root_bounds(x: Interval) -> Interval:
    return math.sqrt(max(x[0], 0.0)), math.sqrt(max(x[1], 0.0))


def power(x: Any, y: Any) -> Any:
    """x to the y; whole numbers only have powers that are whole."""
    if not isinstance(x, float) and not isinstance(y, float) and y < 0:
        raise ValueError("whole numbers to negative powers are not defined")
    result = x**y
    if isinstance(result, complex):
        raise ValueError(f"{x} to the power {y} is not real")
    return result


def _power_bounds(x: Interval, y: Interval) -> Interval:
    """For bases of at least 0 the extremes are at the corners; else by |x|."""
    largest_base = max(abs(x[0]), abs(x[1]))
    if math.isinf(largest_base) or any(map(math.isinf, y)):
        return ANYTHING
    bases = x if x[0] >= 0.0 else (0.0, largest_base)
    if bases[0] == 0.0 and y[0] < 0.0:
        return ANYTHING
    try:
        corners = [a**b for a in (*bases, 1.0) for b in y]
    except OverflowError:
        return ANYTHING
    corner_values = corners if bases[0] <= 1.0 <= bases[1] else corners[:4]
    lower_bound, upper_bound = _outwards(min(corner_values), max(corner_values))
    return (lower_bound, upper_bound) if x[0] >= 0.0 else (-upper_bound, upper_bound)


def _floor_quotient_bounds(x: Interval, y: Interval) -> Interval:
    if y[0] <= 0.0 <= y[1] or any(map(math.isinf, (*x, *y))):
        return ANYTHING
    corners = [a // b for a in x for b in y]
    return min(corners), max(corners)


def _remainder_bounds(x: Interval, y: Interval) -> Interval:
    """The remainder has the sign of the divisor and is smaller."""
    return min(y[0], 0.0), max(y[1], 0.0)


# --- writing ------------------------------------------------------------------


def _infix(sign: str) -> Callable[..., str]:
    return lambda *parts: f"({f' {sign} '.join(parts)})"


def _call(name: str) -> Callable[..., str]:
    return lambda *parts: f"{name}({', '.join(parts)})"


def _long(sign: str, name: str) -> Callable[..., str]:
    """Short sums as they are; Python's compiler nests once for each term."""
    infix, call = _infix(sign), _call(name)
    return lambda *parts: (call if len(parts) > 40 else infix)(*parts)


def _pairs(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, y: function(x, y)


OPERATIONS: dict[str, Operation] = {
    "+": Operation(add, _long("+", "add"), _sum_bounds, unit=0),
    "*": Operation(
        multiply,
        lambda *p: _long("*", "multiply")("1", *p),
        _product_bounds,
        unit=1,
        zero=0,
    ),
    "-": Operation(lambda x, y: x - y, _infix("-"), _difference_bounds),
    "/": Operation(lambda x, y: x / y, _infix("/"), _quotient_bounds, kind="real"),
    "negative": Operation(
        lambda x: -1 * x, lambda x: f"(-1 * {x})", lambda x: (-x[1], -x[0])
    ),
    "<": Operation(lambda x, y: x < y, _infix("<"), _less, kind="bool"),
    ">": Operation(
        lambda x, y: x > y, _infix(">"), lambda x, y: _less(y, x), kind="bool"
    ),
    "<=": Operation(lambda x, y: x <= y, _infix("<="), _at_most, kind="bool"),
    ">=": Operation(
        lambda x, y: x >= y, _infix(">="), lambda x, y: _at_most(y, x), kind="bool"
    ),
    "==": Operation(lambda x, y: x == y, _infix("=="), _equal, kind="bool"),
    "~=": Operation(
        lambda x, y: x != y, _infix("!="), lambda x, y: _not(_equal(x, y)), kind="bool"
    ),
    "and": Operation(
        lambda *p: all(p), _infix("and"), _all, "bool", True, False, needs_bool=True
    ),
    "or": Operation(
        lambda *p: any(p), _infix("or"), _any, "bool", False, True, needs_bool=True
    ),
    "not": Operation(
        lambda x: not x, lambda x: f"(not {x})", _not, "bool", needs_bool=True
    ),
    "=>": Operation(
        lambda x, y: not x or y,
        lambda x, y: f"(not {x} or {y})",
        lambda x, y: _any(_not(x), y),
        "bool",
        needs_bool=True,
    ),
    "<=>": Operation(
        lambda x, y: x == y, _infix("=="), _equal, "bool", needs_bool=True
    ),
    "xor": Operation(
        lambda x, y: x != y,
        _infix("!="),
        lambda x, y: _not(_equal(x, y)),
        "bool",
        needs_bool=True,
    ),
    "min": Operation(lambda *p: min(p), _call("min"), _all),
    "max": Operation(lambda *p: max(p), _call("max"), _any),
    "abs": Operation(abs, _call("abs"), _abs_bounds),
    "sgn": Operation(sign, _call("sign"), _sign_bounds, kind="int"),
    "round": Operation(round, _call("round"), _monotone(round), kind="int"),
    "floor": Operation(math.floor, _call("floor"), _monotone(math.floor), kind="int"),
    "ceil": Operation(math.ceil, _call("ceil"), _monotone(math.ceil), kind="int"),
    "exp": Operation(math.exp, _call("exp"), _exp_bounds, kind="real"),
    "ln": Operation(math.log, _call("log"), _log_bounds, kind="real"),
    "sqrt": Operation(math.sqrt, _call("sqrt"), _root_bounds, kind="real"),
    "pow": Operation(_pairs(power), _call("power"), _power_bounds),
    "div": Operation(
        lambda x, y: x // y,
        _infix("//"),
        _floor_quotient_bounds,
        kind="int",
        needs_int=True,
    ),
    "mod": Operation(
        lambda x, y: x % y, _infix("%"), _remainder_bounds, kind="int", needs_int=True
    ),
    "fmod": Operation(lambda x, y: x % y, _infix("%"), _remainder_bounds),
}

# names that the written forms call
NAMES: dict[str, Any] = {
    "add": add,
    "multiply": multiply,
    "sign": sign,
    "floor": math.floor,
    "ceil": math.ceil,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "power": power,
}
