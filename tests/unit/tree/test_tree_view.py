"""Views of a tree: text, SVG and HTML that stand alone and say what they leave out; trees
that fold, and pages that follow a search while it runs.
"""

import re
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from tree_worlds import BOARD

import smoothcruiser as sc


def step(state, action, rng):
    """Three moves by turns; the sum of the digits decides."""
    after = (*state, action)
    if len(after) == 3:
        return float(sum(after) % 3 - 1), after, True
    return 0.0, after


GAME = sc.Game(
    step,
    player=lambda state: 1 + len(state) % 2,
    actions=("<a>", "b", "c"),
    **(BOARD | {"num_actions": 3, "horizon": 3, "initial_state": ()}),
)


class Nesting(HTMLParser):
    """Refuses tags that are not closed in order; counts what is open at first."""

    def __init__(self):
        super().__init__()
        self.stack, self.opened, self.deepest = [], 0, 0

    def handle_starttag(self, tag, attrs):
        if tag in ("meta", "rect", "circle", "path"):
            return
        self.stack.append(tag)
        self.opened += tag == "details" and ("open", None) in attrs
        self.deepest = max(self.deepest, self.stack.count("details"))

    def handle_endtag(self, tag):
        if tag not in ("rect", "circle", "path"):
            assert self.stack.pop() == tag


def grown(**options):
    return sc.Tree(GAME, method=sc.UCT(**options), executor="reference").grow(
        simulations=60
    )


def test_a_tree_folds_without_a_script():
    tree = grown()
    text = sc.view(tree)
    parsed = Nesting()
    parsed.feed(text)
    parsed.close()
    assert parsed.stack == []
    assert parsed.deepest == 2  # the root and its children, which have nodes below
    assert parsed.opened == 2  # the principal line
    assert not re.search(r"(src|href)\s*=|@import|url\(|<script|\son\w+=", text)
    assert "&lt;a&gt;" in text
    assert "<a>" not in text
    assert "proven" not in text
    best, most = tree.problem.label((), tree.action()), max(tree.node(0).edge_visits)
    assert f"Principal line, with visits: {escape(best)} ({most:,})" in text


def test_what_is_proven_is_marked():
    tree = grown(solve=True)
    text = sc.view(tree)
    assert tree.proven
    assert '<span class="sure">proven</span>' in text
    assert "the end</div>" in text  # moves that end the play have no node
    low, high = next(box for box in tree.node(0).boxes if box[0] < box[1])
    assert f"in [{low:.4g}, {high:.4g}]" in text
    assert f"<td>[{low:.6g}, {high:.6g}]</td>" in text


# --- trees as text and pictures ----------------------------------------------

RANDOM = sc.make(
    "random-game:states=9,actions=3,seed=2", discount=0.7, temperature=0.2
)
GROWN = sc.Tree(RANDOM, method="ments", executor="reference").grow(simulations=500)


@pytest.mark.compiles
def test_text_shows_the_statistics(tmp_path):
    tree = sc.Tree(
        sc.make("chain:n=3", discount=0.5, operator="max"), method="bts"
    ).grow(simulations=100)
    drawn = sc.view(tree, tmp_path / "tree.txt", depth=1).read_text()
    root = tree.node(0)
    assert drawn.splitlines()[1] == f"state 0  value {root.value:.4g}  visits 100"
    assert f"*{tree.problem.label(0, tree.action())}  q" in next(
        line for line in drawn.splitlines() if "*" in line
    )
    for _, child in tree.children(0):
        assert f"visits {tree.node(child).visits:,}" in drawn


@pytest.mark.compiles
def test_what_is_left_out_is_counted(tmp_path):
    """The two children with most visits are shown, in that order."""
    drawn = sc.view(GROWN, tmp_path / "tree.txt", depth=1, width=2).read_text()
    visits = sorted((GROWN.node(i).visits for _, i in GROWN.children(0)), reverse=True)
    places = [drawn.index(f"visits {count:,}") for count in visits[:2]]
    assert places == sorted(places)
    assert f"{len(visits) - 2} more" in drawn
    assert f"visits {visits[2]:,}" not in drawn


@pytest.mark.compiles
def test_svg_is_well_formed_and_self_contained(tmp_path):
    file = sc.view(GROWN, tmp_path / "tree.svg", depth=3, width=3)
    picture = ElementTree.fromstring(file.read_text())
    space = "{http://www.w3.org/2000/svg}"
    groups = picture.findall(f"{space}g")

    def below(number, depth):
        nodes = [i for _, i in GROWN.children(number)] if depth else []
        nodes.sort(key=lambda i: -GROWN.node(i).visits)
        return 1 + sum(below(child, depth - 1) for child in nodes[:3])

    assert len(groups) == below(0, 3) > 1
    assert picture.findall(f"{space}g/{space}rect")  # the min player's nodes
    text = sc.view(GROWN)
    assert not re.search(r"(src|href)\s*=|@import|url\(|<script|\son\w+=", text)
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]


@pytest.mark.compiles
def test_files_by_their_ending(tmp_path):
    for name in ("tree.txt", "tree.svg", "tree.html"):
        assert sc.view(GROWN, tmp_path / name).read_text(encoding="utf-8")
    with pytest.raises(sc.InvalidInput, match=r"\.svg"):
        sc.view(GROWN, tmp_path / "tree.gif")
    with pytest.raises(sc.InvalidInput, match="width"):
        sc.view(GROWN, width=0)
