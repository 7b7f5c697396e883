"""A search tree that folds and unfolds: nested ``<details>`` elements, no script.

A line per node: the action that led there, its value, visits and their share, what is
proven or certain of it, and its state. The principal line, the recommended actions one
after the other, is open at first. Nodes with less than ``LEAST_SHARE`` of the root's
visits are counted, not shown.
"""

from __future__ import annotations

from html import escape

from smoothcruiser.errors import printable, text_of
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.tree import Tree

DEEPEST = 12  # levels below the root
LEAST_SHARE = 1 / 400  # so that a page has a few hundred lines
OPEN = 3  # levels of the principal line that are open at first
LONGEST_LINE = 12  # moves of the principal line
LONGEST_STATE = 60  # characters
LEAST_VALUE = 1e-12  # mean returns of 1 and -1 that cancel are off by less

STYLE = """
.fold { font-size: 0.9em; line-height: 1.6 }
.fold details, .fold .leaf { margin-left: 1.3em }
.fold summary { cursor: pointer }
.fold .leaf { padding-left: 1em }
.fold .best > summary, .fold .best.leaf { font-weight: bold }
.fold .bar { display: inline-block; height: 0.6em; background: currentColor; opacity: 0.35;
 margin: 0 0.4em; vertical-align: baseline }
.fold .sure { border: 1px solid currentColor; border-radius: 0.5em; padding: 0 0.4em }
.fold .state, .fold .more { opacity: 0.65; font-weight: normal }
"""


def principal_line(tree: Tree) -> list[tuple[str, int]]:
    """Names of the recommended actions from the root on, each with its visits.

    After an action it follows the outcome that was met most often, and ends where no
    simulation went on.
    """
    found: list[tuple[str, int]] = []
    number: int | None = 0
    while number is not None and len(found) < LONGEST_LINE:
        node = tree.node(number)
        if not any(node.edge_visits):
            break
        action = tree.action(number)
        visits = dict(zip(node.actions, node.edge_visits, strict=True))[action]
        found.append((tree.problem.label(node.state, action), visits))
        after = [child for move, child in tree.children(number) if move == action]
        number = max(after, key=lambda child: tree.node(child).visits, default=None)
    return found


def folded(tree: Tree) -> str:
    """The tree as HTML that unfolds by a click."""
    root = tree.node(0)
    inner = _below(tree, root, 0, True)
    return (
        f'<div class="fold"><details open><summary>{_facts(tree, root)}</summary>'
        f"{inner}</details></div>"
    )


def _below(tree: Tree, node: Node, depth: int, principal: bool) -> str:
    """The lines of a node's children, most visited first."""
    if depth == DEEPEST:
        return ""
    least = LEAST_SHARE * tree.node(0).visits
    children = [(a, tree.node(number)) for a, number in tree.children(node.number)]
    children.sort(key=lambda pair: -pair[1].visits)
    shown = [(a, child) for a, child in children if child.visits >= least]
    if not shown and not any(node.boxes):
        return _more(len(children))
    values = dict(zip(node.actions, tree.q_values(node.number), strict=True))
    boxes = dict(zip(node.actions, node.boxes, strict=True)) if node.boxes else {}
    chosen = tree.action(node.number)
    lines = []
    for a, child in shown:
        best = a == chosen
        name = printable(tree.problem.label(node.state, a), keep="")
        head = (
            f"{escape(name if name != str(a) else f'action {a}')}: {values[a]:.4g}"
            f"{_sure(boxes.get(a))}{_bar(child.visits / max(1, node.visits))}"
            f"{_facts(tree, child)}"
        )
        inner = _below(tree, child, depth + 1, principal and best)
        mark = "best" if best else ""
        if inner:
            unfold = " open" if principal and best and depth < OPEN else ""
            lines.append(
                f'<details class="{mark}"{unfold}><summary>{head}</summary>{inner}'
                "</details>"
            )
        else:
            lines.append(f'<div class="{mark} leaf">{head}</div>')
    known = {a for a, _ in children}
    for a, box in boxes.items():  # moves that end the play have no node
        if a not in known and box[0] == box[1]:
            name = printable(tree.problem.label(node.state, a), keep="")
            mark = "best " if a == chosen else ""
            title = escape(name if name != str(a) else f"action {a}")
            lines.append(
                f'<div class="{mark}leaf">{title}: {box[0]:.4g}{_sure(box)} the end</div>'
            )
    return "".join(lines) + _more(len(children) - len(shown))


def _more(count: int) -> str:
    return f'<div class="leaf more">{count:,} more</div>' if count else ""


def _bar(share: float) -> str:
    return f'<span class="bar" style="width: {5.0 * share:.2f}em"></span>'


def _sure(box: tuple[float, float] | None) -> str:
    """What is certain of an action, where the tree solves."""
    if box is None:
        return ""
    low, high = box
    words = "proven" if low == high else f"in [{low:.4g}, {high:.4g}]"
    return f' <span class="sure">{words}</span>'


def _value(node: Node) -> float:
    """What a node is worth, within what is sure of it; what rounding left of 0 is 0."""
    value = node.value
    if node.box is not None:
        value = min(max(value, node.box[0]), node.box[1])
    return 0.0 if abs(value) < LEAST_VALUE else value


def _facts(tree: Tree, node: Node) -> str:
    turn = ""
    if tree.problem.is_game:
        turn = ", max moves" if node.player == 1 else ", min moves"
    text = printable(text_of(node.state), keep="")
    if len(text) > LONGEST_STATE:
        text = text[: LONGEST_STATE - 1] + "…"
    return (
        f"{node.visits:,} visits, value {_value(node):.4g}{turn} "
        f'<span class="state">{escape(text)}</span>'
    )
