"""The loops of certified search for one bound and one operator.

They are compiled, or plain Python for a plain Python operator. Built-in
operators share one compiled set per bound, cached on disk. Another operator is
compiled into a set of its own. A ``CustomOperator`` of plain functions runs the
same loops uncompiled: the operator is put in by rebinding globals, so there is
one definition for all.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified import memory_kernel, steering_kernel, sweeps_kernel
from smoothcruiser.certified.bounds.base import KEEP, Bound
from smoothcruiser.jit.build import compiled, source_fingerprint
from smoothcruiser.operators import Operator
from smoothcruiser.operators.parts import parts_of

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
    """Return the loops for ``operator`` and ``bound``.

    The compiled ones are shared by all problems with built-in operators.
    """
    own = parts_of(operator)
    base = _builtin(bound)
    if own is None:
        return base
    if own.compiled:
        side = compiled(bound.side)
        return base._replace(
            sweep=compiled(sweeps_kernel.sweep, builtin_value=own.value, BOUND=side),
            spread=compiled(steering_kernel.spread, builtin_gradient=own.gradient),
        )
    return base._replace(
        sweep=rebound(
            sweeps_kernel.sweep, {"builtin_value": own.value, "BOUND": bound.side}
        ),
        spread=rebound(steering_kernel.spread, {"builtin_gradient": own.gradient}),
    )


@cache
def _builtin(bound: Bound) -> Loops:
    # cached on disk only with a bound of this package, whose sources are followed
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
    """Return a copy of a plain function of this package with globals replaced by name.

    Those of the package functions it calls are replaced as well.
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
    """Compile (or load) the loops by running each once on an empty graph."""
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    loops.record(graph, empty, empty, empty, none, 0, False, 0.0, 1.0, np.uint64(0))
    loops.rehash(graph)
    loops.sweep(graph, empty, 0, KEEP, rules)
    loops.reach(graph, empty, 0)
    loops.allocate(graph, empty, 0, 0, 0.0, 1, empty, empty)
    loops.spread(graph, empty, 0, none, 0.0, 0, rules)
