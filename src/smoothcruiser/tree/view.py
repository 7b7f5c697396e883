"""Views of a tree: indented text for a terminal, or one SVG image or HTML page.

They are self-contained, with nothing to install or to fetch.

The most visited parts are shown: at most ``width`` children of a node and
``depth`` levels. Nodes left out are counted, not hidden. Nodes are placed by a
tidy layout in one pass (leaves side by side, parents over the middle of their
children). An edge is as thick as its share of the parent's visits. A node's
colour is the place of its value between the smallest and the largest shown.

A search tree that folds and unfolds: nested ``<details>`` elements, no script.

A line per node: the action that led there, its value, visits and their share, its
proven or certain bounds, and its state. The principal line, the recommended actions
one after the other, is open at first. Nodes with less than ``LEAST_SHARE`` of the
root's visits are counted, not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from smoothcruiser.errors import InvalidInput, printable, text_of
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.tree import Tree

DEEPEST = 12  # levels below the root
LEAST_SHARE = 1 / 400  # so that a page has a few hundred lines
OPEN = 3  # levels of the principal line that are open at first
LONGEST_LINE = 12  # moves of the principal line
LONGEST_STATE = 60  # characters
LEAST_VALUE = 1e-12  # mean returns of 1 and -1 that cancel are off by less

FOLD_STYLE = """
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
    if tree.problem.sole_player is None:
        turn_text = ", max moves" if node.player == 1 else ", min moves"
    state_text = printable(text_of(node.state), keep="")
    if len(state_text) > LONGEST_STATE:
        state_text = state_text[: LONGEST_STATE - 1] + "…"
    return (
        f"{node.visits:,} visits, value {_node_value(node):.4g}{turn_text} "
        f'<span class="state">{escape(state_text)}</span>'
    )


# pixels between leaves and between levels: room for a label of 18 characters
COLUMN, ROW, MARGIN = 116, 112, 46
LABEL = 18
# An edge ends above the two lines of text over its node, so that it crosses neither: the
# action with its value, and the state.
ABOVE, LINE = 47, 12


@dataclass(frozen=True)
class Ink:
    """The background and the text style of a picture."""

    background: str  # an element behind everything
    text: str  # attributes of labels; an outline keeps them readable on an edge


ON_WHITE = Ink(
    '<rect width="100%" height="100%" fill="#ffffff"/>',
    'fill="#555555" stroke="#ffffff" stroke-width="3" paint-order="stroke"',
)
# inside a page that is light or dark: the colour of the text around
AROUND = Ink("", 'fill="currentColor" fill-opacity="0.8"')


@dataclass(frozen=True)
class Branch:
    """A node with the children that are shown."""

    node: Node
    action: int | None  # the action that led here
    label: str  # the name of that action, "" at the root
    share: float  # of the parent's visits
    q_value: float | None  # of the action that led here
    best: bool  # whether it is the parent's recommended action
    children: tuple[Branch, ...]
    hidden: int  # children that are not shown


def visible_branch(tree: Tree, *, depth: int = 3, width: int = 4) -> Branch:
    """The part of the tree that views show, as nested branches."""
    check_sizes(depth, width)
    return _branch_at(tree, (0, None, ""), 1.0, None, True, depth, width)


