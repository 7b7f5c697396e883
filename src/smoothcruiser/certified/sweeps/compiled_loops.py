"""The loops of certified search for one bound and one operator.

They are compiled, or plain Python for a plain Python operator. Built-in
operators share one compiled set per bound, cached on disk. Another operator is
compiled into a set of its own. A ``CustomOperator`` of plain functions runs the
same loops uncompiled: the operator is put in by rebinding globals, so there is
one definition for all.
"""

from __future__ import annotations

import math
import types
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.certified.bounds.base import KEEP, Bound
from smoothcruiser.certified.sweeps import (
    counted_kernel,
    layers_kernel,
    memory_kernel,
    steering_kernel,
)
from smoothcruiser.certified.sweeps import counted_kernel as influence_kernel
from smoothcruiser.certified.sweeps import layers_kernel as inductive_kernel
from smoothcruiser.certified.sweeps import sweeps_kernel as changes_kernel
from smoothcruiser.certified.sweeps import sweeps_kernel as solving_kernel
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function, source_fingerprint
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.jit.oracle import first_line
from smoothcruiser.operators import Operator
from smoothcruiser.operators.operator_functions import parts_of

_PACKAGE = __name__.split(".", maxsplit=1)[0]


# about the CPU seconds of compiling the loops of a discounted problem
CERTIFIED = KernelFamily(compiling=14.0)
CALL_SECONDS = 15e-6  # of a call, interpreted: 14 to 24 in worlds of 50 to 500 states


def expect_calls(num_calls: float, seconds: float | None) -> None:
    """Note that a search will take so many calls, or so long if that is less."""
    CERTIFIED.expect(min(num_calls * CALL_SECONDS, seconds or math.inf))


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
    operator_parts, base_loops = parts_of(operator), _builtin(bound)
    if operator_parts is None:
        return base_loops
    if operator_parts.compiled:
        try:
            bound_side = compile_function(bound.side)
        except Exception as error:  # ``side`` is no function that can be rebuilt
            raise not_compiled(bound, error) from error
        return base_loops._replace(
            sweep=compile_function(
                changes_kernel.sweep,
                builtin_value=operator_parts.value,
                BOUND=bound_side,
            ),
            spread=compile_function(
                steering_kernel.spread, builtin_gradient=operator_parts.gradient
            ),
        )
    return base_loops._replace(
        sweep=rebound(
            changes_kernel.sweep,
            {"builtin_value": operator_parts.value, "BOUND": bound.side},
        ),
        spread=rebound(
            steering_kernel.spread, {"builtin_gradient": operator_parts.gradient}
        ),
    )


