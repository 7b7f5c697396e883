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

from smoothcruiser.certified import (
    changes_kernel,
    counted_kernel,
    inductive_kernel,
    influence_kernel,
    layers_kernel,
    memory_kernel,
    pooled_kernel,
    solving_kernel,
    steering_kernel,
)
from smoothcruiser.certified.bounds.base import KEEP, Bound
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compiled, source_fingerprint
from smoothcruiser.jit.oracle import first_line
from smoothcruiser.operators import Operator
from smoothcruiser.operators.parts import parts_of

_PACKAGE = __name__.split(".", maxsplit=1)[0]


class Loops(NamedTuple):
    """The loops that a query runs."""

    record: Any
    rehash: Any
    repack: Any
    sweep: Any
    spread: Any
    reach: Any
    allocate: Any


class LayerLoops(NamedTuple):
    """The loops that run over the layers of a horizon."""

    list_layers: Any
    sweep: Any
    flow: Any
    show: Any


def make_loops(operator: Operator, bound: Bound) -> Loops:
    """Return the loops for ``operator`` and ``bound``.

    The compiled ones are shared by all problems with built-in operators.
    """
    own = parts_of(operator)
    try:
        base, side = _builtin(bound), compiled(bound.side)
    except Exception as error:  # ``side`` is no function that can be rebuilt
        raise not_compiled(bound, error) from error
    if own is None:
        return base
    if own.compiled:
        return base._replace(
            sweep=compiled(changes_kernel.sweep, builtin_value=own.value, BOUND=side),
            spread=compiled(steering_kernel.spread, builtin_gradient=own.gradient),
        )
    return base._replace(
        sweep=rebound(
            changes_kernel.sweep, {"builtin_value": own.value, "BOUND": bound.side}
        ),
        spread=rebound(steering_kernel.spread, {"builtin_gradient": own.gradient}),
    )


def make_layer_loops(operator: Operator, bound: Bound) -> LayerLoops:
    """Return the loops over layers for ``operator`` and ``bound``."""
    own, base = parts_of(operator), _builtin_layers(bound)
    if own is None:
        return base
    side = compiled(bound.side) if own.compiled else bound.side
    put = {"builtin_value": own.value, "builtin_gradient": own.gradient, "BOUND": side}
    build: Any = (
        (lambda function: compiled(function, **put))
        if own.compiled
        else (lambda function: rebound(function, put))
    )
    return base._replace(
        sweep=build(layers_kernel.sweep_layers),
        flow=build(layers_kernel.flow_layers),
        show=build(layers_kernel.show_stage),
    )


class CountedLoops(NamedTuple):
    """The loops that solve the counted model."""

    solve: Any
    means: Any
    close: Any
    show: Any
    spread: Any
    solve_layers: Any
    show_means: Any
    spread_layers: Any
    price: float = 1.0  # how much slower than compiled code they are


PYTHON_PRICE = 300.0  # plain Python takes about a microsecond for an outcome


def make_counted_loops(operator: Operator) -> CountedLoops:
    """Return the loops for ``operator``; they are the same for all bounds."""
    own = parts_of(operator)
    put: dict[str, Any] = {}
    if own is not None:
        put = {"builtin_value": own.value, "builtin_gradient": own.gradient}
    if own is not None and not own.compiled:
        plain = [rebound(function, put) for function in COUNTED]
        return CountedLoops(*plain)._replace(price=PYTHON_PRICE)
    fast = [compiled(function, nogil=True, **put) for function in COUNTED]
    return CountedLoops(*fast)


COUNTED = (
    counted_kernel.solve_nodes,
    counted_kernel.node_means,
    counted_kernel.close_node,
    counted_kernel.show_nodes,
    influence_kernel.spread_nodes,
    counted_kernel.solve_layers,
    counted_kernel.show_means,
    influence_kernel.spread_layers,
)


class ClosingLoops(NamedTuple):
    """The loops that prove bounds of totals by induction."""

    push: Any
    straighten: Any
    follow: Any
    climb: Any
    is_inductive: Any


