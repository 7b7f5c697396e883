"""Views of a tree: indented text for a terminal, or one SVG image or HTML page.

They are self-contained, with nothing to install or to fetch.

The most visited parts are shown: at most ``width`` children of a node and
``depth`` levels. What is left out is counted, not hidden. Nodes are placed by a
tidy layout in one pass (leaves side by side, parents over the middle of their
children). An edge is as thick as its share of the parent's visits. A node's
colour is the place of its value between the smallest and the largest shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from smoothcruiser.errors import InvalidInput, printable, text_of
from smoothcruiser.tree import folding
from smoothcruiser.tree.node import Node
from smoothcruiser.tree.tree import Tree

# pixels between leaves and between levels: what a label of 18 characters needs
COLUMN, ROW, MARGIN = 116, 112, 46
LABEL = 18
# An edge ends above the two lines of text over its node, so that it crosses neither: the
# action with its value, and the state.
ABOVE, LINE = 47, 12


@dataclass(frozen=True)
class Ink:
    """What a picture is drawn with."""

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
    label: str  # what it is called where it was taken, "" at the root
    share: float  # of the parent's visits
    q_value: float | None  # of the action that led here
    best: bool  # whether it is the parent's recommended action
    children: tuple[Branch, ...]
    hidden: int  # children that are not shown


def shown(tree: Tree, *, depth: int = 3, width: int = 4) -> Branch:
    """The part of the tree that views show."""
    check_sizes(depth, width)
    return _shown(tree, (0, None, ""), 1.0, None, True, depth, width)


def check_sizes(depth: int, width: int) -> None:
    """Refuse a view without levels or children."""
    for name, value in (("depth", depth), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(
                f"{name} must be a whole number of at least 1, got {value!r}."
            )


def _shown(
    tree: Tree,
    place: tuple[int, int | None, str],
    share: float,
    q: float | None,
    best: bool,
    depth: int,
    width: int,
) -> Branch:
    """The part below a place: a node's number, the action that led there, its name."""
    number, action, name = place
    node = tree.node(number)
    found = tree.children(number)
    if depth == 0:
        return Branch(node, action, name, share, q, best, (), len(found))
    label = tree.problem.label
    values = dict(zip(node.actions, tree.q_values(number), strict=True))
    visits = {child: tree.node(child).visits for _, child in found}
    first = sorted(found, key=lambda pair: (-visits[pair[1]], pair[1]))[:width]
    chosen = tree.action(number)
    children = tuple(
        _shown(
            tree,
            (child, a, label(node.state, a)),
            visits[child] / max(1, node.visits),
            values[a],
            a == chosen,
            depth - 1,
            width,
        )
        for a, child in first
    )
    return Branch(node, action, name, share, q, best, children, len(found) - len(first))


def _escaped(text: str) -> str:
    """Text for HTML and SVG: neither a browser nor a terminal obeys any of it."""
    return escape(printable(text))


def _state(state: Any) -> str:
    return _cut(text_of(tuple(state) if hasattr(state, "_fields") else state))


def _cut(text: str, longest: int = LABEL) -> str:
    """Text on one line, as long as there is room for."""
    text = printable(text, keep="")
    return text if len(text) <= longest else text[: longest - 1] + "…"


# --- text ---------------------------------------------------------------------


def text(tree: Tree, *, depth: int = 3, width: int = 4) -> str:
    """The tree as lines of text: action, value and visits of each edge.

    The recommended action has a star. What is below the last level shown is counted in
    its line, what stands beside the children shown in a line of its own.
    """
    root = shown(tree, depth=depth, width=width)
    lines = [
        (
            f"{tree.method} on {printable(tree.problem.name, keep='')}: "
            f"{tree.simulations:,} simulations, {tree.num_nodes:,} nodes"
        ),
        (
            f"state {_state(root.node.state)}  value {root.node.value:.4g}  visits "
            f"{root.node.visits:,}{_turn(tree, root)}"
        ),
    ]
    _lines(tree, root, "", lines)
    return "\n".join(lines)


