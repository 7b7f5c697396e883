"""Oracles over arrays: one call steps many states at once.

``batched(step)`` marks such a step; everything else follows from the mark.

    step(states, actions, rng) -> (rewards, next_states)
                               or (rewards, next_states, terminated)

  states    one row per state: an array (n, ...), a structured array (n,), or a
            (nested) tuple of arrays with n rows each
  actions   (n,) whole numbers
  rng       a ``numpy.random.Generator``; a key for JAX
  rewards   (n,), terminated (n,) of booleans

``legal(states, actions)``, ``terminal(states)`` and ``player(states)`` of a
problem with a batched step are batched too: arrays in, an array of n out. The
executor ``batched`` runs whole levels of a schedule with them. Every other part
of the library (certified search, exact, the requested state) sees the same
functions one state at a time, as a batch of one row.

With ``backend="jax"`` states are JAX arrays, functions are compiled by
``jax.jit`` and run wherever JAX runs. ``each=True`` says that they are written
for one state (``step(state, action, key)``) and are to be mapped over rows by
``jax.vmap``.

This file decides the form of a row. It leaves out how levels are run
(``engines.interpreted.batched``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput, OracleError

# Rows of one call. A tabular step makes 28 M calls/s at 4,096, 32 M at 32,768,
# and 16 M at 65,536, where arrays get fresh memory from the system every time.
MAX_BATCH = 32_768
# Of the largest |reward|: how far two compilations of one step in float32 (a row among
# 64 or 32,768, a state by itself) may put a reward apart. The compiler orders and fuses
# operations by the shape, and each is off by 2**-24 at most; 8 of them are allowed for.
# Measured in gymnax's environments: at most one (docs/worlds/jax.md).
FLOAT32_REWARDS = 2.0**-21
Answer = tuple[NDArray[np.float64], Any, NDArray[np.bool_] | None]


class Backend(Protocol):
    """How rows are held and functions over them are called."""

    def one(self, state: Any) -> Any:
        """A batch of one row."""

    def row(self, states: Any, i: int) -> Any:
        """The state in row ``i``."""

    def take(self, states: Any, index: NDArray[np.int64]) -> Any:
        """A batch of copies of the rows at ``index``."""

    def bytes_per_row(self, states: Any) -> int:
        """Memory of one row, in bytes."""

    def random(self, sequence: np.random.SeedSequence) -> Any:
        """The source of randomness that the step gets as its ``rng``."""

    def step(
        self, function: Any, states: Any, actions: NDArray[np.int64], rng: Any
    ) -> Answer:
        """(rewards, next states, terminated) of n = len(actions) rows.

        Raises ``WrongShape``.
        """

    def ask(self, function: Any, states: Any, n: int, *arguments: Any) -> NDArray[Any]:
        """``function(states, *arguments)`` as an array of n."""

    def warm(self, step: Any, companions: list[tuple[Any, int]], states: Any) -> None:
        """Compile everything that is needed before the first batch."""


class WrongShape(Exception):
    """A batched function returned the wrong form; the message says which."""


# --- NumPy --------------------------------------------------------------------


def _map_arrays(function: Callable[[Any], Any], states: Any) -> Any:
    """A batch with ``function`` applied to each of its arrays."""
    if isinstance(states, tuple):
        mapped_parts = [_map_arrays(function, subtree) for subtree in states]
        return (
            type(states)(*mapped_parts)
            if hasattr(states, "_fields")
            else tuple(mapped_parts)
        )
    return function(states)


def _list_arrays(states: Any) -> list[Any]:
    """The arrays of a batch."""
    if isinstance(states, tuple):
        return [array for subtree in states for array in _list_arrays(subtree)]
    return [states]


def _plain(value: Any) -> Any:
    """A Python number where a row is one number: hashable, and equal across samples."""
    return (
        value.item()
        if isinstance(value, np.generic) and value.dtype.names is None
        else np.array(value)
    )


@dataclass(frozen=True)
class NumpyBackend:
    """Rows in NumPy arrays."""

    def one(self, state: Any) -> Any:
        """A batch of one row with its own memory, since a step may write into rows."""
        return _map_arrays(lambda part: np.array(part)[None], state)

    def row(self, states: Any, i: int) -> Any:
        """The state in row ``i``."""
        return _map_arrays(lambda array: _plain(array[i]), states)

    def take(self, states: Any, index: NDArray[np.int64]) -> Any:
        """A batch of copies of the rows at ``index``."""
        return _map_arrays(lambda array: array.take(index, axis=0), states)

    def bytes_per_row(self, states: Any) -> int:
        """Memory of one row."""
        return sum(
            int(array.nbytes) // max(1, len(array)) for array in _list_arrays(states)
        )

    def random(self, sequence: np.random.SeedSequence) -> Any:
        """A Generator."""
        return np.random.Generator(np.random.PCG64(sequence))

    def step(
        self, function: Any, states: Any, actions: NDArray[np.int64], rng: Any
    ) -> Answer:
        """(rewards, next states, terminated) of the rows."""
        rewards, next_states, ended = unpack_step(function(states, actions, rng))
        num_rows = len(actions)
        for array in _list_arrays(next_states):
            if (
                not isinstance(array, np.ndarray)
                or array.ndim < 1
                or len(array) != num_rows
            ):
                raise WrongShape(
                    f"next states with {num_rows} rows, got {describe_shape(array)}"
                )
        return (
            as_column(rewards, num_rows, "rewards", np.float64),
            next_states,
            None
            if ended is None
            else as_column(ended, num_rows, "terminated", np.bool_),
        )

    def ask(self, function: Any, states: Any, n: int, *arguments: Any) -> NDArray[Any]:
        """``function(states, *arguments)`` as an array of n."""
        return as_column(
            function(states, *arguments),
            n,
            getattr(function, "__name__", "a batched function"),
            None,
        )

    def warm(self, step: Any, companions: list[tuple[Any, int]], states: Any) -> None:
        """Do nothing: NumPy functions are not compiled."""


def unpack_step(answer: Any) -> tuple[Any, Any, Any]:
    """(rewards, next states, terminated or None) of a step's answer."""
    if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
        raise WrongShape(
            "(rewards, next_states) or (rewards, next_states, terminated), got "
            f"{describe_shape(answer)}"
        )
    return answer[0], answer[1], answer[2] if len(answer) == 3 else None


