"""A user's knowledge of states, as rows of numbers: the form that trees ask in.

An evaluator answers for many leaves at once. ``Leaves`` holds them in the two ways that
functions take them: one Python state each, or one array per field of the state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput, OracleError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Leaves:
    """States that wait for an evaluator; ``remaining`` are steps left at a horizon."""

    count: int
    one_by_one: Callable[[], Sequence[Any]]
    by_field: Callable[[], Any] | None = None
    remaining: Sequence[int] | None = None

    @cached_property
    def states(self) -> Sequence[Any]:
        """The states, one by one."""
        return self.one_by_one()

    @cached_property
    def columns(self) -> Any:
        """One array with a row per state, or a (nested) tuple of them."""
        if self.by_field is not None:
            return self.by_field()
        return stack_states(self.states)


def stack_states(states: Sequence[Any]) -> Any:
    """States as columns: numbers and arrays are stacked, tuples field by field."""
    first_state = states[0]
    if isinstance(first_state, tuple):
        field_columns = [
            stack_states([state[i] for state in states])
            for i in range(len(first_state))
        ]
        return (
            type(first_state)(*field_columns)
            if hasattr(first_state, "_fields")
            else tuple(field_columns)
        )
    return np.array(states)


class LeafEvaluator(ABC):
    """A value, a prior or values of actions at states, from the user's ``source``."""

    source: Any
    partial: ClassVar[bool] = False  # whether NaN says that a state is not known

    @abstractmethod
    def ask(self, leaves: Leaves, name: str, width: int) -> Floats:
        """``width`` numbers for each leaf; ``name`` is the parameter, for errors."""

    @property
    def machine(self) -> Any:
        """The function as ``numba.njit``, None where it has to be asked in Python."""
        return None

    def table(self, width: int, name: str) -> Floats | None:
        """Numbers (S, width) of all states of a tabular problem, where there are."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.source is self.source

    def __hash__(self) -> int:
        return id(self.source)

    @abstractmethod
    def __str__(self) -> str: ...


def as_rows(returned: Any, count: int, width: int, name: str, expected: str) -> Floats:
    """The answers of a function for ``count`` states, as an array (count, width)."""
    flat_shape = (count,) if width == 1 else (count, width)
    try:
        array: Any = np.asarray(plain_array(returned))
        array = None if array.dtype.kind == "c" else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None or array.shape not in (flat_shape, (count, width)):
        received = (
            f"{type(returned).__name__}" if array is None else f"shape {array.shape}"
        )
        raise InvalidInput(
            f"{name} must return {expected.format(n=count, k=width)}, got {received}."
        )
    rows: Floats = array.reshape(count, width)
    return rows


def plain_array(array: Any) -> Any:
    """An array of another library as NumPy's, through DLPack where it can."""
    if isinstance(array, np.ndarray | np.generic | float | int | list | tuple):
        return array
    if hasattr(array, "detach"):  # a tensor that remembers how it was computed
        array = array.detach()
    if hasattr(array, "__dlpack__"):
        try:
            return np.from_dlpack(array)
        except (RuntimeError, TypeError, ValueError, BufferError):
            return np.asarray(array)
    return array


def function_error(name: str, error: Exception, where: str) -> OracleError:
    """A user's function raised an error, or could not be compiled."""
    from smoothcruiser.jit.oracle import first_line

    return OracleError(
        f"{name} raised {type(error).__name__}: {first_line(error).rstrip('.')} "
        f"{where}; fix the function, or leave it out."
    )
