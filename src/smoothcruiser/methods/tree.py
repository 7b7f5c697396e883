"""``plan`` for tree searches: grow a tree within a budget, answer, and on
request certify its policy from below.

With ``certify`` half of the budget grows the tree and half rolls out its policy
afresh (``evaluate``): for an MDP the lower end is a lower bound on V with
probability 1 - delta; the upper end is what the rewards allow, so the interval
is valid and one-sided.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.evaluation.evaluate import evaluate
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.searches import Search
from smoothcruiser.tree.tree import Tree

DEFAULT_CALLS = 1_000_000  # where no budget is given: about a second compiled


@dataclass(frozen=True)
class Growth:
    """A report on a growing tree, in the words of the engines' reports."""

    calls: int
    price: int  # the calls allowed, or as many as the seconds will do for at this speed
    seconds: float
    simulations: int
    value: float


def plan_tree(
    problem: Problem,
    state: Any,
    method: Search,
    *,
    seed: int = 0,
    executor: str | None = None,
    budget: int | None = None,
    seconds: float | None = None,
    simulations: int | None = None,
    certify: bool = False,
    delta: float | None = None,
    progress: Callable[[Any], object] | None = None,
) -> Estimate:
    """The Estimate of a tree search; its certificate is None, or that of its policy."""
    if certify and problem.is_game:
        raise InvalidInput(
            "certify=True bounds the value of an MDP from below; in a game the "
            "opponent's best reply is not known."
        )
    if simulations is not None and (not is_whole(simulations) or simulations < 1):
        raise InvalidInput(
            f"simulations must be a whole number of at least 1, got {simulations!r}."
        )
    if certify and budget is not None and budget < 2:
        raise InvalidInput(
            "certify=True needs a budget of at least 2 calls, one for the tree and "
            f"one for its policy, got {budget}."
        )
    if budget is None and seconds is None and simulations is None:
        budget = DEFAULT_CALLS
    calls = budget if budget is None or not certify else budget // 2
    begin = time.perf_counter()
    tree = Tree(problem, state, method=method, seed=seed, executor=executor)
    planted = time.perf_counter()
    # compiling is part of what the user waits for
    left = None if seconds is None else max(1e-3, seconds - (planted - begin))
    if left is not None and certify:
        left /= 2.0

    def report(growing: Tree) -> None:
        spent = time.perf_counter() - planted
        share = max(
            growing.simulations / simulations if simulations else 0.0,
            spent / left if left else 0.0,
            1e-9,
        )
        price = (
            calls
            if calls is not None
            else max(growing.num_calls, round(growing.num_calls / min(1.0, share)))
        )
        if progress is not None:
            progress(
                Growth(
                    growing.num_calls,
                    price,
                    spent,
                    growing.simulations,
                    growing.node(0).value,
                )
            )

    try:
        tree.grow(
            simulations=simulations,
            calls=calls,
            seconds=left,
            progress=None if progress is None else report,
        )
    except KeyboardInterrupt:
        if not any(tree.node(0).edge_visits):
            raise
        answer = tree.estimate()  # a tree answers at any time
        return replace(
            answer,
            notes=(
                *answer.notes,
                (
                    f"Stopped by hand after {tree.num_calls:,} calls: the answer of "
                    "what was grown."
                ),
            ),
        )
    answer = tree.estimate()
    if not certify:
        return answer
    paid = (
        tree.num_calls
        if budget is None and seconds is None
        else None
        if budget is None
        else budget - tree.num_calls
    )
    return certified(tree, answer, budget=paid, seconds=left, delta=delta)


def certified(
    tree: Tree,
    answer: Estimate,
    *,
    budget: int | None,
    seconds: float | None = None,
    delta: float | None = None,
) -> Estimate:
    """``answer`` with the certificate of the tree's policy: a lower bound on
    V(state).
    """
    paid = None if budget is None else max(1, budget)
    below = evaluate(
        tree.problem,
        tree,
        tree.state,
        budget=paid,
        seconds=seconds,
        delta=delta,
        seed=tree.seed,
    )
    assert below.certificate is not None
    assert below.interval is not None
    left = None if tree.problem.horizon is None else tree.problem.horizon - tree.elapsed
    top = tree.problem.facts.value_bounds(tree.node(0).player, left)[1]
    interval = (below.interval[0], max(top, below.interval[0]))
    certificate = replace(below.certificate, interval=interval)
    note = (
        f"Its policy (blind off the tree) is worth {below.value:.6g}, in "
        f"[{below.interval[0]:.6g}, {below.interval[1]:.6g}] with "
        f"probability {certificate.confidence:g}: V(state) is at least "
        f"{interval[0]:.6g}. The upper end is only what the rewards allow."
    )
    value = min(max(answer.value, interval[0]), interval[1])
    if tree.method.estimates(tree.problem.operator) != tree.problem.operator.label:
        # the tree's own number is of another operator, and the interval is not
        value = below.value
    return replace(
        answer,
        value=value,
        interval=interval,
        certificate=certificate,
        delta=below.delta,
        num_calls=answer.num_calls + below.num_calls,
        seconds=answer.seconds + below.seconds,
        compile_seconds=answer.compile_seconds + below.compile_seconds,
        notes=(*tree.notes(), note),
    )
