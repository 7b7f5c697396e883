"""Proofs by a tree without chance: the certificate of its boxes.

With ``solve=True`` a tree keeps for every action two ends between which its value lies
for sure (``tree.kernels.rules_kernel``). They come from plays that were followed to their end,
and from the range that the declared rewards allow elsewhere. No chance is in them
(delta 0). They rest on ``deterministic=True``: one call of the step tells all. A tree
makes most of its moves again and again; a second outcome of one of them ends the
search with an error.
The ends of a play are proven once and not tried again; ``plan`` inspects some calls
before and after the search, as for every certificate.

The interval includes possible rounding errors (``spans.rounding``). Where no number
was rounded (whole rewards at discount 1) nothing is added.

The range of values that the rewards allow for an untried action, and its rounding.

Trees that solve begin with these boxes. This file loads no Numba: ``explain`` and
``--help`` ask whether a search can solve.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import NOWHERE, Certificate, Interval, not_excluded
from smoothcruiser.operators import Max
from smoothcruiser.problem.assumptions import assumptions
from smoothcruiser.problem.facts import Facts, largest
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.node import SearchTree
from smoothcruiser.tree.search_numbers import NO_PRIOR

if TYPE_CHECKING:
    from smoothcruiser.tree.search_rules import Search


NOT_INSPECTED = "not inspected apart from the search"


def check_solvable(problem: Problem, search: Search) -> None:
    """Refuse a search with ``solve=True`` where nothing could be proven."""
    requirement = None
    if not problem.deterministic:
        requirement = (
            "a problem without chance; declare deterministic=True if every state and "
            "action has one outcome, or drop solve"
        )
    elif problem.operator != Max():
        requirement = (
            f"the operator Max(), and the problem's is {problem.operator.label}; use "
            "operator=Max(), or drop solve"
        )
    elif (
        search.operator(problem.operator) != Max()
        or search.rule(problem.operator).prior != NO_PRIOR
    ):
        requirement = (
            "a search for the plain maximum; use uct, bts or dents, or drop solve"
        )
    elif search.widening is not None or search.samples is not None:
        requirement = (
            "moves that are made; drop widening and samples, which are for chance"
        )
    elif problem.sample_action is not None:
        requirement = (
            "a list of all actions, and this problem samples them; drop solve"
        )
    elif search.action_widening is not None:
        requirement = "all actions of a node; drop action_widening, or solve"
    elif not problem.facts.terminals and problem.horizon is None:
        requirement = (
            "plays that end; declare terminal= or horizon= if they do, or drop solve"
        )
    if requirement is not None:
        raise InvalidInput(f"{search.name}: solve=True needs {requirement}.")


class Refuted(OracleError):
    """The search refuted a declaration, so nothing is proven any more."""


def two_outcomes(where: str) -> Refuted:
    """The error of a move that was made again and had another outcome."""
    return Refuted(
        f"deterministic=True is declared, but a move {where} had two outcomes; drop "
        "deterministic= and solve, or fix the simulator."
    )


def broken_claim(problem: Problem, state: object) -> Refuted:
    """The error of a play with a value that the declarations exclude."""
    low, high = problem.facts.q_bounds(1)
    return Refuted(
        f"A play from state {state!r} was worth what the problem's declarations "
        f"exclude (values of actions in [{low:g}, {high:g}]); correct payoffs, "
        "total_reward_range or value_bounds, or fix the simulator."
    )


def is_rounded(tree: SearchTree) -> bool:
    """Whether a number in a box was rounded, on the way up or before the first call."""
    if not tree.setting.solves:
        return False
    return bool(tree.backend.inexact) or not spans_are_exact(tree.problem.facts)


def root_boxes(tree: SearchTree) -> tuple[Interval, dict[int, Interval]]:
    """(the box of V, those of the legal actions), with room for rounding."""
    root = tree.node(0)
    root_box = root.box
    assert root_box is not None
    rounding_room = rounding(tree.problem, tree.setting.limit) if tree.inexact else 0.0

    def widen(ends: Interval) -> Interval:
        low, high = ends
        return low - rounding_room, high + rounding_room

    return widen(root_box), {
        a: widen(ends) for a, ends in zip(root.actions, root.boxes, strict=True)
    }


def certificate_of(tree: SearchTree, looked: str = NOT_INSPECTED) -> Certificate:
    """The certificate of the root's boxes; ``looked`` names other inspections.

    There is none after an error that has refuted its assumptions.
    """
    if tree.refuted is not None:
        raise tree.refuted
    interval, boxes = root_boxes(tree)
    problem, root = tree.problem, tree.node(0)
    q_intervals = tuple(boxes.get(a, NOWHERE) for a in range(problem.num_actions))
    law_text = (
        "deterministic=True: every state and action has one outcome (checked whenever "
        "the search made a move again)"
    )
    bound_text = "plays to their end, and what the rewards allow of the others"
    return Certificate(
        kind="proof",
        interval=interval,
        q_intervals=q_intervals,
        confidence=1.0,
        bound=f"proven: {bound_text}" if root.is_proven else bound_text,
        assumptions=assumptions(problem, law_text, looked),
        best_actions=not_excluded(q_intervals, root.player),
    )


def note_of(tree: SearchTree) -> str:
    """The proof in one sentence."""
    root = tree.node(0)
    low, high = root.box or (-math.inf, math.inf)
    if root.is_proven:
        rounding_text = ", up to rounding" if tree.inexact else ""
        return (
            f"Proven: the value is {low:.6g}{rounding_text}; every other line of play "
            "was followed to its end or cannot matter (deterministic=True is assumed)."
        )
    return (
        f"Not proven yet: the value lies in [{low:.6g}, {high:.6g}]; with more calls "
        "the search goes on."
    )


ROOM = 4.0 * 2.0**-53  # of a step, for numbers of size 1
UNTRIED = 5  # steps: their room pays for the rounding of an untried action's range
LEAST = 5e-324  # the smallest number above 0


@lru_cache(maxsize=16)  # a long horizon takes seconds
def spans_of(facts: Facts) -> NDArray[np.float64]:
    """The ranges that the rewards allow for an untried action, after 0, 1, ... moves.

    One row serves all where there is no horizon.
    """
    steps_left: list[int | None] = [None]
    if facts.horizon is not None:
        steps_left = [facts.horizon - t for t in range(facts.horizon)]
    player_bounds = [
        [facts.q_bounds(player, steps) for player in facts.players]
        for steps in steps_left
    ]
    return np.array(
        [
            [
                min(bounds[0] for bounds in bounds_row),
                max(bounds[1] for bounds in bounds_row),
            ]
            for bounds_row in player_bounds
        ],
        dtype=float,
    )


def rounding(problem: Problem, steps: int) -> float:
    """The largest rounding error of a box in a tree of ``steps`` steps.

    An end of a box is a sum r_0 + gamma (r_1 + gamma (...)) from its last term on, and
    each step errs by at most two roundings of numbers that are at most M in size, the
    largest that the declared rewards allow anywhere: 2 steps M 2**-53, plus products
    of roundings. The last term may be an end of the range of an untried action, which
    ``Facts`` computes within ten roundings. ``ROOM`` pays for all of these twice over,
    and ``LEAST`` for products below the normal numbers, which err by up to half of it.
    """
    facts = problem.facts
    largest_value = facts.reward_bound + largest(facts.value_hull())
    return (steps + 1 + UNTRIED) * (ROOM * largest_value + LEAST)


@lru_cache(maxsize=16)
def spans_are_exact(facts: Facts) -> bool:
    """Whether nothing was rounded in the ranges of untried actions.

    Sums of short numbers are exact; a range of the total is as it was declared.
    """
    spans, total_range, declared_bounds = (
        spans_of(facts),
        facts.total_range,
        facts.given_bounds,
    )
    if total_range is not None and bool((spans == np.array(total_range)).all()):
        return True
    all_numbers = (
        *facts.reward_range,
        *(total_range or ()),
        *(declared_bounds or ()),
        *spans.flat,
    )
    return facts.discount == 1.0 and all(map(_is_short, all_numbers))


def _is_short(number: float) -> bool:
    """Whether a number is a multiple of 2**-20 below 2**32, which takes 52 bits."""
    return abs(number) < 2.0**32 and (number * 2.0**20).is_integer()
