"""The loops of certified search with the bound put in, in the form that a
problem's operator allows: compiled, or plain Python for a plain Python operator.

Built-in operators share one compiled set per bound, cached on disk. A
``CustomOperator`` of numba.njit functions is compiled into a set of its own; one
of plain functions runs the same loops uncompiled, with the operator put in by
rebinding globals (one definition for all).
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified import memory_kernel, steering_kernel, sweeps_kernel
from smoothcruiser.certified.bounds.base import KEEP, Bound
from smoothcruiser.jit.build import compiled, is_compiled, source_fingerprint
from smoothcruiser.operators.base import CustomOperator, Operator
from smoothcruiser.operators.functions import CUSTOM

_PACKAGE = __name__.split(".", maxsplit=1)[0]


class Loops(NamedTuple):
    """The loops that a query runs."""

    record: Any
    rehash: Any
    sweep: Any
    spread: Any
    reach: Any
    allocate: Any


def make_loops(operator: Operator, bound: Bound) -> Loops:
    """The loops for ``operator`` and ``bound``; the compiled ones are shared by
    all problems with built-in operators.
    """
    if operator.code != CUSTOM:
        return _builtin(bound)
    assert isinstance(operator, CustomOperator)
    base = _builtin(bound)
    if is_compiled(operator.value_function) and is_compiled(operator.gradient_function):
        value_of = compiled(compiled_value, CUSTOM_VALUE=operator.value_function)
        gradient_of = compiled(
            compiled_gradient, CUSTOM_GRADIENT=operator.gradient_function
        )
        return base._replace(
            sweep=compiled(
                sweeps_kernel.sweep, builtin_value=value_of, BOUND=compiled(bound.side)
            ),
            spread=compiled(steering_kernel.spread, builtin_gradient=gradient_of),
        )

    def value(code: int, q: Any, w: Any, t: float) -> float:
        return operator.value(q)

    def gradient(code: int, q: Any, w: Any, t: float, out: Any) -> None:
        out[:] = operator.gradient(q)

    return base._replace(
        sweep=rebound(
            sweeps_kernel.sweep, {"builtin_value": value, "BOUND": bound.side}
        ),
        spread=rebound(steering_kernel.spread, {"builtin_gradient": gradient}),
    )


def CUSTOM_VALUE(q: Any) -> float:
    """Replaced by the user's value function."""
    raise NotImplementedError


def CUSTOM_GRADIENT(q: Any) -> Any:
    """Replaced by the user's gradient function."""
    raise NotImplementedError


def compiled_value(code: int, q: Any, w: Any, t: float) -> float:
    """A user's F with the argument list of the built-in ones; a copy, so that
    the user may write to it.
    """
    return CUSTOM_VALUE(q.copy())


def compiled_gradient(code: int, q: Any, w: Any, t: float, out: Any) -> None:
    """A user's gradient with the argument list of the built-in ones."""
    found = CUSTOM_GRADIENT(q.copy())
    for a in range(len(q)):
        out[a] = found[a]


@cache
def _builtin(bound: Bound) -> Loops:
    # on disk only with a bound of this package: its sources are known
    ours = bound.side.__module__.startswith(_PACKAGE)
    mark = f"{bound.word}_{source_fingerprint(bound.side)}" if ours else None
    return Loops(
        record=compiled(memory_kernel.record, nogil=True),
        rehash=compiled(memory_kernel.rehash),
        sweep=compiled(
            sweeps_kernel.sweep,
            nogil=True,
            salt=mark,
            BOUND=compiled(bound.side),
        ),
        spread=compiled(steering_kernel.spread, nogil=True),
        reach=compiled(steering_kernel.reach, nogil=True),
        allocate=compiled(steering_kernel.allocate, nogil=True),
    )


def rebound(function: Any, replace: dict[str, Any]) -> Any:
    """A copy of a plain function of this package whose globals, and those of
    the package functions it calls, are replaced by name.
    """
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        inner = scope.get(name)
        if name in replace:
            scope[name] = replace[name]
        elif (
            isinstance(inner, types.FunctionType)
            and inner.__module__.startswith(_PACKAGE)
            and inner is not function
        ):
            scope[name] = rebound(inner, replace)
    return types.FunctionType(
        function.__code__,
        scope,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def warm(loops: Loops, graph: Any, rules: Any) -> None:
    """Compile (or load) the loops: each is run once over nothing."""
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    loops.record(graph, empty, empty, empty, none, 0, False, 0.0, 1.0, np.uint64(0))
    loops.rehash(graph)
    loops.sweep(graph, empty, 0, KEEP, rules)
    loops.reach(graph, empty, 0)
    loops.allocate(graph, empty, 0, 0, 0.0, 1, empty, empty)
    loops.spread(graph, empty, 0, none, 0.0, 0, rules)
