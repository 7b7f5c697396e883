"""A search tree that folds and unfolds: nested ``<details>`` elements, no script.

A line per node: the action that led there, its value, visits and their share, its
proven or certain bounds, and its state. The principal line, the recommended actions
one after the other, is open at first. Nodes with less than ``LEAST_SHARE`` of the
root's visits are counted, not shown.
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
    line: list[tuple[str, int]] = []
    node_number: int | None = 0
    while node_number is not None and len(line) < LONGEST_LINE:
        node = tree.node(node_number)
        if not any(node.edge_visits):
            break
        action = tree.action(node_number)
        visits = dict(zip(node.actions, node.edge_visits, strict=True))[action]
        line.append((tree.problem.label(node.state, action), visits))
        next_nodes = [
            child for move, child in tree.children(node_number) if move == action
        ]
        node_number = max(
            next_nodes, key=lambda child: tree.node(child).visits, default=None
        )
    return line


def folded_html(tree: Tree) -> str:
    """The tree as HTML that unfolds by a click."""
    root = tree.node(0)
    inner_html = _child_lines(tree, root, 0, True)
    return (
        f'<div class="fold"><details open><summary>{_node_facts(tree, root)}</summary>'
        f"{inner_html}</details></div>"
    )


def _child_lines(tree: Tree, node: Node, depth: int, principal: bool) -> str:
    """The lines of a node's children, most visited first."""
    if depth == DEEPEST:
        return ""
    min_visits = LEAST_SHARE * tree.node(0).visits
    children = [
        (a, tree.node(child_number)) for a, child_number in tree.children(node.number)
    ]
    children.sort(key=lambda pair: -pair[1].visits)
    visible_children = [
        (a, child) for a, child in children if child.visits >= min_visits
    ]
    if not visible_children and not any(node.boxes):
        return _hidden_line(len(children))
    action_values = dict(zip(node.actions, tree.q_values(node.number), strict=True))
    boxes = dict(zip(node.actions, node.boxes, strict=True)) if node.boxes else {}
    best_move = tree.action(node.number)
    lines = []
    for a, child in visible_children:
        is_best = a == best_move
        action_name = printable(tree.problem.label(node.state, a), keep="")
        head_html = (
            f"{escape(action_name if action_name != str(a) else f'action {a}')}: "
            f"{action_values[a]:.4g}{_box_html(boxes.get(a))}"
            f"{_share_bar(child.visits / max(1, node.visits))}"
            f"{_node_facts(tree, child)}"
        )
        inner_html = _child_lines(tree, child, depth + 1, principal and is_best)
        css_class = "best" if is_best else ""
        if inner_html:
            open_attribute = " open" if principal and is_best and depth < OPEN else ""
            lines.append(
                f'<details class="{css_class}"{open_attribute}><summary>{head_html}'
                f"</summary>{inner_html}</details>"
            )
        else:
            lines.append(f'<div class="{css_class} leaf">{head_html}</div>')
    moves_with_nodes = {a for a, _ in children}
    for a, box in boxes.items():  # moves that end the play have no node
        if a not in moves_with_nodes and box[0] == box[1]:
            action_name = printable(tree.problem.label(node.state, a), keep="")
            css_class = "best " if a == best_move else ""
            action_title = escape(
                action_name if action_name != str(a) else f"action {a}"
            )
            lines.append(
                f'<div class="{css_class}leaf">{action_title}: {box[0]:.4g}'
                f"{_box_html(box)} the end</div>"
            )
    return "".join(lines) + _hidden_line(len(children) - len(visible_children))


def _hidden_line(count: int) -> str:
    return f'<div class="leaf more">{count:,} more</div>' if count else ""


def _share_bar(share: float) -> str:
    return f'<span class="bar" style="width: {5.0 * share:.2f}em"></span>'


def _box_html(box: tuple[float, float] | None) -> str:
    """The certain bounds of an action, where the tree solves."""
    if box is None:
        return ""
    low, high = box
    words = "proven" if low == high else f"in [{low:.4g}, {high:.4g}]"
    return f' <span class="sure">{words}</span>'


def _node_value(node: Node) -> float:
    """The value of a node, put inside its box; a rounding error around 0 becomes 0."""
    value = node.value
    if node.box is not None:
        value = min(max(value, node.box[0]), node.box[1])
    return 0.0 if abs(value) < LEAST_VALUE else value


def _node_facts(tree: Tree, node: Node) -> str:
    turn_text = ""
    if tree.problem.is_game:
        turn_text = ", max moves" if node.player == 1 else ", min moves"
    state_text = printable(text_of(node.state), keep="")
    if len(state_text) > LONGEST_STATE:
        state_text = state_text[: LONGEST_STATE - 1] + "…"
    return (
        f"{node.visits:,} visits, value {_node_value(node):.4g}{turn_text} "
        f'<span class="state">{escape(state_text)}</span>'
    )
