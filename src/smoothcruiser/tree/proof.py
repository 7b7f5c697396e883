"""Proofs by a tree without chance: the certificate of its boxes.

With ``solve=True`` a tree keeps for every action two ends between which its value lies
for sure (``tree.proof_kernel``). They come from plays that were followed to their end,
and from the range that the declared rewards allow elsewhere. No chance is in them
(delta 0). They rest on ``deterministic=True``: one call of the step tells all. A tree
makes most of its moves again and again; a second outcome of one of them ends the
search with an error.
The ends of a play are proven once and not tried again; ``plan`` inspects some calls
before and after the search, as for every certificate.

The interval includes possible rounding errors (``spans.rounding``). Where no number
was rounded (whole rewards at discount 1) nothing is added.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothcruiser.errors import InvalidInput, OracleError
from smoothcruiser.estimate import NOWHERE, Certificate, Interval, not_excluded
from smoothcruiser.operators import Max
from smoothcruiser.problem.assumptions import assumptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.spans import rounding, spans_are_exact

if TYPE_CHECKING:
    from smoothcruiser.tree.searches import Search
    from smoothcruiser.tree.tree import Tree

NOT_INSPECTED = "not inspected apart from the search"


def check_solvable(problem: Problem, search: Search) -> None:
    """Refuse ``solve=True`` where nothing could be proven."""
    if not search.solve:
        return
    from smoothcruiser.tree.searches import NO_PRIOR

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
        requirement = "a list of all actions, and this problem samples them; drop solve"
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


def is_rounded(tree: Tree) -> bool:
    """Whether a number in a box was rounded, on the way up or before the first call."""
    if not tree.setting.solves:
        return False
    return bool(tree._backend.inexact) or not spans_are_exact(tree.problem.facts)


def root_boxes(tree: Tree) -> tuple[Interval, dict[int, Interval]]:
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


def certificate_of(tree: Tree, looked: str = NOT_INSPECTED) -> Certificate:
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


def note_of(tree: Tree) -> str:
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