def as_column(values: Any, n: int, name: str, dtype: Any) -> NDArray[Any]:
    """An array of shape (n,)."""
    try:
        column = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise WrongShape(f"{name} as an array of {n} numbers ({error})") from error
    if column.shape != (n,):
        raise WrongShape(f"{name} of shape ({n},), got {describe_shape(values)}")
    return column


def describe_shape(value: Any) -> str:
    """The shape of an array, or the type and value of anything else, as text."""
    return (
        f"shape {value.shape}"
        if hasattr(value, "shape")
        else f"{type(value).__name__} {value!r:.60}"
    )


# --- the mark -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BatchedFunction:
    """A function over rows that can also be called with one state."""

    function: Callable[..., Any]
    backend: Backend

    def __call__(self, state: Any, *arguments: Any) -> Any:
        """The answer for one state."""
        columns = [np.array([argument]) for argument in arguments]
        try:
            return self.backend.ask(
                self.function, self.backend.one(state), 1, *columns
            )[0].item()
        except WrongShape as error:
            function_name = getattr(self.function, "__name__", "A function")
            raise InvalidInput(
                f"{function_name} must answer for every row of a batch, as step does: "
                f"{error} for a batch of one row."
            ) from error


@dataclass(frozen=True, eq=False)
class Batched:
    """A step over arrays; called with one state it steps a batch of one row."""

    function: Callable[..., Any]
    kind: Literal["numpy", "jax"] = "numpy"
    each: bool = False
    max_batch: int = MAX_BATCH
    x64: bool = True

    @cached_property
    def backend(self) -> Backend:
        """How the rows of a batch are held."""
        if self.kind == "numpy":
            return NumpyBackend()
        from smoothcruiser.problem.batched.jax import JaxBackend

        backend: Backend = JaxBackend(self.each, self.max_batch, self.x64)
        return backend

    @property
    def reward_rounding(self) -> float:
        """How far rows of a batch may round a reward, as a share of the largest one."""
        return 0.0 if self.x64 else FLOAT32_REWARDS

    def __call__(self, state: Any, action: int, rng: Any) -> tuple[Any, ...]:
        """One sample, from a generator seeded by the planner's stream.

        It takes about 20 µs: good for the requested state and for searches, not
        for schedules.
        """
        backend = self.backend
        row_rng = backend.random(np.random.SeedSequence(int(rng.raw())))
        try:
            rewards, next_states, ended = backend.step(
                self.function, backend.one(state), np.array([action]), row_rng
            )
        except WrongShape as error:
            raise OracleError(
                f"The batched oracle must return {error}, at a batch of one row."
            ) from error
        sample = (float(rewards[0]), backend.row(next_states, 0))
        return sample if ended is None else (*sample, bool(ended[0]))

    def function_of(self, function: Any) -> Any:
        """A function of the problem, seen as a companion of this step."""
        return (
            BatchedFunction(function, self.backend)
            if callable(function) and not isinstance(function, BatchedFunction)
            else function
        )


