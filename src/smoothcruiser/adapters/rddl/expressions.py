"""RDDL expressions without variables: the form of a domain for one instance.

An RDDL domain speaks of all objects at once ("for every computer ?c"). For one instance
every quantifier is a finite list and every non-fluent a number, so that an expression
is a tree of a few kinds of nodes over *slots*, the places of a vector that holds the
fluents of the state, of the action, intermediate ones, and those of the next state.

  ConstantNode   a number or a truth value
  SlotNode       the value of one fluent
  ApplyNode      an operation of ``operations`` on values
  ChoiceNode     if … then … else …
  FlipNode       Bernoulli(p)
  PickNode       Discrete: a place 0, 1, … in proportion to weights

The functions below build nodes and simplify them where the arguments are constants. The
omitted terms never change a value: x and False, 0 x, x + 0, 1 x. Sums and products keep
the order of their terms, and so their rounding.

Out of scope: how nodes are read from RDDL (``grounding``), run (``code``), bounded
(``intervals``), and their laws (``laws``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from smoothcruiser.adapters.rddl.operations import OPERATIONS

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


Node: TypeAlias = ConstantNode | SlotNode | ApplyNode | ChoiceNode | FlipNode | PickNode
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