class PooledLoops(NamedTuple):
    """The loops that bound a state by what all pairs together never showed."""

    prepare: Any
    gaps: Any
    means: Any
    solve: Any
    fix_policy: Any
    worst_pair: Any


@cache
def make_pooled_loops() -> PooledLoops:
    """Return the loops; the operator is a built-in one."""
    names = PooledLoops._fields
    return PooledLoops(
        *(compiled(getattr(pooled_kernel, name), nogil=True) for name in names)
    )


@cache
def make_closing_loops(bound: Bound) -> ClosingLoops:
    """Return the loops for ``bound``; the operator is plain max."""
    put = {"nogil": True, "salt": _mark(bound), "BOUND": compiled(bound.side)}
    return ClosingLoops(
        push=compiled(inductive_kernel.push, **put),
        straighten=compiled(
            solving_kernel.straighten, TILT=compiled(bound.tilt), **put
        ),
        follow=compiled(solving_kernel.follow, nogil=True),
        climb=compiled(inductive_kernel.climb, **put),
        is_inductive=compiled(inductive_kernel.is_inductive, **put),
    )


def _mark(bound: Bound) -> str | None:
    """What a bound's loops are cached by on disk.

    None unless the bound is of this package, whose sources are followed.
    """
    ours = _is_ours(bound.side)
    return f"{bound.word}_{source_fingerprint(bound.side)}" if ours else None


@cache
def _builtin_layers(bound: Bound) -> LayerLoops:
    put = {"nogil": True, "salt": _mark(bound), "BOUND": compiled(bound.side)}
    return LayerLoops(
        list_layers=compiled(layers_kernel.list_layers, nogil=True),
        sweep=compiled(layers_kernel.sweep_layers, **put),
        flow=compiled(layers_kernel.flow_layers, **put),
        show=compiled(layers_kernel.show_stage, **put),
    )


@cache
def _builtin(bound: Bound) -> Loops:
    return Loops(
        record=compiled(memory_kernel.record, nogil=True),
        rehash=compiled(memory_kernel.rehash),
        repack=compiled(memory_kernel.repack),
        sweep=compiled(
            changes_kernel.sweep,
            nogil=True,
            salt=_mark(bound),
            BOUND=compiled(bound.side),
        ),
        spread=compiled(steering_kernel.spread, nogil=True),
        reach=compiled(steering_kernel.reach, nogil=True),
        allocate=compiled(steering_kernel.allocate, nogil=True),
    )


def _is_ours(function: Any) -> bool:
    """Whether a function is of this package, and not of one whose name begins alike."""
    return str(function.__module__).split(".", maxsplit=1)[0] == _PACKAGE


def not_compiled(bound: Bound, error: Exception) -> InvalidInput:
    """The refusal of a bound that Numba cannot compile."""
    return InvalidInput(
        f"The bound {bound.word!r} cannot be compiled: {first_line(error)} Its side must "
        "be a function that Numba can compile."
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
            and _is_ours(inner)
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


def warm_intake(loops: Loops, graph: Any) -> None:
    """Compile (or load) what enters samples and shares them out, on an empty graph."""
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    loops.record(graph, empty, empty, empty, none, 0, 0.0, 1.0, np.uint64(0))
    loops.rehash(graph)
    loops.repack(graph, graph.entries)
    loops.allocate(graph, empty, 0, 0, 0.0, 1, empty, empty)


def warm(loops: Loops, bound: Bound, graph: Any, rules: Any) -> None:
    """Compile (or load) what runs over nodes, on an empty graph."""
    empty, none = np.zeros(0, dtype=np.int64), np.zeros(0)
    try:
        loops.sweep(graph, empty, 0, KEEP, rules)
    except Exception as error:  # operators are compiled before they are put in
        raise not_compiled(bound, error) from error
    loops.reach(graph, empty, 0)
    loops.spread(graph, empty, 0, none, 0.0, 0, rules)
