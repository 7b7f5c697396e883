"""The limits of a tree search in numbers: how deep, how many nodes, what lies beyond.

A simulation ends at ``depth``, at the horizon, or where the discount has made
what follows worth less than ``REACH``. The tail then counts as the middle of
what is possible, and ``truncation`` says how far that can be off. Where bounds on
V are functions of the state and the search estimates that V, every leaf counts as
the middle of its own bounds, without a rollout.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.operators import Operator
from smoothcruiser.problem.bounds import slack
from smoothcruiser.problem.facts import Facts, largest
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.searches import Search

# Without a horizon, the depth is such that gamma^d is a hundredth: what lies
# beyond moves a value by at most 0.5% of its span.
REACH = 0.01
MOST_NODES = 1_000_000
MOST_BYTES = 2**30  # for all nodes
ROOM = 4.0 * 2.0**-53  # of a step, for numbers of size 1
UNTRIED = 5  # steps whose room pays for the rounding of what the rewards allow
LEAST = 5e-324  # the smallest number above 0
# of actions, where they are sampled and the method says nothing: the defaults of MCTS.jl;
# all are open where a prior or evaluators at leaves decide
SAMPLED_WIDENING = (10.0, 0.5)


def setting_of(problem: Problem, search: Search, elapsed: int = 0) -> Setting:
    """The problem and the limits in numbers, ``elapsed`` moves after the start."""
    K, limit = problem.num_actions, depth_limit(problem, search, elapsed)
    left = None if problem.horizon is None else problem.horizon - elapsed - limit
    low, high = _range(problem, search, left)
    # bytes of two tables, the hash table and a state of one word
    entropic = search.rule(problem.operator).entropy > 0.0
    per_action = (4 if entropic else 3) + (
        3 if search.solve or search.bounds is not None else 0
    )
    bytes_per_node = 8 * (10 + per_action * K)
    k, alpha = search.widening or (0.0, 0.0)
    k_actions, alpha_actions = search.action_widening or (
        (0.0, 0.0) if problem.sample_action is None or search.asks else SAMPLED_WIDENING
    )
    if search.samples is not None or search.widening is not None:
        bytes_per_node += 8 * (3 + 5 * K)
    room = max(2, min(MOST_NODES, MOST_BYTES // bytes_per_node))
    return Setting(
        num_actions=K,
        fewest=problem.facts.min_actions,
        discount=float(problem.discount),
        low=float(problem.reward_range[0]),
        high=float(problem.reward_range[1]),
        varies=problem.legal is not None,
        ends=problem.facts.terminals,
        game=problem.is_game,
        limit=limit,
        tail=0.5 * (low + high),
        expansion=limit if search.expansion is None else search.expansion,
        most_nodes=max(2, (search.max_nodes or room) // search.trees),
        bounded=_is_bounded(problem, search),
        beyond=_is_bounded(problem, search) and left != 0,
        gap=problem.facts.given_gap or 0.0,
        value_low=problem.facts.value_hull()[0],
        value_high=problem.facts.value_hull()[1],
        slack=max(
            slack(problem.facts), rounding(problem, limit) if search.solve else 0.0
        ),
        samples=search.samples or 0,
        widening=float(k),
        growth=float(alpha),
        action_widening=float(k_actions),
        action_growth=float(alpha_actions),
        solves=search.solve,
        bounds=search.bounds is not None,
        closes=left == 0,
        elapsed=elapsed,
    )


def spans_of(problem: Problem, setting: Setting) -> NDArray[np.float64]:
    """What the rewards allow of an untried action, after 0, 1, ... moves.

    One row serves all where there is no horizon, or nothing is to be proven.
    """
    return _spans(problem.facts).copy() if setting.solves else np.zeros((1, 2))


@lru_cache(maxsize=16)  # a long horizon takes seconds
def _spans(facts: Facts) -> NDArray[np.float64]:
    left: list[int | None] = [None]
    if facts.horizon is not None:
        left = [facts.horizon - t for t in range(facts.horizon)]
    players = (1, 2) if facts.game else (1,)
    rows = [[facts.q_bounds(player, steps) for player in players] for steps in left]
    return np.array(
        [[min(b[0] for b in row), max(b[1] for b in row)] for row in rows], dtype=float
    )


def rounding(problem: Problem, steps: int) -> float:
    """How far a box of a tree of ``steps`` steps may be off by rounding.

    An end of a box is a sum r_0 + gamma (r_1 + gamma (...)) from its last term on, and
    each step errs by at most two roundings of numbers that are at most M in size, the
    largest that the declared rewards allow anywhere: 2 steps M 2**-53, and what
    products of roundings add. The last term may be what the rewards allow of an
    untried action, which ``Facts`` computes within ten roundings. ``ROOM`` pays for all
    of these twice over, and ``LEAST`` for products below the normal numbers, which err
    by up to half of it.
    """
    facts = problem.facts
    size = facts.reward_bound + largest(facts.value_hull())
    return (steps + 1 + UNTRIED) * (ROOM * size + LEAST)


@lru_cache(maxsize=16)
def spans_are_exact(facts: Facts) -> bool:
    """Whether nothing was rounded in what the rewards allow of untried actions.

    Sums of short numbers are exact; a range of the total is as it was declared.
    """
    spans, total, given = _spans(facts), facts.total_range, facts.given_bounds
    if total is not None and bool((spans == np.array(total)).all()):
        return True
    numbers = (*facts.reward_range, *(total or ()), *(given or ()), *spans.flat)
    return facts.discount == 1.0 and all(map(_is_short, numbers))


def _is_short(number: float) -> bool:
    """Whether a number is a multiple of 2**-20 below 2**32, which takes 52 bits."""
    return abs(number) < 2.0**32 and (number * 2.0**20).is_integer()


def depth_limit(problem: Problem, search: Search, elapsed: int = 0) -> int:
    """The most steps that a simulation may make from the root."""
    horizon = None if problem.horizon is None else problem.horizon - elapsed
    if search.depth is not None:
        return search.depth if horizon is None else min(search.depth, horizon)
    if horizon is not None:
        return horizon
    gamma = problem.discount
    if gamma == 0.0:
        return 1
    return max(1, math.ceil(math.log(REACH) / math.log(gamma)))


def truncation(
    problem: Problem, search: Search, elapsed: int = 0
) -> tuple[float, float]:
    """The span of values at the root, and how far the depth limit may move them."""
    left = None if problem.horizon is None else problem.horizon - elapsed
    limit = depth_limit(problem, search, elapsed)
    low, high = _range(problem, search, left)
    beyond = None if left is None else left - limit
    least, most = _range(problem, search, beyond)
    width = most - least
    if _is_bounded(problem, search) and beyond != 0:
        width = min(width, problem.facts.given_gap or 0.0)
    return high - low, 0.5 * width * problem.discount**limit


def _is_bounded(problem: Problem, search: Search) -> bool:
    """Whether bounds at each state hold for what the search estimates."""
    return (
        problem.value_gap is not None
        and search.operator(problem.operator) == problem.operator
    )


def _range(problem: Problem, search: Search, steps: int | None) -> tuple[float, float]:
    """The range of what ``steps`` may be worth to the search's own operator."""
    operator = search.operator(problem.operator)
    return replace(problem.facts, operator=operator, given_bounds=None)._plain_range(
        steps
    )


def heads(operator: Operator, num_actions: int) -> list[float]:
    """F(0) over k actions, k = 0..K."""
    return [0.0] + [operator.offset(k) for k in range(1, num_actions + 1)]