def make_layer_loops(operator: Operator, bound: Bound) -> LayerLoops:
    """Return the loops over layers for ``operator`` and ``bound``."""
    operator_parts, base_loops = parts_of(operator), _builtin_layers(bound)
    if operator_parts is None:
        return base_loops
    bound_side = (
        compile_function(bound.side) if operator_parts.compiled else bound.side
    )
    new_globals = {
        "builtin_value": operator_parts.value,
        "builtin_gradient": operator_parts.gradient,
        "BOUND": bound_side,
    }
    build_loop: Any = (
        (lambda function: compile_function(function, **new_globals))
        if operator_parts.compiled
        else (lambda function: rebound(function, new_globals))
    )
    return base_loops._replace(
        sweep=build_loop(layers_kernel.sweep_layers),
        flow=build_loop(layers_kernel.flow_layers),
        show=build_loop(layers_kernel.show_stage),
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
    operator_parts = parts_of(operator)
    if operator_parts is None:
        return _builtin_counted()
    new_globals: dict[str, Any] = {
        "builtin_value": operator_parts.value,
        "builtin_gradient": operator_parts.gradient,
    }
    if not operator_parts.compiled:
        plain_loops = [rebound(function, new_globals) for function in COUNTED]
        return CountedLoops(*plain_loops)._replace(price=PYTHON_PRICE)
    compiled_loops = [
        compile_function(function, nogil=True, **new_globals) for function in COUNTED
    ]
    return CountedLoops(*compiled_loops)


@cache
def _builtin_counted() -> CountedLoops:
    loops: list[Any] = [CERTIFIED.kernel(function, nogil=True) for function in COUNTED]
    return CountedLoops(*loops)


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


@cache
def make_closing_loops(bound: Bound) -> ClosingLoops:
    """Return the loops for ``bound``; the operator is plain max."""
    kernel, side_options = CERTIFIED.kernel, _side_options(bound)
    tilt_options = _side_options(bound, with_tilt=True)
    return ClosingLoops(
        push=kernel(inductive_kernel.push, nogil=True, **side_options),
        straighten=kernel(solving_kernel.straighten, nogil=True, **tilt_options),
        follow=kernel(solving_kernel.follow, nogil=True),
        climb=kernel(inductive_kernel.climb, nogil=True, **side_options),
        is_inductive=kernel(inductive_kernel.is_inductive, nogil=True, **side_options),
    )


def _mark(bound: Bound) -> str | None:
    """The key by which a bound's loops are cached on disk.

    None unless the bound is of this package: only its own sources are followed.
    """
    is_ours = _is_ours(bound.side)
    return f"{bound.word}_{source_fingerprint(bound.side)}" if is_ours else None


@cache
def _builtin_layers(bound: Bound) -> LayerLoops:
    kernel, side_options = CERTIFIED.kernel, _side_options(bound)
    return LayerLoops(
        list_layers=kernel(layers_kernel.list_layers, nogil=True),
        sweep=kernel(layers_kernel.sweep_layers, nogil=True, **side_options),
        flow=kernel(layers_kernel.flow_layers, nogil=True, **side_options),
        show=kernel(layers_kernel.show_stage, nogil=True, **side_options),
    )


@cache
def _builtin(bound: Bound) -> Loops:
    kernel = CERTIFIED.kernel
    return Loops(
        record=kernel(memory_kernel.record, nogil=True),
        rehash=kernel(memory_kernel.rehash),
        repack=kernel(memory_kernel.repack),
        sweep=kernel(changes_kernel.sweep, nogil=True, **_side_options(bound)),
        spread=kernel(steering_kernel.spread, nogil=True),
        reach=kernel(steering_kernel.reach, nogil=True),
        allocate=kernel(steering_kernel.allocate, nogil=True),
    )


def _side_options(bound: Bound, *, with_tilt: bool = False) -> dict[str, Any]:
    """The bound's functions in a loop; those of another package are always compiled."""
    parts: dict[str, Any] = {"BOUND": bound.side}
    if with_tilt:
        parts["TILT"] = bound.tilt
    if isinstance(bound.side, types.FunctionType) and _is_ours(bound.side):
        return {"salt": _mark(bound), "parts": parts}
    try:
        return {name: compile_function(part) for name, part in parts.items()}
    except Exception as error:  # ``side`` is no function that can be rebuilt
        raise not_compiled(bound, error) from error


def _is_ours(function: Any) -> bool:
    """Whether a function is of this package, and not of one with a similar name."""
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
    new_globals = dict(function.__globals__)
    for global_name in function.__code__.co_names:
        inner_function = new_globals.get(global_name)
        if global_name in replace:
            new_globals[global_name] = replace[global_name]
        elif (
            isinstance(inner_function, types.FunctionType)
            and _is_ours(inner_function)
            and inner_function is not function
        ):
            new_globals[global_name] = rebound(inner_function, replace)
    return types.FunctionType(
        function.__code__,
        new_globals,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def warm_intake(loops: Loops, graph: Any) -> None:
    """Compile (or load) the loops that enter and share out samples."""
    no_indices, no_values = np.zeros(0, dtype=np.int64), np.zeros(0)
    loops.record(
        graph, no_indices, no_indices, no_indices, no_values, 0, 0.0, 1.0, np.uint64(0)
    )
    loops.rehash(graph)
    loops.repack(graph, graph.entries)
    loops.allocate(graph, no_indices, 0, 0, 0.0, 1, no_indices, no_indices)


def warm(loops: Loops, bound: Bound, graph: Any, rules: Any) -> None:
    """Compile (or load) the loops that run over nodes, on an empty graph."""
    no_indices, no_values = np.zeros(0, dtype=np.int64), np.zeros(0)
    try:
        loops.sweep(graph, no_indices, 0, KEEP, rules)
    except Exception as error:  # operators are compiled before they are put in
        raise not_compiled(bound, error) from error
    loops.reach(graph, no_indices, 0)
    loops.spread(graph, no_indices, 0, no_values, 0.0, 0, rules)
