"""Functions as evaluators: plain Python, ``numba.njit``, and over arrays.

f(state)                  a number, or one per action
numba.njit of the same    runs inside the compiled tree
sc.batched(f)             f(states): arrays in, an array out, one row per state. The
                          array may be NumPy's, JAX's or PyTorch's
                          (``np.from_dlpack``); with backend="jax" f is compiled by
                          ``jax.jit``, and mapped over rows with each=True

Which parameters of a tree search go together at leaves.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.jit.build import hear_stops_in, is_compiled
from smoothcruiser.problem.batched import Batched
from smoothcruiser.tree.evaluators.base import (
    Floats,
    LeafEvaluator,
    Leaves,
    as_rows,
    function_error,
    plain_array,
)


class Function(LeafEvaluator):
    """A function of one state, plain or compiled."""

    def __init__(self, source: Any) -> None:
        self.source = source
        hear_stops_in(source)

    @property
    def machine(self) -> Any:
        """The function itself where it is compiled."""
        return self.source if is_compiled(self.source) else None

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """One call per leaf."""
        answer_rows = np.empty((leaves.count, width))
        for i, state in enumerate(leaves.states):
            try:
                returned = self.source(state)
            except (SmoothcruiserError, KeyboardInterrupt):
                raise
            except Exception as error:
                raise function_error(name, error, f"at state {state!r:.60}") from error
            answer_rows[i] = one_row(returned, width, name)
        return answer_rows

    def __str__(self) -> str:
        return str(getattr(self.source, "__name__", type(self.source).__name__))


def one_row(returned: Any, width: int, name: str) -> Floats:
    """The answer of a function of one state, as a row."""
    if returned is None:
        raise InvalidInput(f"{name} returned None for a state; is a return missing?")
    if name == "network":
        return _network_rows([returned], 1, width).reshape(width)
    if width == 1:
        expected = "one number per state"
        return as_rows([_scalar(returned)], 1, 1, name, expected).reshape(1)
    expected = "one number per action, {k} of them"
    return as_rows([plain_array(returned)], 1, width, name, expected).reshape(width)


def _scalar(returned: Any) -> Any:
    """A number, also where it came as an array of one."""
    array = plain_array(returned)
    return array.reshape(()) if getattr(array, "shape", ()) == (1,) else array


def _network_rows(pairs: Any, count: int, width: int) -> Floats:
    """Rows of (value, priors) from pairs (priors, value)."""
    answer_rows = np.empty((count, width))
    expected = "(one number per action, a value)"
    for i, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(
                f"network must return {expected}, got {type(pair).__name__}."
            )
        answer_rows[i, 1:] = one_row(pair[0], width - 1, "network's prior")
        answer_rows[i, 0] = one_row(pair[1], 1, "network's value")[0]
    return answer_rows


class OverArrays(LeafEvaluator):
    """A function over arrays of states."""

    def __init__(self, source: Batched) -> None:
        self.source = source

    @cached_property
    def _batch_function(self) -> Any:
        if self.source.kind == "numpy":
            return self.source.function
        import jax

        function = self.source.function
        return jax.jit(jax.vmap(function) if self.source.each else function)

    def _answer(self, columns: Any) -> Any:
        if self.source.kind == "numpy":
            return self._batch_function(columns)
        from smoothcruiser.problem.batched.jax import precise

        with precise(self.source.x64):
            return self._batch_function(columns)

    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """One call for all leaves."""
        num_leaves = leaves.count
        try:
            returned = self._answer(leaves.columns)
        except (SmoothcruiserError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise function_error(
                name, error, f"for a batch of {num_leaves} states"
            ) from error
        if name == "network":
            if not isinstance(returned, tuple | list) or len(returned) != 2:
                raise InvalidInput(
                    "network must return (priors, values) for a batch, got "
                    f"{type(returned).__name__}."
                )
            prior_shape = "priors of shape ({n}, {k})"
            value_rows = as_rows(
                returned[1], num_leaves, 1, name, "values of shape ({n},)"
            )
            return np.hstack(
                [
                    value_rows,
                    as_rows(returned[0], num_leaves, width - 1, name, prior_shape),
                ]
            )
        expected_shape = (
            "an array of shape ({n},)" if width == 1 else "an array of ({n}, {k})"
        )
        return as_rows(returned, num_leaves, width, name, expected_shape)

    def __str__(self) -> str:
        return str(getattr(self.source.function, "__name__", "function"))


def check_leaves(search: Any) -> None:
    """Refuse parameters that do not go together at leaves."""
    evaluators = search.evaluators
    value_parameters = {"value", "network"} & set(evaluators)
    if search.mix > 1.0 or (search.mix > 0.0 and not value_parameters):
        raise InvalidInput(
            f"{search.name}: mix is the weight of a rollout beside value=, from 0 to "
            f"1, got {search.mix!r}{'' if value_parameters else ' without value='}."
        )
    if evaluators and search.expansion != 1:
        raise InvalidInput(
            f"{search.name}: {next(iter(evaluators))} needs expansion=1, one new leaf "
            f"per simulation, got {search.expansion!r}."
        )
    # the one value of each that goes with evaluators
    allowed_values: dict[str, Any] = {
        "widening": None,
        "samples": None,
        "action_widening": None,
    }
    allowed_values |= {"solve": False, "trees": 1, "leaf_rollouts": 1}
    for name, allowed_value in allowed_values.items():
        if search.asks and getattr(search, name) != allowed_value:
            raise InvalidInput(
                f"{search.name}: {name}= is not for trees with a prior or with "
                "evaluators at their leaves; give one or the other."
            )
    if search.leaf_batch > 1 and not evaluators:
        raise InvalidInput(
            f"{search.name}: leaf_batch={search.leaf_batch} needs something to ask at "
            "leaves; give value=, prior= or initial_q=."
        )
    if search.leaf_batch > 1 and getattr(search, "prior", None) == "parent":
        raise InvalidInput(
            f"{search.name}: prior='parent' follows one path at a time; drop "
            "leaf_batch."
        )
