"""The sentences about a tree that its estimate carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.problem.states import by_identity
from smoothcruiser.tree.asks import evaluates_limit, evaluator_notes
from smoothcruiser.tree.proof import note_of
from smoothcruiser.tree.setting import REACH, truncation

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree

MOST_SHOWN = 10  # actions: a note lists their visits


def notes_of(tree: Tree) -> tuple[str, ...]:
    """Sentences on the growth of a tree, and on the limits of its values."""
    visits = tree.node(0).edge_visits
    visits_text = (
        f" (visits {', '.join(f'{n:,}' for n in visits)})"
        if len(visits) <= MOST_SHOWN
        else ""
    )
    sentences = [
        f"{tree.method}: {_count_text(tree.simulations, 'simulation')}{visits_text}, "
        f"{_count_text(tree.num_nodes, 'node')}, "
        f"at most {tree.deepest} deep."
    ]
    estimated_operator = tree.method.estimates(tree.problem.operator)
    if estimated_operator != tree.problem.operator.label:
        sentences.append(
            f"Its values are those of {estimated_operator}, not of the problem's "
            f"{tree.problem.operator.label}."
        )
    if by_identity(tree.state):
        type_name = type(tree.state).__name__
        sentences.append(
            f"States of type {type_name} have no equality, so none is ever met "
            "twice: give them __eq__ and __hash__."
        )
    sentences += evaluator_notes(tree._backend)
    if tree.method.bounds is not None:
        sentences.append(tree.bounds.sentence)
    span, cut_error = truncation(tree.problem, tree.method, tree.elapsed)
    if cut_error > REACH * span and not evaluates_limit(tree._backend):
        steps_text = _count_text(tree.setting.limit, "step")
        sentences.append(
            f"Beyond {steps_text} values count as the middle of what is possible: "
            f"up to {cut_error:.3g} off."
        )
    if tree.method.trees > 1:
        sentences.append(
            f"{tree.method.trees:,} independent trees were added up; their number "
            "is part of the answer, who grew them is not."
        )
    max_nodes = tree.setting.most_nodes * tree.method.trees
    if tree.num_nodes >= max_nodes:
        sentences.append(
            f"The tree is full ({max_nodes:,} nodes); it refines "
            "what it has (max_nodes= makes room)."
        )
    return tuple(sentences)


def promise_of(tree: Tree) -> str:
    """The promise of a tree: none, or its proof."""
    if tree.method.solve:
        return note_of(tree)
    hint = (
        "."
        if tree.problem.is_game or tree.method.trees > 1
        else "; certify=True bounds its policy from below."
    )
    return f"A tree search promises nothing{hint}"


def _count_text(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
