"""Batches of states in JAX arrays.

The simulator is compiled by ``jax.jit`` and runs wherever JAX runs; only
rewards and flags come back.

  key      one key per batch, folded from the shard's key and the batch's
           number; one key per row (``split``) for a function of one state
  shapes   A batch is padded, by repeating its first row, to one of three sizes
           (max_batch, and 16 and 256 times less). So a function is compiled
           three times, not once per size. Answers for padded rows are dropped
           before anything is counted. Full batches make nearly all calls, so
           the waste of padding the others does not show.
  floats   float64 is switched on inside every call and nowhere else, or off
           (``x64=False``) for a simulator that was written for float32. Rewards
           of either kind become float64 without rounding before they are summed

This file decides on padding, keys and compilation. Only this module
imports JAX, and its neighbours import it from here (``trees``, ``worlds``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import MissingExtra
from smoothcruiser.problem.batched import (
    Answer,
    WrongShape,
    as_column,
    describe_shape,
    unpack_step,
)

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtra(
        "A batched step with backend='jax' needs JAX: pip install 'smoothcruiser[jax]'."
    ) from error

__all__ = ["JaxBackend", "Keys", "jax", "jnp", "precise"]

# Smaller batches are padded to this: a call costs 10-50 µs whatever its size.
LEAST_ROWS = 64
STEP = 16  # factor between one size and the next


def precise(x64: bool = True) -> Any:
    """The scope in which JAX computes in float64, or in float32 where that is asked.

    It holds whatever the user's own program has set.
    """
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(x64)
    from jax.experimental import disable_x64, enable_x64

    return enable_x64() if x64 else disable_x64()


@dataclass
class Keys:
    """A shard's keys, one per batch, in order."""

    base: Any
    used: int = 0

    def next(self) -> Any:
        """The key of the next batch."""
        self.used += 1
        return jax.random.fold_in(self.base, self.used)


def _gather(states: Any, index: Any) -> Any:
    return jax.tree.map(lambda array: array[index], states)