def _turn(tree: Tree, part: Branch) -> str:
    if not tree.problem.is_game:
        return ""
    return "  max moves" if part.node.player == 1 else "  min moves"


def _action(part: Branch) -> str:
    """The name of the action that led to a node, or "action" and its number."""
    if part.label == str(part.action):
        return f"action {part.action}"
    return _cut(part.label)


def _lines(tree: Tree, part: Branch, indent: str, lines: list[str]) -> None:
    rows = len(part.children) + (1 if part.hidden and part.children else 0)
    for i, child in enumerate(part.children):
        last = i == rows - 1
        star = "*" if child.best else " "
        below = (
            "" if child.children or not child.hidden else f"  +{child.hidden:,} below"
        )
        lines.append(
            f"{indent}{'└' if last else '├'}─{star}{_action(child)}  q "
            f"{child.q_value:.4g}  visits {child.node.visits:,} → value "
            f"{child.node.value:.4g}{_turn(tree, child)}{below}  "
            f"state {_state(child.node.state)}"  # last, where a line may be cut
        )
        _lines(tree, child, indent + ("   " if last else "│  "), lines)
    if part.hidden and part.children:
        lines.append(f"{indent}└─ {part.hidden:,} more")


# --- pictures -----------------------------------------------------------------


@dataclass
class _Place:
    part: Branch
    x: float
    y: float
    children: list[_Place]


def _placed(part: Branch, level: int, free: list[float]) -> _Place:
    """A part with its positions; ``free`` holds the next free column of leaves."""
    children = [_placed(child, level + 1, free) for child in part.children]
    if children:
        x = (children[0].x + children[-1].x) / 2.0
    else:
        x = free[0]
        free[0] += COLUMN
    return _Place(part, x, MARGIN + level * ROW, children)


def _all(place: _Place) -> list[_Place]:
    return [place, *(inner for child in place.children for inner in _all(child))]


def _colour(value: float, low: float, high: float) -> str:
    """A colour from blue (low) over white to green (high)."""
    share = 0.5 if high <= low else (value - low) / (high - low)
    cold, warm = (158, 188, 218), (150, 208, 150)
    side, strength = (
        (warm, 2.0 * share - 1.0) if share >= 0.5 else (cold, 1.0 - 2.0 * share)
    )
    return "#" + "".join(f"{round(255 + (part - 255) * strength):02x}" for part in side)


def svg(tree: Tree, *, depth: int = 2, width: int = 4, ink: Ink = ON_WHITE) -> str:
    """The tree as one SVG image; the full numbers of a node are in its tooltip."""
    free = [float(MARGIN + COLUMN / 2)]
    root = _placed(shown(tree, depth=depth, width=width), 0, free)
    places = _all(root)
    values = [place.part.node.value for place in places]
    low, high = min(values), max(values)
    right, bottom = (
        free[0] - COLUMN / 2 + MARGIN,
        max(place.y for place in places) + MARGIN + 14,
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:.0f} '
        f'{bottom:.0f}" width="{right:.0f}" height="{bottom:.0f}" '
        'font-family="sans-serif" font-size="11" role="img">',
        f"<title>{_escaped(str(tree.method))} on {_escaped(tree.problem.name)}</title>",
        ink.background,
    ]
    for place in places:
        for child in place.children:
            part = child.part
            colour = "#2a7d2a" if part.best else "#9a9a9a"
            x, y, z, t = place.x, place.y, child.x, child.y - ABOVE
            middle = (y + t) / 2.0
            parts.append(
                f'<path d="M {x:.1f} {y:.1f} C {x:.1f} {middle:.1f}, {z:.1f} '
                f'{middle:.1f}, {z:.1f} {t:.1f}" '
                f'fill="none" stroke="{colour}" '
                f'stroke-width="{0.8 + 7.0 * part.share:.2f}" stroke-opacity="0.7"/>'
            )
            value = f": {part.q_value:.3g}"
            parts.append(
                f'<text x="{z:.1f}" y="{t + LINE:.1f}" text-anchor="middle" {ink.text}>'
                f"{escape(_cut(part.label, LABEL - len(value)))}{value}</text>"
            )
    parts += [_circle(place, low, high, ink) for place in places]
    return "\n".join([*parts, "</svg>"])


