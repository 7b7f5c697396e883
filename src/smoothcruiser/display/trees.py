"""The page of a search tree: the root's actions and visits, the line that it expects,
and its most visited part. ``view`` writes the tree alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import overload

from smoothcruiser.display.answers import action_block, digits_of, state_text
from smoothcruiser.display.document import (
    Block,
    Drawing,
    Fields,
    Labelled,
    Page,
    Verbatim,
    style_sentence,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.schedule.numbers import count_noun, duration
from smoothcruiser.tree import view as views
from smoothcruiser.tree.folding import principal_line
from smoothcruiser.tree.tree import Tree


def tree_page(tree: Tree) -> Page:
    """The tree's answer, which carries no promise."""
    title = ("Tree", tree.problem.name, f"state {state_text(tree.state)}")
    size_text = (
        f"{count_noun(tree.simulations, 'simulation')}, {count_noun(tree.num_nodes, 'node')}, "
        f"at most {tree.deepest} deep"
    )
    run_rows: list[Labelled] = [
        ("tree", size_text),
        ("calls", f"{tree.num_calls:,} oracle calls, counted"),
        ("time", f"{duration(tree.seconds)} growing"),
        ("run", f"method {tree.method}, seed {tree.seed}"),
    ]
    if not any(tree.node(0).edge_visits):
        run_rows.append(("note", "No simulation was finished: grow it first."))
        return Page(title, (Fields(tuple(run_rows)),))
    estimate = tree.estimate()
    root = tree.node(0)
    visits = dict(zip(root.actions, root.edge_visits, strict=True))
    value_text = style_sentence(f"{estimate.value:.3f}", "good")
    head_rows: tuple[Labelled, ...] = (("value", value_text), ("line", _line(tree)))
    # the first note counts simulations and nodes, which are above
    run_rows += [("note", note) for note in estimate.notes[1:]]
    blocks: list[Block] = [
        Fields(head_rows),
        action_block(estimate, None, digits_of(estimate), visits),
        Fields(tuple(run_rows), heading="Run"),
        Drawing(
            views.svg(tree, width=3, ink=views.AROUND),
            heading="Most visited",
            detail=True,
        ),
        Verbatim(tuple(views.text(tree, depth=2, width=3).splitlines()[1:])),
    ]
    return Page(title, tuple(blocks))


def _line(tree: Tree) -> str:
    moves = [f"{move} ({visits:,})" for move, visits in principal_line(tree)]
    return f"{' → '.join(moves)}: actions recommended one after the other (visits)"


@overload
def view(tree: Tree, path: None = None, *, depth: int = 2, width: int = 4) -> str: ...


@overload
def view(tree: Tree, path: str | Path, *, depth: int = 2, width: int = 4) -> Path: ...


def view(
    tree: Tree, path: str | Path | None = None, *, depth: int = 2, width: int = 4
) -> str | Path:
    """The most visited part of a search tree as an HTML page, or the file it is in.

    It shows the root's actions, the principal line, a picture, and the tree to fold and
    unfold, with proven values where the tree solves. The page is self-contained: no
    script, and no request to anywhere.

    Args:
        tree: a ``Tree`` that has grown.
        path: the file to write, which ends in .html, .svg or .txt; by default none
            is written, and the HTML is returned.
        depth: levels below the root that are shown.
        width: most children of a node that are shown.

    Example:
        >>> import smoothcruiser as sc
        >>> problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
        >>> tree = sc.Tree(problem, method="uct").grow(simulations=100)
        >>> sc.view(tree).startswith("<!doctype html>")
        True
    """
    if not isinstance(tree, Tree):
        raise InvalidInput(
            f"view shows a search Tree, got {type(tree).__name__}; grow one: "
            "sc.Tree(problem).grow(simulations=1000)."
        )
    if path is None:
        return views.html(tree, depth=depth, width=width)
    return views.save(tree, path, depth=depth, width=width)
