"""A factory of problems, and comparisons of whole trees, that tests of trees share."""

from dataclasses import replace
from functools import cache

import numpy as np

import smoothcruiser as sc

COMMON = {"num_actions": 2, "discount": 0.5, "operator": sc.Max(), "initial_state": 0}
# without chance: plays whose values can be proven
SURE = {"discount": 1.0, "terminal": True, "deterministic": True}
BOARD = {**COMMON, **SURE, "reward_range": (-1.0, 1.0), "payoffs": "end"}


def mdp(step, **changes):
    return sc.MDP(step, **(COMMON | changes))


def same(problem, method, simulations=50, seed=3, calls=None):
    """The compiled tree, which is the plain one to the last bit at every node."""
    limit = {"simulations": simulations} if calls is None else {"calls": calls}
    compiled, plain = (
        sc.Tree(problem, method=method, seed=seed, executor=executor).grow(**limit)
        for executor in (None, "reference")
    )
    assert compiled.backend.name == "compiled"
    assert plain.backend.name == "reference"
    assert compiled.backend.counts == plain.backend.counts
    assert compiled.inexact == plain.inexact
    assert compiled.node(0) == plain.node(0)
    waiting = [(0, 0)]
    while waiting:  # every node, by the actions and states that lead to it
        i, j = waiting.pop()
        left, right = compiled.node(i), plain.node(j)
        assert replace(left, number=0) == replace(right, number=0)
        twins = {(a, plain.node(n).state): n for a, n in plain.children(j)}
        below = compiled.children(i)
        assert len(below) == len(twins)
        waiting += [(n, twins[a, compiled.node(n).state]) for a, n in below]
    return compiled


def nodes_below(tree):
    """(node, its depth) of every node."""
    numbers = [(0, 0)]
    for number, depth in numbers:
        numbers += [(child, depth + 1) for _, child in tree.children(number)]
    return [(tree.node(number), depth) for number, depth in numbers]


def everything(tree, number=0):
    """A node and all that is below it."""
    node = replace(tree.node(number), number=0)
    return node, [(a, everything(tree, child)) for a, child in tree.children(number)]


def grow_in_slices(tree, calls, size):
    """The tree, grown by ``size`` calls at a time until it has made ``calls``."""
    while tree.num_calls < calls:
        tree.grow(calls=min(size, calls - tree.num_calls))
    return tree


def sure_world(seed, *, game=True, discount=1.0, horizon=5, ends=True, whole=False):
    """A random table without chance, and its minimax value with steps left."""
    rng = np.random.default_rng(seed)
    S, A = 12, 3
    after = rng.integers(S, size=(S, A))
    reward = rng.uniform(-1.0, 1.0, size=(S, A))
    if whole:
        reward = np.round(reward)
    players = rng.integers(1, 3, size=S) if game else None
    over = (rng.random(S) < 0.2) & (np.arange(S) > 0) if ends else np.zeros(S, bool)
    problem = sc.tabular(
        np.eye(S)[after],
        reward,
        discount=0.9,
        operator=sc.Max(),
        players=players,
        terminal=over if ends else None,
    )
    known = {"discount": discount, "horizon": horizon, "deterministic": True}
    problem = replace(problem, reward_range=(-1.0, 1.0), **known)

    @cache
    def value(state, left):
        if over[state] or left == 0:
            return 0.0
        best = max if players is None or players[state] == 1 else min
        return best(
            reward[state, a] + discount * value(after[state, a], left - 1)
            for a in range(A)
        )

    return problem, value