def check_sizes(depth: int, width: int) -> None:
    """Refuse a view without levels or children."""
    for name, value in (("depth", depth), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(
                f"{name} must be a whole number of at least 1, got {value!r}."
            )


def _branch_at(
    tree: Tree,
    position: tuple[int, int | None, str],
    share: float,
    q: float | None,
    best: bool,
    depth: int,
    width: int,
) -> Branch:
    """The branch at a position: a node's number, the action before it, its name."""
    number, action, action_name = position
    node = tree.node(number)
    child_pairs = tree.children(number)
    if depth == 0:
        return Branch(node, action, action_name, share, q, best, (), len(child_pairs))
    label = tree.problem.label
    action_values = dict(zip(node.actions, tree.q_values(number), strict=True))
    child_visits = {child: tree.node(child).visits for _, child in child_pairs}
    visible_pairs = sorted(
        child_pairs, key=lambda pair: (-child_visits[pair[1]], pair[1])
    )[:width]
    best_move = tree.action(number)
    children = tuple(
        _branch_at(
            tree,
            (child, a, label(node.state, a)),
            child_visits[child] / max(1, node.visits),
            action_values[a],
            a == best_move,
            depth - 1,
            width,
        )
        for a, child in visible_pairs
    )
    return Branch(
        node,
        action,
        action_name,
        share,
        q,
        best,
        children,
        len(child_pairs) - len(visible_pairs),
    )


def _escape_text(text: str) -> str:
    """Text for HTML and SVG: neither a browser nor a terminal obeys any of it."""
    return escape(printable(text))


def _state_text(state: Any) -> str:
    return _shorten(text_of(tuple(state) if hasattr(state, "_fields") else state))


def _shorten(text: str, longest: int = LABEL) -> str:
    """Text on one line, as long as there is room for."""
    text = printable(text, keep="")
    return text if len(text) <= longest else text[: longest - 1] + "…"


# --- text ---------------------------------------------------------------------


def text(tree: Tree, *, depth: int = 3, width: int = 4) -> str:
    """The tree as lines of text: action, value and visits of each edge.

    The recommended action has a star. Nodes below the last level shown are counted in
    its line, nodes beside the children shown in a line of their own.
    """
    root = visible_branch(tree, depth=depth, width=width)
    lines = [
        (
            f"{tree.method} on {printable(tree.problem.name, keep='')}: "
            f"{tree.simulations:,} simulations, {tree.num_nodes:,} nodes"
        ),
        (
            f"state {_state_text(root.node.state)}  value {root.node.value:.4g}  "
            f"visits {root.node.visits:,}{_turn_text(tree, root)}"
        ),
    ]
    _add_lines(tree, root, "", lines)
    return "\n".join(lines)


def _turn_text(tree: Tree, branch: Branch) -> str:
    if tree.problem.sole_player is not None:
        return ""
    return "  max moves" if branch.node.player == 1 else "  min moves"


def _action_text(branch: Branch) -> str:
    """The name of the action that led to a node, or "action" and its number."""
    if branch.label == str(branch.action):
        return f"action {branch.action}"
    return _shorten(branch.label)


def _add_lines(tree: Tree, branch: Branch, indent: str, lines: list[str]) -> None:
    num_rows = len(branch.children) + (1 if branch.hidden and branch.children else 0)
    for i, child in enumerate(branch.children):
        is_last = i == num_rows - 1
        star = "*" if child.best else " "
        below_text = (
            "" if child.children or not child.hidden else f"  +{child.hidden:,} below"
        )
        lines.append(
            f"{indent}{'└' if is_last else '├'}─{star}{_action_text(child)}  q "
            f"{child.q_value:.4g}  visits {child.node.visits:,} → value "
            f"{child.node.value:.4g}{_turn_text(tree, child)}{below_text}  "
            f"state {_state_text(child.node.state)}"  # last, where a line may be cut
        )
        _add_lines(tree, child, indent + ("   " if is_last else "│  "), lines)
    if branch.hidden and branch.children:
        lines.append(f"{indent}└─ {branch.hidden:,} more")


# --- pictures -----------------------------------------------------------------


@dataclass
class _Position:
    part: Branch
    x: float
    y: float
    children: list[_Position]


def _lay_out(branch: Branch, level: int, free: list[float]) -> _Position:
    """A branch with its positions; ``free`` holds the next free column of leaves."""
    children = [_lay_out(child, level + 1, free) for child in branch.children]
    if children:
        x = (children[0].x + children[-1].x) / 2.0
    else:
        x = free[0]
        free[0] += COLUMN
    return _Position(branch, x, MARGIN + level * ROW, children)


def _all_positions(position: _Position) -> list[_Position]:
    return [
        position,
        *(
            inner_position
            for child in position.children
            for inner_position in _all_positions(child)
        ),
    ]


def _colour(value: float, low: float, high: float) -> str:
    """A colour from blue (low) over white to green (high)."""
    share = 0.5 if high <= low else (value - low) / (high - low)
    cold_colour, warm_colour = (158, 188, 218), (150, 208, 150)
    side_colour, strength = (
        (warm_colour, 2.0 * share - 1.0)
        if share >= 0.5
        else (cold_colour, 1.0 - 2.0 * share)
    )
    return "#" + "".join(
        f"{round(255 + (channel - 255) * strength):02x}" for channel in side_colour
    )


def svg(tree: Tree, *, depth: int = 2, width: int = 4, ink: Ink = ON_WHITE) -> str:
    """The tree as one SVG image; the full numbers of a node are in its tooltip."""
    free_column = [float(MARGIN + COLUMN / 2)]
    root_position = _lay_out(
        visible_branch(tree, depth=depth, width=width), 0, free_column
    )
    positions = _all_positions(root_position)
    node_values = [position.part.node.value for position in positions]
    lowest_value, highest_value = min(node_values), max(node_values)
    image_width, image_height = (
        free_column[0] - COLUMN / 2 + MARGIN,
        max(position.y for position in positions) + MARGIN + 14,
    )
    svg_parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {image_width:.0f} '
        f'{image_height:.0f}" width="{image_width:.0f}" height="{image_height:.0f}" '
        'font-family="sans-serif" font-size="11" role="img">',
        f"<title>{_escape_text(str(tree.method))} on "
        f"{_escape_text(tree.problem.name)}</title>",
        ink.background,
    ]
    for position in positions:
        for child in position.children:
            branch = child.part
            colour = "#2a7d2a" if branch.best else "#9a9a9a"
            x, y, z, t = position.x, position.y, child.x, child.y - ABOVE
            middle = (y + t) / 2.0
            svg_parts.append(
                f'<path d="M {x:.1f} {y:.1f} C {x:.1f} {middle:.1f}, {z:.1f} '
                f'{middle:.1f}, {z:.1f} {t:.1f}" '
                f'fill="none" stroke="{colour}" '
                f'stroke-width="{0.8 + 7.0 * branch.share:.2f}" stroke-opacity="0.7"/>'
            )
            value_text = f": {branch.q_value:.3g}"
            svg_parts.append(
                f'<text x="{z:.1f}" y="{t + LINE:.1f}" text-anchor="middle" {ink.text}>'
                f"{escape(_shorten(branch.label, LABEL - len(value_text)))}"
                f"{value_text}</text>"
            )
    svg_parts += [
        _circle(position, lowest_value, highest_value, ink) for position in positions
    ]
    return "\n".join([*svg_parts, "</svg>"])


