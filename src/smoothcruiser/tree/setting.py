"""The limits of a tree search in numbers: depth, number of nodes, value of the tail.

A simulation ends at ``depth``, at the horizon, or where the discount has made later
rewards worth less than ``REACH``. The tail then counts as the middle of the possible
values, and ``truncation`` bounds the error of that. Where bounds on V are functions
of the state and the search estimates that V, every leaf counts as the middle of its
own bounds, without a rollout.
"""

from __future__ import annotations

import math
from dataclasses import replace

from smoothcruiser.operators import Operator
from smoothcruiser.problem.bounds import bounds_slack
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.searches import Search
from smoothcruiser.tree.spans import rounding

# Without a horizon, the depth is such that gamma^d is a hundredth: the rewards
# beyond move a value by at most 0.5% of its span.
REACH = 0.01
MOST_NODES = 1_000_000
MOST_BYTES = 2**30  # for all nodes
# of actions, where they are sampled and the method says nothing: the defaults of MCTS.jl;
# all are open where a prior or evaluators at leaves decide
SAMPLED_WIDENING = (10.0, 0.5)


def setting_of(problem: Problem, search: Search, elapsed: int = 0) -> Setting:
    """The problem and the limits in numbers, ``elapsed`` moves after the start."""
    K, limit = problem.num_actions, depth_limit(problem, search, elapsed)
    steps_beyond = (
        None if problem.horizon is None else problem.horizon - elapsed - limit
    )
    tail_low, tail_high = _value_range(problem, search, steps_beyond)
    # bytes of two tables, the hash table and a state of one word
    keeps_entropy = search.rule(problem.operator).entropy > 0.0
    per_action = (4 if keeps_entropy else 3) + (
        3 if search.solve or search.bounds is not None else 0
    )
    bytes_per_node = 8 * (10 + per_action * K)
    k, alpha = search.widening or (0.0, 0.0)
    k_actions, alpha_actions = search.action_widening or (
        (0.0, 0.0) if problem.sample_action is None or search.asks else SAMPLED_WIDENING
    )
    if search.samples is not None or search.widening is not None:
        bytes_per_node += 8 * (3 + 5 * K)
    default_nodes = max(2, min(MOST_NODES, MOST_BYTES // bytes_per_node))
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
        tail=0.5 * (tail_low + tail_high),
        expansion=limit if search.expansion is None else search.expansion,
        most_nodes=max(2, (search.max_nodes or default_nodes) // search.trees),
        bounded=_is_bounded(problem, search),
        beyond=_is_bounded(problem, search) and steps_beyond != 0,
        gap=problem.facts.given_gap or 0.0,
        value_low=problem.facts.value_hull()[0],
        value_high=problem.facts.value_hull()[1],
        slack=max(
            bounds_slack(problem.facts),
            rounding(problem, limit) if search.solve else 0.0,
        ),
        samples=search.samples or 0,
        widening=float(k),
        growth=float(alpha),
        action_widening=float(k_actions),
        action_growth=float(alpha_actions),
        solves=search.solve,
        bounds=search.bounds is not None,
        closes=steps_beyond == 0,
        elapsed=elapsed,
    )


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
    steps_left = None if problem.horizon is None else problem.horizon - elapsed
    limit = depth_limit(problem, search, elapsed)
    root_low, root_high = _value_range(problem, search, steps_left)
    steps_beyond = None if steps_left is None else steps_left - limit
    tail_low, tail_high = _value_range(problem, search, steps_beyond)
    tail_width = tail_high - tail_low
    if _is_bounded(problem, search) and steps_beyond != 0:
        tail_width = min(tail_width, problem.facts.given_gap or 0.0)
    return root_high - root_low, 0.5 * tail_width * problem.discount**limit


def _is_bounded(problem: Problem, search: Search) -> bool:
    """Whether bounds at each state hold for the value that the search estimates."""
    return (
        problem.value_gap is not None
        and search.operator(problem.operator) == problem.operator
    )


def _value_range(
    problem: Problem, search: Search, steps: int | None
) -> tuple[float, float]:
    """The range of values of ``steps`` under the search's own operator."""
    operator = search.operator(problem.operator)
    return replace(problem.facts, operator=operator, given_bounds=None)._plain_range(
        steps
    )


def heads(operator: Operator, num_actions: int) -> list[float]:
    """F(0) over k actions, k = 0..K."""
    return [0.0] + [operator.offset(k) for k in range(1, num_actions + 1)]
