"""The loops of certified search for one bound and one operator.

They are interpreted, then compiled (``jit.forms``). Built-in operators share
one set per bound, cached on disk. With another operator, the loops that call it
are compiled for it alone; where it is plain Python (a ``CustomOperator`` of
plain functions) they stay plain Python too. In either case its functions take
the places of those of ``operators.dispatch``, so there is one definition for
all.
"""

from __future__ import annotations

import math
import types
from functools import cache
from typing import Any

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.sweeps import (
    counted_kernel,
    layers_kernel,
    memory_kernel,
    pooled_kernel,
    steering_kernel,
    sweeps_kernel,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function, source_fingerprint
from smoothcruiser.jit.forms import KernelFamily
from smoothcruiser.jit.oracle import first_line
from smoothcruiser.operators import Operator
from smoothcruiser.operators.operator_functions import OperatorParts, parts_of

_PACKAGE = __name__.split(".", maxsplit=1)[0]

# about the CPU seconds of compiling the loops of a discounted problem
CERTIFIED = KernelFamily(compiling=14.0)
# the least of a call, interpreted: 3 of a million in 50 states, 24 of few calls
CALL_SECONDS = 2e-6
PYTHON_PRICE = 300.0  # plain Python takes about a microsecond for an outcome

# loops over the graph alone; loops that call the operator; loops that call the bound of
# a pair and may call the operator
GRAPH_LOOPS = (
    memory_kernel.record,
    memory_kernel.rehash,
    memory_kernel.repack,
    steering_kernel.reach,
    steering_kernel.allocate,
    layers_kernel.list_layers,
    sweeps_kernel.follow,
    pooled_kernel.prepare,
    pooled_kernel.gaps,
    pooled_kernel.means,
)
OPERATOR_LOOPS = (
    steering_kernel.spread,
    counted_kernel.solve_nodes,
    counted_kernel.node_means,
    counted_kernel.close_node,
    counted_kernel.show_nodes,
    counted_kernel.spread_nodes,
    counted_kernel.solve_layers,
    counted_kernel.show_means,
    counted_kernel.spread_layers,
    pooled_kernel.solve,
    pooled_kernel.fix_policy,
    pooled_kernel.worst_pair,
)
BOUND_LOOPS = (
    sweeps_kernel.sweep,
    sweeps_kernel.straighten,
    layers_kernel.sweep_layers,
    layers_kernel.flow_layers,
    layers_kernel.show_stage,
    layers_kernel.push,
    layers_kernel.climb,
    layers_kernel.is_inductive,
)
LOOPS = {loop.__name__: loop for loop in (*GRAPH_LOOPS, *OPERATOR_LOOPS, *BOUND_LOOPS)}


def expect_calls(num_calls: float, seconds: float | None) -> None:
    """Note that a search will take so many calls, or so long if that is less.

    The least of a call counts; what it takes is seen as it is spent.
    """
    CERTIFIED.expect(min(num_calls * CALL_SECONDS, seconds or math.inf))


class Loops:
    """The loops of a search, by the names of their functions; built when first read."""

    def __init__(self, operator_parts: OperatorParts | None, bound: Bound) -> None:
        """``operator_parts`` are None where those of ``operators.dispatch`` serve."""
        self.operator_parts, self.bound = operator_parts, bound
        is_plain = operator_parts is not None and not operator_parts.compiled
        # how much slower than compiled code the operator is
        self.price = PYTHON_PRICE if is_plain else 1.0

    @property
    def is_compiled(self) -> bool:
        """Whether some are compiled from their first call on."""
        own = self.operator_parts
        is_own = not _is_ours(self.bound.side) or (own is not None and own.compiled)
        return is_own or bool(CERTIFIED.is_compiled)

    def __getattr__(self, name: str) -> Any:
        if name not in LOOPS:
            raise AttributeError(name)
        function, own = LOOPS[name], self.operator_parts
        parts: dict[str, Any] = {}
        if function in BOUND_LOOPS:
            parts["BOUND"] = self.bound.side
        if name == "straighten":
            parts["TILT"] = self.bound.tilt
        own_parts: dict[str, Any] = {}
        if own is not None and function not in GRAPH_LOOPS:
            own_parts = {"builtin_value": own.value, "builtin_gradient": own.gradient}
        setattr(self, name, self._build_loop(function, parts, own_parts))
        return self.__dict__[name]

    def _build_loop(
        self, function: Any, parts: dict[str, Any], own_parts: dict[str, Any]
    ) -> Any:
        """The loop with the bound's functions, and with the operator's own."""
        bound = self.bound
        if own_parts and self.operator_parts and not self.operator_parts.compiled:
            return rebound(function, own_parts | parts)
        if not own_parts and all(map(_is_ours, parts.values())):
            # only sources of this package are followed, so only they are kept on disk
            salt = f"{bound.word}_{source_fingerprint(bound.side)}" if parts else None
            return CERTIFIED.kernel(function, nogil=True, salt=salt, parts=parts)
        try:
            parts = {name: compile_function(part) for name, part in parts.items()}
        except Exception as error:  # ``side`` is no function that can be rebuilt
            raise not_compiled(bound, error) from error
        return CERTIFIED.kernel(function, nogil=True, **own_parts, **parts)


@cache
def _make_builtin(bound: Bound) -> Loops:
    return Loops(None, bound)


def make_loops(operator: Operator, bound: Bound) -> Loops:
    """The loops for ``operator`` and ``bound``; built-in operators share them."""
    operator_parts = parts_of(operator)
    if operator_parts is None:
        return _make_builtin(bound)
    return Loops(operator_parts, bound)


def _is_ours(function: Any) -> bool:
    """Whether a plain function is of this package, and not of one with a similar name."""
    is_plain = isinstance(function, types.FunctionType)
    return is_plain and function.__module__.split(".", maxsplit=1)[0] == _PACKAGE


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
        elif _is_ours(inner_function) and inner_function is not function:
            new_globals[global_name] = rebound(inner_function, replace)
    return types.FunctionType(
        function.__code__,
        new_globals,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