def _circle(position: _Position, low: float, high: float, ink: Ink) -> str:
    node, branch = position.part.node, position.part
    edges_text = "; ".join(
        f"action {a}: {n:,} visits"
        for a, n in zip(node.actions, node.edge_visits, strict=True)
    )
    tip_text = (
        f"state {text_of(node.state)}, player {node.player}, value {node.value:.6g}, "
        f"visits {node.visits:,}. {edges_text}"
    )
    hidden_svg = (
        f'<text x="{position.x + 21:.1f}" y="{position.y + 4:.1f}" {ink.text}>'
        f"+{branch.hidden:,}</text>"
    )
    shape_svg = (
        f'<circle cx="{position.x:.1f}" cy="{position.y:.1f}" r="17"'
        if node.player == 1
        else (
            f'<rect x="{position.x - 16:.1f}" y="{position.y - 16:.1f}" width="32" '
            'height="32"'
        )
    )
    return (
        f"<g><title>{_escape_text(tip_text)}</title>{shape_svg} "
        f'fill="{_colour(node.value, low, high)}" stroke="#555555"/>'
        f'<text x="{position.x:.1f}" y="{position.y + 4:.1f}" '
        f'text-anchor="middle" fill="#111111">{_node_text(node.value)}</text>'
        f'<text x="{position.x:.1f}" y="{position.y - 21:.1f}" text-anchor="middle" '
        f"{ink.text}>{_escape_text(_state_text(node.state))}</text>"
        f"{hidden_svg if branch.hidden else ''}</g>"
    )


