"""The sentences about a tree that its estimate carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.problem.states import by_identity
from smoothcruiser.tree.asks import asked_notes, deep_values
from smoothcruiser.tree.proof import note_of
from smoothcruiser.tree.setting import REACH, truncation

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree

MOST_SHOWN = 10  # actions whose visits a note lists


def notes_of(tree: Tree) -> tuple[str, ...]:
    """How a tree was grown, and what its values leave out."""
    visits = tree.node(0).edge_visits
    seen = (
        f" (visits {', '.join(f'{n:,}' for n in visits)})"
        if len(visits) <= MOST_SHOWN
        else ""
    )
    said = [
        f"{tree.method}: {_counted(tree.simulations, 'simulation')}{seen}, "
        f"{_counted(tree.num_nodes, 'node')}, "
        f"at most {tree.deepest} deep."
    ]
    whose = tree.method.estimates(tree.problem.operator)
    if whose != tree.problem.operator.label:
        said.append(
            f"Its values are those of {whose}, not of the problem's "
            f"{tree.problem.operator.label}."
        )
    if by_identity(tree.state):
        kind = type(tree.state).__name__
        said.append(
            f"States of type {kind} have no equality, so none is ever met "
            "twice: give them __eq__ and __hash__."
        )
    said += asked_notes(tree._backend)
    if tree.method.bounds is not None:
        said.append(tree.bounds.sentence)
    span, off = truncation(tree.problem, tree.method, tree.elapsed)
    if off > REACH * span and not deep_values(tree._backend):
        steps = _counted(tree.setting.limit, "step")
        said.append(
            f"Beyond {steps} values count as the middle of what is possible: "
            f"up to {off:.3g} off."
        )
    if tree.method.trees > 1:
        said.append(
            f"{tree.method.trees:,} independent trees were added up; their number "
            "is part of the answer, who grew them is not."
        )
    most = tree.setting.most_nodes * tree.method.trees
    if tree.num_nodes >= most:
        said.append(
            f"The tree is full ({most:,} nodes); it refines "
            "what it has (max_nodes= makes room)."
        )
    return tuple(said)


def promise_of(tree: Tree) -> str:
    """What it promises: nothing, or what it has proven."""
    if tree.method.solve:
        return note_of(tree)
    hint = (
        "."
        if tree.problem.is_game or tree.method.trees > 1
        else "; certify=True bounds its policy from below."
    )
    return f"A tree search promises nothing{hint}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