@dataclass(frozen=True, eq=False)
class JaxBackend:
    """Rows in JAX arrays; ``each`` maps functions of one state over rows."""

    each: bool
    max_batch: int
    x64: bool = True  # whether the functions compute in float64
    # the jitted form of each user function
    compiled: dict[Any, Any] = field(default_factory=dict)

    def __fingerprint__(self) -> Any:
        return self.each, self.max_batch, self.x64, jax  # without compiled code

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of padded batches, from the smallest."""
        largest_size = max(LEAST_ROWS, 1 << (self.max_batch - 1).bit_length())
        return tuple(
            sorted({max(LEAST_ROWS, largest_size // STEP**k) for k in range(3)})
        )

    def size_for(self, n: int) -> int:
        """The smallest size that holds n rows."""
        return next(
            (size for size in self.sizes if size >= n), 1 << (n - 1).bit_length()
        )

    def warm(self, step: Any, companions: list[tuple[Any, int]], states: Any) -> None:
        """Compile everything that a run needs.

        ``companions`` are functions, each with its number of arguments beside
        the states.
        """
        rng = self.random(np.random.SeedSequence(0))
        batches = [
            self.take(states, np.zeros(batch_size, dtype=np.int64))
            for batch_size in self.sizes
        ]
        for batch, batch_size in zip(batches, self.sizes, strict=True):
            actions = np.zeros(batch_size, dtype=np.int64)
            _, next_states, _ = self.step(step, batch, actions, rng)
            # A step may change the type of its states, which compiles it a
            # second time.
            self.step(step, next_states, actions, rng)
            for function, num_arguments in companions:
                self.ask(
                    function, next_states, batch_size, *([actions] * num_arguments)
                )
            for other_size in self.sizes:
                self.take(next_states, np.zeros(other_size, dtype=np.int64))

    def one(self, state: Any) -> Any:
        """A batch of one row (padded)."""
        with precise(self.x64):
            return jax.tree.map(
                lambda part: jnp.asarray(
                    np.repeat(np.asarray(part)[None], self.sizes[0], axis=0)
                ),
                state,
            )

    def row(self, states: Any, i: int) -> Any:
        """The state in row ``i``, as NumPy."""

        def plain(array: Any) -> Any:
            value = np.asarray(array[i])
            return value.item() if value.ndim == 0 else value

        return jax.tree.map(plain, states)

    def take(self, states: Any, index: NDArray[np.int64]) -> Any:
        """A batch of copies of the rows at ``index``, padded."""
        padded_index = np.zeros(self.size_for(len(index)), dtype=np.int64)
        padded_index[: len(index)] = index
        with precise(self.x64):
            return self._jit_function(_gather, mapped=False)(states, padded_index)

    def bytes_per_row(self, states: Any) -> int:
        """Memory of one row."""
        return sum(
            int(array.nbytes) // max(1, len(array))
            for array in jax.tree.leaves(states)
        )

    def random(self, sequence: np.random.SeedSequence) -> Keys:
        """The keys of a shard: 63 bits each, also for functions in float32."""
        with precise():
            return Keys(
                jax.random.key(
                    int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
                )
            )

    def step(
        self, function: Any, states: Any, actions: NDArray[np.int64], rng: Keys
    ) -> Answer:
        """(rewards, next states, terminated) of n = len(actions) rows."""
        num_rows = len(actions)
        padded_size = len(jax.tree.leaves(states)[0])
        padded_actions = np.zeros(padded_size, dtype=np.int64)
        padded_actions[:num_rows] = actions
        with precise(self.x64):
            rewards, next_states, ended = unpack_step(
                self._jit_step(function)(states, padded_actions, rng.next())
            )
            for array in jax.tree.leaves(next_states):
                if array.ndim < 1 or len(array) != padded_size:
                    raise WrongShape(
                        f"next states with {padded_size} rows, got "
                        f"{describe_shape(array)}"
                    )
            columns = [
                None if column is None else np.asarray(column)
                for column in (rewards, ended)
            ]
        for column, column_name in zip(
            columns, ("rewards", "terminated"), strict=True
        ):
            if column is not None and column.shape != (padded_size,):
                raise WrongShape(
                    f"{column_name} of shape ({padded_size},), got "
                    f"{describe_shape(column)}"
                )
        assert columns[0] is not None
        is_over = (
            None
            if columns[1] is None
            else as_column(columns[1][:num_rows], num_rows, "terminated", np.bool_)
        )
        return (
            as_column(columns[0][:num_rows], num_rows, "rewards", np.float64),
            next_states,
            is_over,
        )

    def ask(self, function: Any, states: Any, n: int, *arguments: Any) -> NDArray[Any]:
        """``function(states, *arguments)`` as an array of n."""
        padded_size = len(jax.tree.leaves(states)[0])
        padded_arguments = [
            np.concatenate([argument, np.zeros(padded_size - n, dtype=np.int64)])
            for argument in arguments
        ]
        with precise(self.x64):
            answers = np.asarray(
                self._jit_function(function, mapped=self.each)(
                    states, *padded_arguments
                )
            )
        if answers.shape != (padded_size,):
            raise WrongShape(f"shape ({padded_size},), got {describe_shape(answers)}")
        return answers[:n]

    def _jit_function(self, function: Any, *, mapped: bool) -> Any:
        if function not in self.compiled:
            self.compiled[function] = jax.jit(
                jax.vmap(function) if mapped else function
            )
        return self.compiled[function]

    def _jit_step(self, function: Any) -> Any:
        if function not in self.compiled:

            def by_rows(states: Any, actions: Any, key: Any) -> Any:
                return jax.vmap(function)(
                    states, actions, jax.random.split(key, len(actions))
                )

            self.compiled[function] = jax.jit(by_rows if self.each else function)
        return self.compiled[function]
