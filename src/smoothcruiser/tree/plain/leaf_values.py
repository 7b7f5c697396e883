"""Rollouts from one leaf, run by workers at once: for simulators that are slow.

Each rollout has a stream of its own (``jit.random``: TREE, LEAVES), so its return does not
depend on the worker; the tree takes their mean, summed in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from smoothcruiser.engines.watchdog import limit_call_seconds
from smoothcruiser.jit.interrupts import StopRequest
from smoothcruiser.jit.random import LEAVES, Key
from smoothcruiser.jit.random.streams import from_words, stream
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.tree.plain.plain_tree import PlainTree

NO_LIMIT = 2**62  # calls: a rollout is sent out only where it may run to its end


class LeafRollout(NamedTuple):
    """A rollout to run: its first state, and the tree's rule and limits."""

    number: int
    state: Any
    depth: int
    words: tuple[int, ...]  # of its stream
    rule: Any
    setting: Any
    head: list[float]


def run_rollout(problem: Problem, leaf: LeafRollout) -> tuple[float, int]:
    """(the return of a rollout, the calls that it took)."""
    tree: PlainTree = object.__new__(PlainTree)
    tree.problem, tree.rule, tree.setting = problem, leaf.rule, leaf.setting
    tree.head, tree.rng = leaf.head, from_words(leaf.words)
    tree.guard, tree.hold = Guard(), StopRequest()
    tree.calls, tree.most_calls = 0, NO_LIMIT
    tree.start_words, tree.answers, tree.answers_used = None, [], 0
    with limit_call_seconds(tree, problem.call_seconds):
        rollout_return = tree._blind_rollout(leaf.state, leaf.depth)
    return rollout_return, tree.calls


def mean_rollout(tree: PlainTree, state: Any, depth: int) -> float:
    """The mean of several rollouts from streams of their own, summed in order."""
    num_rollouts, seed, tree_number = tree.leaves
    stream_key = Key.TREE, tree_number, LEAVES, tree.simulations
    streams = [
        stream(seed, *stream_key, rollout_number).words
        for rollout_number in range(num_rollouts)
    ]
    if tree.spread is not None and tree.start_words is None:
        rollout_returns = _at_once(tree, state, depth, streams)
    else:
        rollout_returns = []
        for words in streams:
            words_before = tree.rng.words.copy()
            tree.rng.words[:] = words
            rollout_returns.append(tree._blind_rollout(state, depth))
            tree.rng.words[:] = words_before
    sum_returns = 0.0
    for rollout_return in rollout_returns:
        sum_returns += rollout_return
    return sum_returns / num_rollouts


def _at_once(
    tree: PlainTree, state: Any, depth: int, streams: list[Any]
) -> list[float]:
    """The returns of the same rollouts, run by workers."""
    if tree.pool is None:
        tree.pool = tree.spread()
    tree_settings = tree.rule, tree.setting, tree.head
    leaf_rollouts = [
        LeafRollout(i, state, depth, tuple(words.tolist()), *tree_settings)
        for i, words in enumerate(streams)
    ]
    rollout_returns = [0.0] * len(leaf_rollouts)

    def report(leaf: LeafRollout, rollout_result: tuple[float, int]) -> bool:
        rollout_returns[leaf.number], num_calls = rollout_result
        tree.calls += num_calls
        return False

    with tree.hold.opened():  # a wait, which a stop may break off
        tree.pool.map(run_rollout, iter(leaf_rollouts), report)
    return rollout_returns
