"""The parts of a state that matter to a planner, read off the step itself.

The state of an environment holds more than its future depends on: the last observation,
the last rewards, counters for statistics. Kept in a state, they keep equal futures
apart. JAX traces a step into a list of equations (a jaxpr), so the inputs of an output
are visible there and need not be guessed. Let D(x) be the inputs on which the output x
depends. The leaves that matter are the smallest set S with

    S  contains  the leaves that legal moves, mover and end are read from
    S  contains  D(reward), D(end), and D(next value of l) for every l in S

By induction over the steps, states that agree in S have the same future under the same
actions and keys. If no key is in these D, nothing is left to chance: the step is
deterministic. D comes from dead-code elimination, which may call an input needed that is
not, and never the other way.

A traced step also remembers nothing, since equations have no memory. Only calls back
into Python have (``pure_callback`` and its kin): such a step is refused. This file
leaves out values of leaves that differ and have equal futures all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched.jax import jax

CALLS_BACK = "callback"  # part of the names of all primitives that call Python


@dataclass(frozen=True)
class Relevance:
    """The leaves that matter, in order, and whether chance has a part."""

    leaves: tuple[int, ...]
    chance: bool


def find_relevance(
    step: Callable[..., Any], forms: Sequence[Any], observed: set[int], title: str
) -> Relevance:
    """The leaves that matter to a step, and whether chance does.

    Args:
        step: ``step(*leaves, action, key) -> (reward, end, *next_leaves)``.
        forms: shapes and types of its arguments.
        observed: the leaves that legal moves, mover and end are read from.
        title: of the environment, for messages.
    """
    traced_step = jax.make_jaxpr(step)(*forms)
    for primitive_name in _primitives(traced_step.jaxpr):
        if CALLS_BACK in primitive_name:
            raise InvalidInput(
                f"{title} calls Python from inside its step ({primitive_name}), which "
                "may remember what no state holds; write the step in JAX alone."
            )
    num_leaves = len(forms) - 2
    relevant_leaves, uses_chance = set(observed), True
    eliminate_code = getattr(jax.interpreters.partial_eval, "dce_jaxpr", None)
    if eliminate_code is None:  # a JAX without it: everything may matter
        return Relevance(tuple(range(num_leaves)), True)
    while True:
        wanted_outputs = [
            True,
            True,
            *(i in relevant_leaves for i in range(num_leaves)),
        ]
        _, used_inputs = eliminate_code(traced_step.jaxpr, wanted_outputs)
        uses_chance = bool(used_inputs[num_leaves + 1])
        enlarged_leaves = relevant_leaves | {
            i for i in range(num_leaves) if used_inputs[i]
        }
        if enlarged_leaves == relevant_leaves:
            return Relevance(tuple(sorted(relevant_leaves)), uses_chance)
        relevant_leaves = enlarged_leaves


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives of a program, those inside others too."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner_program in _programs(list(equation.params.values())):
            yield from _primitives(inner_program)


def _programs(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _programs(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr
