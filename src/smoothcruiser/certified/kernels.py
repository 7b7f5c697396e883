"""The loops of certified search in the form that a problem's operator allows:
compiled, or plain Python for a plain Python operator.

Built-in operators share one compiled set, cached on disk. Another operator is
compiled into a set of its own; a ``CustomOperator`` of plain functions runs the
same loops uncompiled, with the operator put in by rebinding globals (one
definition for all).
"""

from __future__ import annotations

import time
import types
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified import memory as certified_memory
from smoothcruiser.certified import sweeps as certified_sweeps
from smoothcruiser.jit.build import compiled
from smoothcruiser.operators import Operator
from smoothcruiser.operators.parts import parts_of

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
    own = parts_of(operator)
    base = _builtin()
    if own is None:
        return base
    put = {"builtin_value": own.value, "builtin_gradient": own.gradient}
    if own.compiled:
        return base._replace(
            sweep=compiled(certified_sweeps.sweep, **put),
            spread=compiled(certified_sweeps.spread, **put),
        )
    return base._replace(
        sweep=rebound(certified_sweeps.sweep, put),
        spread=rebound(certified_sweeps.spread, put),
    )


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
