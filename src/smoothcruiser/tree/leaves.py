"""Rollouts from one leaf, run by workers at once: for simulators that are slow.

Each rollout has a stream of its own (``jit.keys``: TREE, LEAVES), so its return does not
depend on who computes it; the tree takes their mean, summed in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from smoothcruiser.engines.watchdog import watched
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.jit.streams import from_words
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.tree.plain import PlainTree

NO_LIMIT = 2**62  # calls: a rollout is sent out only where it may run to its end


class Leaf(NamedTuple):
    """A rollout to run: where it begins, and what the tree's rule and limits are."""

    number: int
    state: Any
    depth: int
    words: tuple[int, ...]  # of its stream
    rule: Any
    setting: Any
    head: list[float]


def roll(problem: Problem, leaf: Leaf) -> tuple[float, int]:
    """(the return of a rollout, the calls that it took)."""
    tree: PlainTree = object.__new__(PlainTree)
    tree.problem, tree.rule, tree.setting = problem, leaf.rule, leaf.setting
    tree.head, tree.rng = leaf.head, from_words(leaf.words)
    tree.guard, tree.hold = Guard(), Hold()
    tree.calls, tree.most_calls = 0, NO_LIMIT
    tree.begun, tree.answers, tree.known = None, [], 0
    with watched(tree, problem.call_seconds):
        value = tree._rollout(leaf.state, leaf.depth)
    return value, tree.calls
