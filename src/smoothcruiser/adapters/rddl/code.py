"""Expressions as Python functions: one step of an instance in a few microseconds.

pyRDDLGym interprets the tree of a domain over NumPy arrays at every step, which takes
about a millisecond. The expressions of one instance are written here as the source of
plain Python functions and compiled by Python itself:

  step(state, action, random)   (reward, next state); ``random()`` is uniform on [0, 1)
  allowed(state, action)        whether all preconditions hold
  over(state)                   whether an episode ends in this state
  value(expression)             any expression without randomness, of the slots

``action`` is the tuple of the action fluents' values. The source consists of the forms
of ``expressions``, of numbers and of names made here: no text of a domain gets in.

A Bernoulli(p) is random() < p, which has probability p to the last bit of random(). A
p outside [0, 1] raises, as pyRDDLGym does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smoothcruiser.adapters.rddl.expressions import (
    NAMES,
    OPERATIONS,
    ApplyNode,
    ChoiceNode,
    ConstantNode,
    FlipNode,
    Node,
    PickNode,
    SlotNode,
    Untranslatable,
    Value,
    samples,
)
from smoothcruiser.adapters.rddl.fluents import State
from smoothcruiser.adapters.rddl.grounding import GroundInstance

# of the sum of Discrete's probabilities from 1: as np.allclose allows in pyRDDLGym
SUM_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Functions:
    """The compiled functions of one instance."""

    step: Callable[[State, State, Callable[[], float]], tuple[float, State]]
    allowed: Callable[[State, State], bool]
    over: Callable[[State], bool]
    num_samples: int  # the most random numbers that a step takes


def checked_chance(p: float) -> float:
    """The probability p; any other number raises."""
    if 0.0 <= p <= 1.0:
        return p
    raise ValueError(f"Bernoulli's probability is {p!r}, not in [0, 1]")


def checked_weights(weights: Sequence[float], free: bool) -> list[float]:
    """The probabilities of Discrete, divided by their sum; wrong weights raise."""
    weight_sum = math.fsum(weights)
    if not all(w >= 0.0 for w in weights) or not 0.0 < weight_sum < math.inf:
        raise ValueError(f"Discrete's probabilities are {weights!r}")
    if not free and abs(weight_sum - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"Discrete's probabilities sum to {weight_sum!r}, not to 1")
    return [w / weight_sum for w in weights]


def flip(p: float, random: Callable[[], float]) -> bool:
    """True with probability p."""
    return random() < checked_chance(p)


def pick(weights: Sequence[float], free: bool, random: Callable[[], float]) -> int:
    """A place in proportion to weights."""
    probabilities = checked_weights(weights, free)
    remainder, last_place = random(), 0
    for position, p in enumerate(probabilities):
        if p > 0.0:
            last_place = position
            if remainder < p:
                return position
            remainder -= p
    return last_place


def source(node: Node, name: Callable[[int], str]) -> str:
    """A node as Python; ``name(place)`` is the name of a slot."""
    match node:
        case ConstantNode(value=value):
            if isinstance(value, float) and not math.isfinite(value):
                raise Untranslatable(f"the number {value}")
            return f"({value!r})"
        case SlotNode(place=place):
            return name(place)
        case ApplyNode(operation=operation, parts=parts):
            return OPERATIONS[operation].source(
                *(source(child, name) for child in parts)
            )
        case ChoiceNode(condition=condition, first=first, second=second):
            then_source, else_source = source(first, name), source(second, name)
            return f"({then_source} if {source(condition, name)} else {else_source})"
        case FlipNode(chance=chance):
            return f"flip({source(chance, name)}, random)"
        case PickNode(weights=weights, free=free):
            weight_sources = ", ".join(source(child, name) for child in weights)
            return f"pick(({weight_sources},), {free}, random)"
    raise AssertionError(node)


def _compile_function(name: str, arguments: str, lines: Sequence[str]) -> Any:
    source_text = f"def {name}({arguments}):\n" + "\n".join(
        f"    {line}" for line in lines
    )
    namespace: dict[str, Any] = {**NAMES, "flip": flip, "pick": pick}
    try:
        exec(compile(source_text, f"<rddl {name}>", "exec"), namespace)
    except (RecursionError, MemoryError, SyntaxError) as error:
        # Python's parser has a limit of nesting
        raise Untranslatable(
            f"an expression that Python cannot compile ({error})"
        ) from None
    return namespace[name]


def _unpacking_lines(letter: str, num_values: int, variable: str) -> list[str]:
    target_names = "".join(f"{letter}{i}, " for i in range(num_values))
    return [f"{target_names.rstrip()} = {variable}"] if num_values else []


def convert_source(text: str, wanted_kind: str, own_kind: str) -> str:
    """The source of a value of kind ``own_kind``, as a value of another kind."""
    if wanted_kind == own_kind:
        return text
    return f"{'int' if wanted_kind == 'int' else 'float'}({text})"


def functions(ground: GroundInstance) -> Functions:
    """The compiled functions of an instance."""
    num_states, num_given = len(ground.states), ground.num_given

    def name(slot_index: int) -> str:
        if slot_index < num_states:
            return f"s{slot_index}"
        return (
            f"a{slot_index - num_states}"
            if slot_index < num_given
            else f"v{slot_index}"
        )

    state_lines = _unpacking_lines("s", num_states, "state")
    action_lines = state_lines + _unpacking_lines(
        "a", num_given - num_states, "action"
    )
    assignment_lines = [
        f"v{a.place} = " + convert_source(source(a.node, name), a.kind, a.node.kind)
        for a in ground.assignments
    ]
    next_values = "".join(f"v{place}, " for place in ground.after)
    reward_source = source(ground.reward, name)
    allowed_source = " and ".join(source(node, name) for node in ground.preconditions)
    over_source = " or ".join(source(node, name) for node in ground.ends)
    nodes = [a.node for a in ground.assignments]
    return Functions(
        step=_compile_function(
            "step",
            "state, action, random",
            [
                *action_lines,
                *assignment_lines,
                f"return float({reward_source}), ({next_values})",
            ],
        ),
        allowed=_compile_function(
            "allowed",
            "state, action",
            [*action_lines, f"return {allowed_source or 'True'}"],
        ),
        over=_compile_function(
            "over", "state", [*state_lines, f"return {over_source or 'False'}"]
        ),
        num_samples=sum(map(samples, (*nodes, ground.reward))),
    )


def value(node: Node) -> Callable[[Sequence[Value]], Any]:
    """A function from the vector of slots to an expression without randomness."""
    slot_name = "v[{}]".format
    function: Callable[[Sequence[Value]], Any] = _compile_function(
        "value", "v", [f"return {source(node, slot_name)}"]
    )
    return function