def rows_apart(
    oracle: Batched,
    state: Any,
    action: int,
    seeds: list[np.random.SeedSequence],
    rows: int,
) -> bool:
    """Whether rows of one batch are sampled independently, as far as this test tells.

    One batch of ``rows`` equal rows is stepped per seed. Rows depend on each
    other if the batches differ although all rows of each are alike. With 8 rows
    and 4 batches a fair coin looks so with probability 4e-9.
    """
    backend, batch_outcomes = oracle.backend, []
    for seed in seeds:
        states = backend.take(backend.one(state), np.zeros(rows, dtype=np.int64))
        rewards, next_states, _ = backend.step(
            oracle.function, states, np.full(rows, action), backend.random(seed)
        )
        batch_outcomes.append(
            [
                (float(rewards[row]), repr(backend.row(next_states, row)))
                for row in range(rows)
            ]
        )
    return len({outcomes[0] for outcomes in batch_outcomes}) == 1 or any(
        len(set(outcomes)) > 1 for outcomes in batch_outcomes
    )


def batched(
    step: Callable[..., Any],
    *,
    backend: Literal["numpy", "jax"] = "numpy",
    each: bool = False,
    max_batch: int = MAX_BATCH,
    x64: bool = True,
) -> Batched:
    """The step, marked as one over arrays of states.

    Args:
        step: ``step(states, actions, rng)``, which returns (rewards,
            next_states) or (rewards, next_states, terminated), one row per
            state.
        backend: "numpy" (the default) or "jax".
        each: whether ``step`` is written for one state and has to be mapped
            over rows with ``jax.vmap``; the default is False.
        max_batch: most rows of one call, which bounds memory; 32,768 by
            default. It is part of the random streams.
        x64: whether JAX computes in float64 inside ``step``, the default. False is
            for simulators that were written for float32: their value is then that
            of the simulator as float32 rounds it.

    Example:
        >>> import smoothcruiser as sc
        >>> def step(states, actions, rng):
        ...     return rng.random(len(states)) * (actions + 1) / 2, states
        >>> problem = sc.MDP(
        ...     sc.batched(step), num_actions=2, discount=0.5, operator=sc.Max(),
        ...     initial_state=0.0,
        ... )
        >>> sc.plan(problem, epsilon=0.2, delta=0.1).action
        1
    """
    if not callable(step):
        raise InvalidInput(
            f"batched() takes a function step(states, actions, rng), got {step!r}."
        )
    if backend not in ("numpy", "jax"):
        raise InvalidInput(f"backend must be 'numpy' or 'jax', got {backend!r}.")
    if each and backend != "jax":
        raise InvalidInput(
            "each=True maps a function of one state over rows with jax.vmap; it "
            "needs backend='jax'."
        )
    if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
        raise InvalidInput(
            "max_batch must be a whole number of rows of at least 1, got "
            f"{max_batch!r}."
        )
    if not isinstance(x64, bool) or (backend != "jax" and not x64):
        raise InvalidInput(
            f"x64 is True or, with backend='jax', False for float32; got {x64!r} with "
            f"backend={backend!r}."
        )
    return Batched(step, backend, each, max_batch, x64)