def _circle(place: _Place, low: float, high: float, ink: Ink) -> str:
    node, part = place.part.node, place.part
    edges = "; ".join(
        f"action {a}: {n:,} visits"
        for a, n in zip(node.actions, node.edge_visits, strict=True)
    )
    tip = (
        f"state {text_of(node.state)}, player {node.player}, value {node.value:.6g}, "
        f"visits {node.visits:,}. {edges}"
    )
    hidden = (
        f'<text x="{place.x + 21:.1f}" y="{place.y + 4:.1f}" {ink.text}>'
        f"+{part.hidden:,}</text>"
    )
    shape = (
        f'<circle cx="{place.x:.1f}" cy="{place.y:.1f}" r="17"'
        if node.player == 1
        else (
            f'<rect x="{place.x - 16:.1f}" y="{place.y - 16:.1f}" width="32" '
            'height="32"'
        )
    )
    return (
        f"<g><title>{_escaped(tip)}</title>{shape} "
        f'fill="{_colour(node.value, low, high)}" stroke="#555555"/>'
        f'<text x="{place.x:.1f}" y="{place.y + 4:.1f}" '
        f'text-anchor="middle" fill="#111111">{_inside(node.value)}</text>'
        f'<text x="{place.x:.1f}" y="{place.y - 21:.1f}" text-anchor="middle" '
        f"{ink.text}>{_escaped(_state(node.state))}</text>"
        f"{hidden if part.hidden else ''}</g>"
    )


def _inside(value: float) -> str:
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
    + folding.STYLE
)


def frame(title: str, inner: str, *, head: str = "") -> str:
    """A page without scripts and requests, light or dark as the reader's system is."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">{head}
<meta name="viewport" content="width=device-width">
<title>{_escaped(title)}</title>
<style>:root {{ color-scheme: light dark }} body {{ margin: 2em }}{STYLE}</style></head>
<body class="page"><h1>{_escaped(title)}</h1>{inner}</body></html>
"""


def body(tree: Tree, *, depth: int = 2, width: int = 4) -> str:
    """The root's numbers, the principal line, the picture, and the tree to unfold."""
    estimate = tree.estimate()
    root = tree.node(0)
    sure = "<th>for sure</th>" if root.boxes else ""
    rows = ""
    for j, (a, q) in enumerate(zip(root.actions, tree.q_values(0), strict=True)):
        box = f"<td>{_box(root.boxes[j])}</td>" if root.boxes else ""
        star = " *" if a == estimate.action else ""
        rows += (
            f"<tr><td>{_escaped(estimate.label(a))}{star}</td><td>{q:.6g}</td>{box}"
            f"<td>{root.edge_visits[j]:,}</td><td>{estimate.policy[a]:.4f}</td></tr>"
        )
    notes = "".join(f"<p>{_escaped(note)}</p>" for note in estimate.notes)
    line = " → ".join(
        f"{_escaped(move)} ({visits:,})"
        for move, visits in folding.principal_line(tree)
    )
    return f"""{notes}
<table><tr><th>action</th><th>q</th>{sure}<th>visits</th><th>policy</th></tr>{rows}</table>
<p>Principal line, with visits: {line}</p>
<div class="tree">{svg(tree, depth=depth, width=width, ink=AROUND)}</div>
<p>Circles: max moves; squares: min moves. Green edges are recommended; thickness is the
share of visits; +n children are not shown. Hover over a node for its numbers.</p>
{folding.folded(tree)}"""


def _box(box: tuple[float, float]) -> str:
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
    made = {".txt": text, ".svg": svg, ".html": html}
    target = Path(path)
    if target.suffix not in made:
        raise InvalidInput(
            f"A tree is saved as {', '.join(made)}; got {target.name!r}."
        )
    try:
        target.write_text(
            made[target.suffix](tree, depth=depth, width=width), encoding="utf-8"
        )
    except OSError as error:
        raise InvalidInput(
            f"The tree could not be written to {target}: {error.strerror}."
        ) from error
    return target
