"""Rollouts from one leaf, run by workers at once: for simulators that are slow.

Each rollout has a stream of its own (``jit.random``: TREE, LEAVES), so its return does not
depend on the worker; the tree takes their mean, summed in order. A rollout that runs out
of calls waits with those before it, and is resumed next time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.jit.forms import interpreted_form, view_memory
from smoothcruiser.jit.random import LEAVES, Key
from smoothcruiser.jit.random.streams import from_words, stream
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.call_seconds import limit_call_seconds
from smoothcruiser.tree.kernels.kernel import (
    CALLS,
    CUT,
    DONE,
    SIMULATIONS,
    blind_rollout,
)
from smoothcruiser.tree.kernels.simulator import Simulator
from smoothcruiser.tree.pruning import KnownBounds

NO_LIMIT = 2**62  # calls: a rollout is sent out only where it may run to its end


class LeafRollout(NamedTuple):
    """A rollout to run: its first state, and the tree's limits."""

    number: int
    state: Any
    depth: int
    words: tuple[int, ...]  # of its stream
    setting: Any
    head: list[float]


class CallCount:
    """The counts of a rollout that belongs to no tree here."""

    def __init__(self) -> None:
        self.meta = np.zeros(6, np.int64)

    @property
    def calls(self) -> int:
        """Calls so far."""
        return int(self.meta[CALLS])


def run_rollout(problem: Problem, leaf: LeafRollout) -> tuple[float, int]:
    """(the return of a rollout, the calls that it took)."""
    count, setting = CallCount(), leaf.setting
    simulator = Simulator(problem, setting, KnownBounds(), count.meta.data)
    simulator.most_calls = NO_LIMIT
    acts, held = np.zeros(setting.num_actions, np.int64), np.zeros(5, np.int64)
    memory = view_memory((held, np.zeros(2), count.meta, np.zeros(1)))
    with limit_call_seconds(count, problem.call_seconds):
        rollout_return, _ = interpreted_form(blind_rollout)(
            setting,
            leaf.head,
            simulator,
            leaf.state,
            [None] * 3,
            leaf.depth,
            0.0,
            1.0,
            *memory,
            NO_LIMIT,
            acts.data,
            from_words(leaf.words),
        )
    return rollout_return, count.calls


def mean_rollout(setting: Any, head: Any, simulator: Any, *place: Any) -> Any:
    """``kernel.blind_rollout`` several times, as one."""
    return simulator.rollouts.run(setting, head, simulator, place)


class LeafRollouts:
    """The rollouts from the leaves of one tree."""

    # opens workers that run them at once; None: one after the other, here
    spread: Callable[[], Any] | None = None
    pool: Any = None  # those workers

    def __init__(self, count: int = 1, seed: int = 0, tree_number: int = 0) -> None:
        """``seed`` and ``tree_number`` name the streams."""
        self.count, self.seed, self.tree_number = count, seed, tree_number
        self.forget()

    def forget(self) -> None:
        """Drop the rollouts that wait for calls."""
        self.leaf: Any = None  # (state, depth) of the leaf whose rollouts wait
        self.returns: list[float] = []
        self.words: list[Any] = []  # of the streams

    def twin(self) -> LeafRollouts:
        """The same without workers, for a copied tree."""
        rollouts_copy = LeafRollouts(self.count, self.seed, self.tree_number)
        rollouts_copy.leaf, rollouts_copy.returns = self.leaf, list(self.returns)
        rollouts_copy.words = [words.copy() for words in self.words]
        return rollouts_copy

    def run(
        self, setting: Any, head: Any, simulator: Any, place: tuple[Any, ...]
    ) -> tuple[float, int]:
        """(the mean of the returns, how it ended), as of ``kernel.blind_rollout``."""
        state, scratch, depth, total, weight, *memory, most_calls, acts, rng = place
        meta = memory[2]
        is_resumed = self.leaf is not None
        if not is_resumed:
            stream_key = Key.TREE, self.tree_number, LEAVES, meta[SIMULATIONS]
            self.leaf, self.returns = (state, depth), []
            self.words = [
                stream(self.seed, *stream_key, i).words for i in range(self.count)
            ]
            most_needed = self.count * (setting.limit - depth)
            if self.spread is not None and most_calls - meta[CALLS] >= most_needed:
                self._run_at_once(setting, head, simulator)
        words_before = rng.words.copy()
        try:
            while len(self.returns) < self.count:
                if not is_resumed:
                    (state, depth), total, weight = self.leaf, 0.0, 1.0
                is_resumed = False
                rng.words[:] = self.words[len(self.returns)]
                rollout_return, status = interpreted_form(blind_rollout)(
                    setting,
                    head,
                    simulator,
                    state,
                    scratch,
                    depth,
                    total,
                    weight,
                    *memory,
                    most_calls,
                    acts,
                    rng,
                )
                if status != DONE:
                    self.words[len(self.returns)] = rng.words.copy()
                    if status != CUT:
                        self.forget()
                    return rollout_return, status
                self.returns.append(rollout_return)
        except BaseException:
            self.forget()
            raise
        finally:
            rng.words[:] = words_before
        sum_returns = 0.0
        for rollout_return in self.returns:
            sum_returns += rollout_return
        self.forget()
        return sum_returns / self.count, DONE

    def _run_at_once(self, setting: Any, head: Any, simulator: Any) -> None:
        """Let workers run the rollouts."""
        if self.pool is None:
            assert self.spread is not None
            self.pool = self.spread()
        (state, depth), numbers = self.leaf, (setting, list(head))
        leaf_rollouts = [
            LeafRollout(i, state, depth, tuple(words.tolist()), *numbers)
            for i, words in enumerate(self.words)
        ]
        rollout_returns = [0.0] * len(leaf_rollouts)

        def report(leaf: LeafRollout, rollout_result: tuple[float, int]) -> bool:
            rollout_returns[leaf.number], num_calls = rollout_result
            simulator.meta[CALLS] += num_calls
            return False

        try:
            with simulator.hold.opened():  # a wait, which a stop may break off
                self.pool.map(run_rollout, iter(leaf_rollouts), report)
        except BaseException:
            self.forget()
            raise
        self.returns = rollout_returns

    def close(self) -> None:
        """End the workers, if there are any."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None
