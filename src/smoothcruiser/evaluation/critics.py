"""Critics: readings of ``value=``, a guess W of V that a bound rests on and cannot break.

Whatever W is, killed paths have mean V_pi and penalized paths bound V, as long as W is
one fixed function with finite values. Better guesses make intervals narrower. Forms:

  a number                    the same everywhere
  a function                  of the state, or of (state, steps_left); ``numba.njit`` runs
                              inside machine code
  an array                    (S,) by state number, or (H + 1, S) by steps left
  a dict                      by state, or by its key; absent states get the mean
  a Solution                  its values, of the steps that are left at a horizon
  a Certified, its table      the best estimates of the states that it has seen
  ``sc.batched(function)``    many states at once: (states) or (states, steps_left)
  an object with ``predict``  a regressor: one row of numbers per state

Evaluators of tree searches (``tree.evaluators``) read the same forms; a critic asks
them and adds what a bound needs: steps that are left, machine code, and refusals.

legend   symbol        name
  W(s), W_t(s)         ``values``; ``steps_left`` is H - t, None without a horizon

W is 0 after an end and when no step is left. That is not asked of a critic: whoever
uses it puts 0 there.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation import critic_kernel
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import Problem
from smoothcruiser.states.identity import state_key
from smoothcruiser.states.state_copies import lend_copy
from smoothcruiser.tree.evaluators import (
    LeafEvaluator,
    Leaves,
    is_memory,
    named_object,
)
from smoothcruiser.tree.evaluators.base import as_rows
from smoothcruiser.tree.evaluators.functions import Function, OverArrays

Floats = NDArray[np.float64]
FORMS = (
    "a number, a function of the state or of (state, steps_left), numba.njit of one, an "
    "array or a dict by state, a Solution, a Certified or its table, "
    "sc.batched(function), or an object with predict"
)
MOST_CELLS = 10**7  # numbers of a table over states and steps
BATCH_ROUNDING = 1e-6  # relative: how far a batch may move a value
ROUNDED_BITS = 20  # that are left of values which a batch moves
NO_STEPS = -1  # ``steps_left`` in machine code, where there is no horizon


class Critic(ABC):
    """A fixed function of the state, or of the state and the steps that are left."""

    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    uses_steps = False
    rounds_values = False  # to ``ROUNDED_BITS``, because batches move the last bits

    @abstractmethod
    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """Values of states as they come, one per state."""

    def values(self, states: Sequence[Any], steps_left: int | None = None) -> Floats:
        """Values of states, which are finite numbers."""
        if not len(states):
            return np.zeros(0)
        values = self.raw_values(states, steps_left)
        if not np.isfinite(values).all():
            odd = int(np.flatnonzero(~np.isfinite(values))[0])
            raise not_finite(float(values[odd]), states[odd])
        return round_values(values) if self.rounds_values else values

    def value_at(self, state: Any, steps_left: int | None = None) -> float:
        """The value of one state."""
        return float(self.values([state], steps_left)[0])

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """A compiled ``value(data, steps_left, state)`` and its data; None: Python only.

        ``state_type`` is the Numba type of states.
        """
        return None

    def tabulate(self, num_states: int, horizon: int | None) -> Floats | None:
        """(T, S): values by steps left, of states 0 .. S - 1; None if it is too large."""
        num_stages = horizon + 1 if self.uses_steps and horizon is not None else 1
        if num_stages * num_states > MOST_CELLS:
            return None
        states = range(num_states)
        if num_stages == 1:
            return self.values(states, None)[None, :]
        stages = [self.values(states, steps) for steps in range(1, num_stages)]
        return np.array([np.zeros(num_states), *stages])

    def __str__(self) -> str:
        return type(self).__name__


def not_finite(value: float, state: Any) -> InvalidInput:
    """The error of a value that is no finite number."""
    return InvalidInput(
        f"value must be a finite number for every state, got {value!r} at state "
        f"{state!r:.80}; repair the function, or leave it out."
    )


def round_values(values: Floats) -> Floats:
    """Values with ``ROUNDED_BITS`` bits."""
    mantissas, exponents = np.frexp(values)
    scale = 2.0**ROUNDED_BITS
    rounded: Floats = np.ldexp(np.round(mantissas * scale) / scale, exponents)
    return rounded


class ConstantCritic(Critic):
    """One number for all states."""

    def __init__(self, number: float) -> None:
        self.number = number

    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """The number."""
        return np.full(len(states), self.number)

    def value_at(self, state: Any, steps_left: int | None = None) -> float:
        """The number."""
        return self.number

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """The number, as data."""
        return compile_function(constant_value), self.number


def constant_value(data: Any, steps_left: int, state: Any) -> Any:
    """The data, at every state."""
    return data


class EvaluatorCritic(Critic):
    """A function, plain or over arrays, as an evaluator of tree searches asks it."""

    def __init__(self, source: Any, bind: Callable[[Any, int], Any]) -> None:
        """``bind`` gives a two-argument source the number of steps that are left."""
        self.source, self.bind = source, bind
        self.uses_steps = takes_steps(getattr(source, "function", source))
        self._bound: dict[int | None, LeafEvaluator] = {}

    def _evaluator(self, steps_left: int | None) -> LeafEvaluator:
        steps = steps_left if self.uses_steps else None
        if steps not in self._bound:
            source = self.source if steps is None else self.bind(self.source, steps)
            is_batch = isinstance(source, Batched)
            self._bound[steps] = OverArrays(source) if is_batch else Function(source)
        return self._bound[steps]

    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """The function's answers; it gets copies of states that can be changed."""
        leaves = Leaves(len(states), lambda: [lend_copy(state) for state in states])
        return self._evaluator(steps_left).ask(leaves, "value", 1)[:, 0]

    def value_at(self, state: Any, steps_left: int | None = None) -> float:
        """The function's answer; a plain finite float needs no array around it."""
        if isinstance(self.source, Batched) or self.rounds_values:
            return super().value_at(state, steps_left)
        steps = (steps_left,) if self.uses_steps else ()
        try:
            answer = self.source(lend_copy(state), *steps)
        except Exception:
            return super().value_at(state, steps_left)  # raises with the state
        if type(answer) is float and math.isfinite(answer):
            return answer
        return super().value_at(state, steps_left)

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """The function itself, where it is compiled."""
        if not is_compiled(self.source):
            return None
        return wrap_compiled(self.source, self.uses_steps), ()

    def __str__(self) -> str:
        return str(self._evaluator(1 if self.uses_steps else None))