def _node_text(value: float) -> str:
    """A value that fits into its node; the tooltip has more of it."""
    text = f"{value:.3g}"
    return text if len(text) <= 6 else f"{value:.2g}"


STYLE = (
    """
.page { font-family: sans-serif }
.page table { border-collapse: collapse }
.page td, .page th { padding: 0.2em 0.9em; text-align: right;
 border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent) }
.tree { overflow-x: auto }
figure { margin: 1em 0 }
"""
    + FOLD_STYLE
)


def frame(title: str, inner: str) -> str:
    """A page without scripts and requests, light or dark as the reader's system is."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width">
<title>{_escape_text(title)}</title>
<style>:root {{ color-scheme: light dark }} body {{ margin: 2em }}{STYLE}</style></head>
<body class="page"><h1>{_escape_text(title)}</h1>{inner}</body></html>
"""


def body(tree: Tree, *, depth: int = 2, width: int = 4) -> str:
    """The root's numbers, the principal line, the picture, and the tree to unfold."""
    estimate = tree.estimate()
    root = tree.node(0)
    sure_heading = "<th>for sure</th>" if root.boxes else ""
    heading_row = (
        f"<tr><th>action</th><th>q</th>{sure_heading}<th>visits</th>"
        "<th>policy</th></tr>"
    )
    table_rows = ""
    for j, (a, q) in enumerate(zip(root.actions, tree.q_values(0), strict=True)):
        box_cell = f"<td>{_box_text(root.boxes[j])}</td>" if root.boxes else ""
        star = " *" if a == estimate.action else ""
        table_rows += (
            f"<tr><td>{_escape_text(estimate.label(a))}{star}</td><td>{q:.6g}</td>"
            f"{box_cell}"
            f"<td>{root.edge_visits[j]:,}</td><td>{estimate.policy[a]:.4f}</td></tr>"
        )
    notes_html = "".join(f"<p>{_escape_text(note)}</p>" for note in estimate.notes)
    line_html = " → ".join(
        f"{_escape_text(move)} ({visits:,})" for move, visits in principal_line(tree)
    )
    return f"""{notes_html}
<table>{heading_row}{table_rows}</table>
<p>Principal line, with visits: {line_html}</p>
<div class="tree">{svg(tree, depth=depth, width=width, ink=AROUND)}</div>
<p>Circles: max moves; squares: min moves. Green edges are recommended; thickness is the
share of visits; +n children are not shown. Hover over a node for its numbers.</p>
{folded_html(tree)}"""


def _box_text(box: tuple[float, float]) -> str:
    low, high = box
    return f"{low:.6g}, proven" if low == high else f"[{low:.6g}, {high:.6g}]"


def html(tree: Tree, *, depth: int = 2, width: int = 4) -> str:
    """A self-contained page with the picture, the root's numbers and the whole tree.

    The tree unfolds by a click on a line.
    """
    title = f"{tree.method} on {tree.problem.name}"
    return frame(title, body(tree, depth=depth, width=width))


def save(tree: Tree, path: str | Path, *, depth: int = 2, width: int = 4) -> Path:
    """The path of the file written; its ending is .txt, .svg or .html."""
    writers = {".txt": text, ".svg": svg, ".html": html}
    target_path = Path(path)
    if target_path.suffix not in writers:
        raise InvalidInput(
            f"A tree is saved as {', '.join(writers)}; got {target_path.name!r}."
        )
    try:
        target_path.write_text(
            writers[target_path.suffix](tree, depth=depth, width=width),
            encoding="utf-8",
        )
    except OSError as error:
        raise InvalidInput(
            f"The tree could not be written to {target_path}: {error.strerror}."
        ) from error
    return target_path
