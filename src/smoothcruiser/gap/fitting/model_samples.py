"""Samples of a step at chosen states, on the same random numbers for all of them.

A fitted value needs, at nodes s and actions a, n samples (r, s') each. All pairs get the
same n streams: then errors of means are alike at states that are alike, and constants
cost a bound nothing. Samples are taken once and serve all sweeps and all time steps.

Every call is counted. Calls go through machine code where the step is compiled and
there are many, else through Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.gap.fitting import fitting_kernel
from smoothcruiser.gap.fitting.state_fields import (
    Floats,
    columns_to_rows,
    rows_of_numbers,
)
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import Stream, stream
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import call_oracle

Bools = NDArray[np.bool_]
# streams that are looked at for one that is chosen, and in all: 0.2 s
CANDIDATES, MOST_CANDIDATES = 64, 20_000
PER_CELL, BINS = 4, 8  # streams to a cell; intervals of later numbers
COMPILED_FROM = (
    100_000  # calls, below which compiling the loop takes longer than Python
)


class PairSamples(NamedTuple):
    """Samples of N states, K actions and n streams each."""

    rewards: Floats  # (N, K, n); 0 where the action is not legal
    is_alive: Bools  # (N, K, n): whether the next state has a value
    rows: Floats  # (N, K, n, d): the fields of next states; of ended ones anything
    legal: Bools  # (N, K)
    players: NDArray[np.int64]  # (N,)
    is_terminal: Bools  # (N,)


def balance_words(seed: int, count: int) -> Any:
    """(n, 4) The words of n streams that begin evenly.

    Four to a cell, their first uniform numbers fill n/4 intervals of one length, their
    first normal numbers n/4 intervals of one probability; their second and third uniform
    numbers about eight. W may be biased, so its streams may be chosen: means over them
    are those of a quadrature rule where a step uses few numbers.
    """
    source = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(Key.FITTING,)))
    num_candidates = max(count, min(CANDIDATES * count, MOST_CANDIDATES))
    pool = source.random_raw(4 * num_candidates).reshape(-1, 4)
    num_cells = max(2, count // PER_CELL)
    cells = [num_cells, num_cells, BINS, BINS]
    places = []
    for words in pool.tolist():
        rng = Stream(words)
        first, second, third = rng.random(), rng.random(), rng.random()
        share = 0.5 * math.erfc(-Stream(words).normal() / math.sqrt(2.0))
        numbers = first, share, second, third
        places.append(
            [min(int(u * k), k - 1) for u, k in zip(numbers, cells, strict=True)]
        )
    chosen = choose_evenly(places, cells, count)
    return np.ascontiguousarray(pool[chosen])


def choose_evenly(places: list[list[int]], cells: list[int], count: int) -> list[int]:
    """``count`` candidates of which each cell of each number holds about as many.

    The demands that are hardest to meet together are dropped last to first.
    """
    room = [[-(-count // k)] * k for k in cells]
    is_free, chosen = [True] * len(places), list[int]()
    for num_demands in range(len(cells), -1, -1):
        for i, candidate in enumerate(places):
            if len(chosen) == count:
                return chosen
            demands = candidate[:num_demands]
            if is_free[i] and all(room[d][cell] > 0 for d, cell in enumerate(demands)):
                is_free[i] = False
                chosen.append(i)
                for d, cell in enumerate(candidate):
                    room[d][cell] -= 1
    return chosen


class StepSampler:
    """The calls of one fit, counted."""

    def __init__(self, problem: Problem, seed: int, most_calls: int) -> None:
        self.problem, self.seed, self.most_calls = problem, seed, most_calls
        self.calls = 0
        self._words: dict[int, Any] = {}

    @property
    def calls_left(self) -> int:
        """The calls that are not used."""
        return self.most_calls - self.calls

    def words(self, count: int) -> Any:
        """(n, 4) The words of the streams that all pairs share."""
        if count not in self._words:
            self._words[count] = balance_words(self.seed, count)
        return self._words[count]

    def call_step(
        self, state: Any, action: int, rng: Stream
    ) -> tuple[float, Any, bool]:
        """One counted call: (reward, next state, whether it has no value)."""
        self.calls += 1
        infinity = float("inf")
        reward, next_state, is_over = call_oracle(
            self.problem, state, action, rng, -infinity, infinity, True
        )
        return reward, next_state, is_over or self.problem.is_terminal(next_state)

    def sample_states(
        self, states: Sequence[Any], num_samples: int, features: Any = None
    ) -> PairSamples:
        """``num_samples`` samples of every legal pair of ``states``.

        ``rows`` are the fields of next states, or what ``features`` makes of a list of
        them.
        """
        problem, K = self.problem, self.problem.num_actions
        legal = np.zeros((len(states), K), np.bool_)
        is_terminal = np.array([problem.is_terminal(s) for s in states], np.bool_)
        players = np.ones(len(states), np.int64)
        for i, state in enumerate(states):
            if not is_terminal[i]:
                legal[i, problem.legal_actions(state)] = True
                players[i] = problem.mover(state)
        words = self.words(num_samples)
        live_states = [
            s for s, over in zip(states, is_terminal, strict=True) if not over
        ]
        num_calls = int(legal.sum()) * num_samples
        if num_calls > self.calls_left:
            raise InvalidInput(
                f"The fit of a value needs {num_calls:,} calls, and {self.calls_left:,} "
                "are left; raise budget=, or give value=."
            )
        if is_compiled(problem.oracle) and num_calls >= COMPILED_FROM:
            rewards, is_over, next_rows = self._sample_compiled(
                live_states, words, features
            )
            self.calls += num_calls
        else:
            rewards, is_over, next_rows = self._sample_in_python(
                live_states, legal[~is_terminal], words, features
            )
        if not np.isfinite(rewards).all():
            raise InvalidInput("A reward of the step is no finite number.")
        shape = (len(states), K, num_samples)
        all_rewards, is_alive = np.zeros(shape), np.zeros(shape, np.bool_)
        all_rows = np.zeros((*shape, next_rows.shape[-1]))
        all_rewards[~is_terminal], all_rows[~is_terminal] = rewards, next_rows
        is_alive[~is_terminal] = ~is_over
        is_alive &= legal[:, :, None]
        return PairSamples(
            all_rewards, is_alive, all_rows, legal, players, is_terminal
        )

    def _sample_in_python(
        self, states: Sequence[Any], legal: Bools, words: Any, features: Any
    ) -> tuple[Floats, Bools, Floats]:
        """(rewards, ends, rows) by one call after the other."""
        shape = (len(states), self.problem.num_actions, len(words))
        rewards, is_over = np.zeros(shape), np.ones(shape, np.bool_)
        next_states, places = [], []
        word_lists = words.tolist()
        for i, state in enumerate(states):
            for action in np.flatnonzero(legal[i]).tolist():
                for j, first_words in enumerate(word_lists):
                    rng = Stream(first_words)
                    reward, next_state, over = self.call_step(state, action, rng)
                    rewards[i, action, j], is_over[i, action, j] = reward, over
                    if not over:
                        next_states.append(next_state)
                        places.append((i, action, j))
        read_rows = rows_of_numbers if features is None else features
        rows = read_rows(next_states) if next_states else np.zeros((0, 1))
        next_rows = np.zeros((*shape, rows.shape[-1]))
        if places:
            next_rows[tuple(np.array(places).T)] = rows
        return rewards, is_over, next_rows

    def _sample_compiled(
        self, states: Sequence[Any], words: Any, features: Any
    ) -> tuple[Floats, Bools, Floats]:
        """(rewards, ends, rows) by the compiled step, in machine code."""
        from smoothcruiser.tree.kernels.compiled_tree import machine_for

        machine, data, _ = machine_for(self.problem, states[0])
        parts = {
            name: machine.parts[name]
            for name in ("STEP", "LEGAL", "TERMINAL", "LOAD", "STORE")
        }
        kernel = compile_function(fitting_kernel.sample_pairs, nogil=True, **parts)
        shape = (len(states), self.problem.num_actions, len(words))
        size = int(np.prod(shape))
        rewards, is_over = np.zeros(size), np.ones(size, np.bool_)
        codec = machine.codec
        assert codec is not None
        rows = machine.allocate(len(states))
        rows[:] = codec.encode(states)
        next_rows = machine.allocate(size)
        next_rows[:] = 0
        rng = stream(self.seed, Key.FITTING)
        kernel(
            data,
            rows,
            len(states),
            self.problem.num_actions,
            words.view(np.int64),
            rng,
            rewards,
            is_over,
            next_rows,
        )
        if features is None:
            fields = columns_to_rows(codec.columns(next_rows), size)
        else:
            fields = np.zeros((size, 1))
            alive = np.flatnonzero(~is_over)
            if len(alive):
                read = features(codec.decode(next_rows[alive]))
                fields = np.zeros((size, read.shape[-1]))
                fields[alive] = read
        return (
            rewards.reshape(shape),
            is_over.reshape(shape),
            fields.reshape(*shape, fields.shape[-1]),
        )