@lru_cache(maxsize=64)  # a kernel is known by the functions in it
def wrap_compiled(source: Any, uses_steps: bool) -> Any:
    """A user's compiled function in the form that kernels call."""
    from numba import njit

    if uses_steps:

        @njit(inline="always")  # type: ignore[untyped-decorator]
        def value(data: Any, steps_left: Any, state: Any) -> Any:
            return float(source(state, steps_left))

    else:

        @njit(inline="always")  # type: ignore[untyped-decorator]
        def value(data: Any, steps_left: Any, state: Any) -> Any:
            return float(source(state))

    return value


def takes_steps(function: Any) -> bool:
    """Whether a function requires a second argument, the steps that are left."""
    try:
        parameters = inspect.signature(
            getattr(function, "py_func", function)
        ).parameters
    except (TypeError, ValueError):  # a function of C
        return False
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    required = [
        p
        for p in parameters.values()
        if p.kind in kinds and p.default is inspect.Parameter.empty
    ]
    return len(required) >= 2


def bind_steps(source: Any, steps: int) -> Any:
    """A function of the state alone, for so many steps left."""
    if isinstance(source, Batched):
        function = source.function
        return replace(source, function=lambda states: function(states, steps))
    return lambda state: source(state, steps)


class PredictCritic(Critic):
    """A regressor: ``predict`` of one row of numbers per state."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """The predictions of a matrix of the states' numbers."""
        try:
            rows = np.array([flatten_state(state) for state in states], np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(
                "value with predict gets one row of numbers per state, and state "
                f"{states[0]!r:.80} is none; give a function of the state."
            ) from None
        expected = "an array of shape ({n},)"
        predicted = self.source.predict(rows)
        return as_rows(predicted, len(rows), 1, "value.predict", expected)[:, 0]

    def __str__(self) -> str:
        return type(self.source).__name__


def flatten_state(state: Any) -> list[float]:
    """The numbers in a state, in order."""
    if isinstance(state, float | int):
        return [float(state)]
    if isinstance(state, tuple | list):
        return [number for field in state for number in flatten_state(field)]
    return [float(number) for number in np.ravel(state)]


class ArrayCritic(Critic):
    """Values by the number of a state, with one row per number of steps left or one row."""

    def __init__(self, stages: Floats) -> None:
        self.stages = np.ascontiguousarray(stages, dtype=np.float64)
        self.uses_steps = len(stages) > 1

    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """Entries of the array."""
        row = self.stages[critic_kernel.stage_of(self.stages, steps_left or 0)]
        if isinstance(states, range):
            states = np.arange(states.start, states.stop)  # type: ignore[assignment]
        numbers = np.asarray(states)
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
            raise self._no_entry(states[0])
        is_outside = (numbers < 0) | (numbers >= len(row))
        if is_outside.any():
            raise self._no_entry(numbers[is_outside][0].item())
        entries: Floats = row[numbers]
        return entries

    def _no_entry(self, state: Any) -> InvalidInput:
        return InvalidInput(
            f"value is an array of {self.stages.shape[1]:,} states, numbered from 0, and "
            f"has no entry for {state!r:.60}; give a dict or a function of the state."
        )

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """The array, for states that are whole numbers."""
        from numba import types

        if not isinstance(state_type, types.Integer):
            return None
        return compile_function(critic_kernel.array_value), self.stages

    def __str__(self) -> str:
        return f"array {self.stages.shape}"


class KeyedCritic(Critic):
    """Values by state: a dict, what a memory has seen, or a solution's states."""

    def __init__(
        self,
        states: Sequence[Any],
        stages: Floats,
        key_of: Callable[[Any], Any] = state_key,
        own_keys: bool = False,
    ) -> None:
        """``stages`` is (T, n), NaN where a state has no value: it gets the stage's mean.

        ``own_keys`` says that ``key_of`` is the user's, which machine code has not.
        """
        self.states, self.key_of, self.own_keys = list(states), key_of, own_keys
        self.uses_steps = len(stages) > 1
        self.stages = fill_means(np.asarray(stages, dtype=np.float64))
        self.columns: dict[Any, int] = {}
        self._parts: dict[Any, Any] = {}
        for i, state in enumerate(self.states):
            self.columns.setdefault(state_key(state), i)

    def raw_values(self, states: Sequence[Any], steps_left: int | None) -> Floats:
        """Entries by key, by state, or the mean."""
        row = self.stages[critic_kernel.stage_of(self.stages, steps_left or 0)]
        return np.array([row[self._column(state)] for state in states])

    def value_at(self, state: Any, steps_left: int | None = None) -> float:
        """The entry of one state."""
        row = critic_kernel.stage_of(self.stages, steps_left or 0)
        return float(self.stages[row, self._column(state)])

    def _column(self, state: Any) -> int:
        column = self.columns.get(self.key_of(state))
        if column is None and self.own_keys:
            column = self.columns.get(state_key(state))
        return len(self.states) if column is None else column

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """A hash table of words, for states of one form."""
        if state_type not in self._parts:
            self._parts[state_type] = self._hash_words(state_type)
        return self._parts[state_type]  # type: ignore[no-any-return]

    def _hash_words(self, state_type: Any) -> tuple[Any, Any] | None:
        from numba import typeof

        if self.own_keys or not self.states:
            return None
        try:
            if any(typeof(state) != state_type for state in self.states):
                return None
        except ValueError:
            return None
        from smoothcruiser.states.codec import codec_of

        codec = codec_of(state_type, self.states[0])
        rows = codec.encode(self.states)
        slots = critic_kernel.make_slots(codec, rows)
        return critic_kernel.keyed_functions(codec).value, (slots, rows, self.stages)

    def __str__(self) -> str:
        return f"values of {len(self.states):,} states"


def fill_means(stages: Floats) -> Floats:
    """(T, n + 1): the mean of each row in the place of NaN, and behind the others."""
    is_missing = np.isnan(stages)
    sums = np.where(is_missing, 0.0, stages).sum(axis=1)
    means = sums / np.maximum(1, (~is_missing).sum(axis=1))
    filled_stages = np.where(is_missing, means[:, None], stages)
    return np.ascontiguousarray(np.hstack([filled_stages, means[:, None]]))


# --- readings -------------------------------------------------------------------


def read_critic(problem: Problem, value: Any) -> Critic:
    """The critic that a user gave as ``value=``.

    >>> import smoothcruiser as sc
    >>> chain = sc.make("chain:n=5", discount=0.5, operator="max")
    >>> read_critic(chain, lambda state: 0.5**state).value_at(2)
    0.25
    """
    if isinstance(value, Critic):
        return value
    if isinstance(value, str):
        value = named_object("value", "value", value)
    critic = _read_data(problem, value) or _read_function(value)
    if critic is None:
        raise InvalidInput(f"value must be {FORMS}, got {value!r:.60}.")
    if critic.uses_steps and problem.horizon is None:
        raise InvalidInput(
            "value depends on the steps that are left, and this problem has no horizon; "
            "give values of states alone, or horizon= to the problem."
        )
    return critic


def _read_function(value: Any) -> Critic | None:
    """The critic of a function, of one over arrays, or of a regressor."""
    if isinstance(value, type):
        return None
    if isinstance(value, Batched) or (
        callable(value) and not hasattr(value, "predict")
    ):
        return EvaluatorCritic(value, bind_steps)
    return PredictCritic(value) if hasattr(value, "predict") else None


def _read_data(problem: Problem, value: Any) -> Critic | None:
    """The critic of numbers that are there already."""
    from smoothcruiser.exact.solution import Solution

    if isinstance(value, bool | np.bool_) or value is None:
        return None
    if isinstance(value, int | float | np.number):
        if not math.isfinite(value):
            raise InvalidInput(f"value must be a finite number, got {value!r}.")
        return ConstantCritic(float(value))
    if isinstance(value, Solution):
        return _read_solution(problem, value)
    if isinstance(value, Mapping):
        return _read_dict(problem, value)
    if is_memory(value):
        return _read_rows(problem, value.table())
    if hasattr(value, "records") and hasattr(value, "at"):  # a table of one
        return _read_rows(problem, value)
    if isinstance(value, np.ndarray | list | tuple):
        return _read_array(problem, value)
    return None


def _read_array(problem: Problem, value: Any) -> Critic:
    """The critic of an array by the numbers of states."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros((0, 0, 0))
    num_stages = 1 if array.ndim == 1 else len(array)
    num_expected = None if problem.horizon is None else problem.horizon + 1
    if array.ndim not in (1, 2) or not array.size:
        raise InvalidInput(
            "value as an array has one number per state, shape (S,), or one row of them "
            f"per number of steps left, got shape {np.shape(value)}."
        )
    if array.ndim == 2 and num_stages not in (1, num_expected):
        raise InvalidInput(
            "value as an array of two dimensions has one row per number of steps left, "
            f"from 0 to the horizon ({num_expected} rows), got {num_stages}."
        )
    if not np.isfinite(array).all():
        odd = int(np.argwhere(~np.isfinite(array))[0][-1])
        raise not_finite(float(array[..., odd].ravel()[0]), odd)
    if problem.tables is not None and array.shape[-1] != problem.tables.num_states:
        raise InvalidInput(
            f"value as an array needs one number for each of the "
            f"{problem.tables.num_states:,} states, got {array.shape[-1]:,}."
        )
    return ArrayCritic(array.reshape(num_stages, -1))


def _read_dict(problem: Problem, value: Mapping[Any, Any]) -> Critic:
    """The critic of a dict by states, or by their keys."""
    states, numbers = list(value), []
    for state in states:
        try:
            number = float(value[state])
        except (TypeError, ValueError):
            raise InvalidInput(
                "value as a dict gives one number per state, got "
                f"{value[state]!r:.60} for {state!r:.60}."
            ) from None
        if not math.isfinite(number):
            raise not_finite(number, state)
        numbers.append(number)
    if not states:
        raise InvalidInput(
            "value is an empty dict; give values of states, or a number."
        )
    has_keys = problem.key is not None
    critic = KeyedCritic(states, np.array([numbers]), problem.key_of, has_keys)
    critic.notes = (f"value: {len(states):,} states by dict; others get the mean.",)
    return critic


def _read_solution(problem: Problem, solution: Any) -> Critic:
    """The critic of exact values; infinite ones (discount 1) count as not there."""
    has_stages = solution.stages is not None and problem.horizon is not None
    stages = solution.stages if has_stages else solution.values[None, :]
    horizon = problem.horizon or 0
    if has_stages and len(stages) != horizon + 1:
        raise InvalidInput(
            f"value is a Solution with a horizon of {len(stages) - 1} steps, and the "
            f"problem has {horizon}; solve the problem that is asked about."
        )
    stages = np.where(np.isfinite(stages), stages, np.nan)
    if solution.states is None:
        return ArrayCritic(fill_means(stages)[:, :-1])
    return KeyedCritic(
        solution.states, stages, solution.key_of, problem.key is not None
    )


def _read_rows(problem: Problem, table: Any) -> Critic:
    """The critic of a table of certified search: its best estimates."""
    columns: dict[Any, int] = {}
    states: list[Any] = []
    places: list[tuple[int, int, float]] = []
    for row in table:
        column = columns.setdefault(state_key(row.state), len(states))
        if column == len(states):
            states.append(row.state)
        places.append((row.remaining or 0, column, row.value))
    if not states:
        raise InvalidInput("value is a memory without states; query it first.")
    num_stages = 1 if problem.horizon is None else problem.horizon + 1
    stages = np.full((num_stages, len(states)), np.nan)
    for stage, column, number in places:
        if stage < num_stages:
            stages[stage, column] = number
    critic = KeyedCritic(states, stages)
    critic.notes = (
        f"value: the best estimates of {len(states):,} states that were seen; others "
        "get the mean.",
    )
    return critic


# --- purity ---------------------------------------------------------------------


def check_purity(
    critic: Critic, states: Sequence[Any], steps_left: int | None = None
) -> Floats:
    """The values of some states; a critic that is no fixed function is refused.

    It is asked in a batch, in the other order, and one state at a time. A batch may
    move the last bits of a network: such values are rounded from then on, and the
    critic's notes say so.
    """
    states = list(states)
    batch_values = critic.values(states, steps_left)
    reversed_values = critic.values(states[::-1], steps_left)[::-1]
    single_values = np.array([critic.value_at(state, steps_left) for state in states])
    shift = max(
        compare_values(states, batch_values, reversed_values),
        compare_values(states, batch_values, single_values),
    )
    if shift > 0.0 and not critic.rounds_values:
        critic.rounds_values = True
        critic.notes += (
            f"value: batches move its last bits, so it is rounded to {ROUNDED_BITS} "
            "bits.",
        )
        batch_values = round_values(batch_values)
    return batch_values


def compare_values(states: Sequence[Any], first: Floats, second: Floats) -> float:
    """The largest relative difference of two answers; a large one is refused."""
    if not len(states):
        return 0.0
    shifts = np.abs(second - first) / np.maximum(np.abs(first), 1e-300)
    odd = int(shifts.argmax())
    if shifts[odd] > BATCH_ROUNDING:
        raise InvalidInput(
            f"value gave different answers at state {states[odd]!r:.80}: "
            f"{float(first[odd])!r} and {float(second[odd])!r}; it must be one fixed "
            "function of the state: no learning, no random numbers, no dropout."
        )
    return float(shifts[odd])
