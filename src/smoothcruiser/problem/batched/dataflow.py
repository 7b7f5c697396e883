"""Which parts of a state bear on anything that a planner asks, read off the step itself.

The state of an environment holds more than its future depends on: the last observation,
the last rewards, counters for statistics. Kept in a state, they keep equal futures
apart. JAX traces a step into a list of equations (a jaxpr), so what an output depends on
is seen there and need not be guessed. Let D(x) be the inputs on which the output x
depends. The leaves that matter are the smallest set S with

    S  contains  what legal moves, mover and end are read from
    S  contains  D(reward), D(end), and D(next value of l) for every l in S

By induction over the steps, states that agree in S have the same future under the same
actions and keys. If no key is in these D, nothing is left to chance: the step is
deterministic. D comes from dead-code elimination, which may call an input needed that is
not, and never the other way.

A traced step also remembers nothing, since equations have no memory. Only calls back
into Python have (``pure_callback`` and its kin): such a step is refused. What this file
leaves out: values of leaves that differ and have equal futures all the same.
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


def relevance(
    step: Callable[..., Any], forms: Sequence[Any], observed: set[int], title: str
) -> Relevance:
    """What matters to a step.

    Args:
        step: ``step(*leaves, action, key) -> (reward, end, *next_leaves)``.
        forms: shapes and types of its arguments.
        observed: the leaves that legal moves, mover and end are read from.
        title: of the environment, for messages.
    """
    traced = jax.make_jaxpr(step)(*forms)
    for name in _primitives(traced.jaxpr):
        if CALLS_BACK in name:
            raise InvalidInput(
                f"{title} calls Python from inside its step ({name}), which may remember "
                "what no state holds; write the step in JAX alone."
            )
    count = len(forms) - 2
    matter, chance = set(observed), True
    eliminate = getattr(jax.interpreters.partial_eval, "dce_jaxpr", None)
    if eliminate is None:  # a JAX without it: everything may matter
        return Relevance(tuple(range(count)), True)
    while True:
        wanted = [True, True, *(i in matter for i in range(count))]
        _, used = eliminate(traced.jaxpr, wanted)
        chance = bool(used[count + 1])
        more = matter | {i for i in range(count) if used[i]}
        if more == matter:
            return Relevance(tuple(sorted(matter)), chance)
        matter = more


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives of a program, those inside others too."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in _programs(list(equation.params.values())):
            yield from _primitives(inner)


def _programs(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _programs(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr
