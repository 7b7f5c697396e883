"""The loops of certified search in the form that a problem's operator allows:
compiled, or plain Python for a plain Python operator.

Built-in operators share one compiled set, cached on disk. A ``CustomOperator``
of numba.njit functions is compiled into a set of its own; one of plain
functions runs the same loops uncompiled, with the operator put in by rebinding
globals (one definition for all).
"""

from __future__ import annotations

import time
import types
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified import memory as certified_memory
from smoothcruiser.certified import sweeps as certified_sweeps
from smoothcruiser.jit.build import compiled, is_compiled
from smoothcruiser.operators.base import CustomOperator, Operator
from smoothcruiser.operators.functions import CUSTOM

_PACKAGE = __name__.split(".", maxsplit=1)[0]


class Kernels(NamedTuple):
    """The loops that a query runs."""

    record: Any
    rehash: Any
    sweep: Any
    spread: Any
    reach: Any
    allocate: Any
    compile_seconds: float


def make_kernels(operator: Operator) -> Kernels:
    """The loops for ``operator``; the compiled ones are shared by all problems
    with built-in operators.
    """
    if operator.code != CUSTOM:
        return _builtin()
    assert isinstance(operator, CustomOperator)
    base = _builtin()
    if is_compiled(operator.value_function) and is_compiled(operator.gradient_function):
        own = {
            "builtin_value": compiled(
                compiled_value, CUSTOM_VALUE=operator.value_function
            ),
            "builtin_gradient": compiled(
                compiled_gradient, CUSTOM_GRADIENT=operator.gradient_function
            ),
        }
        return base._replace(
            sweep=compiled(certified_sweeps.sweep, **own),
            spread=compiled(certified_sweeps.spread, **own),
        )

    def value(code: int, q: Any, w: Any, t: float) -> float:
        return operator.value(q)

    def gradient(code: int, q: Any, w: Any, t: float, out: Any) -> None:
        out[:] = operator.gradient(q)

    plain = {"builtin_value": value, "builtin_gradient": gradient}
    return base._replace(
        sweep=rebound(certified_sweeps.sweep, plain),
        spread=rebound(certified_sweeps.spread, plain),
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
def _builtin() -> Kernels:
    begin = time.perf_counter()
    made = Kernels(
        record=compiled(certified_memory.record, nogil=True),
        rehash=compiled(certified_memory.rehash),
        sweep=compiled(certified_sweeps.sweep, nogil=True),
        spread=compiled(certified_sweeps.spread, nogil=True),
        reach=compiled(certified_sweeps.reach, nogil=True),
        allocate=compiled(certified_sweeps.allocate, nogil=True),
        compile_seconds=0.0,
    )
    return made._replace(compile_seconds=time.perf_counter() - begin)


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


def warmed(kernels: Kernels, problem_graph: Any, rules: Any) -> float:
    """Seconds spent on compiling (or loading) the loops: each is run once over
    nothing.
    """
    begin = time.perf_counter()
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    kernels.record(
        problem_graph, empty, empty, empty, none, 0, False, 0.0, 1.0, np.uint64(0)
    )
    kernels.rehash(problem_graph)
    kernels.sweep(problem_graph, empty, 0, certified_sweeps.KEEP, rules)
    kernels.reach(problem_graph, empty, 0)
    kernels.allocate(problem_graph, empty, 0, 0, 0.0, 1, empty, empty)
    kernels.spread(problem_graph, empty, 0, none, 0.0, 0, rules)
    return time.perf_counter() - begin
