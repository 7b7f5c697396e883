"""Views of a tree: text, SVG and HTML that stand alone and say what they leave out."""

import re
from xml.etree import ElementTree

import pytest

import smoothcruiser as sc
from smoothcruiser.tree import view

pytestmark = pytest.mark.compiles

GAME = sc.Tree(
    sc.make("random-game:states=9,actions=3,seed=2", discount=0.7, temperature=0.2),
    method="ments",
).grow(simulations=500)


def test_text_shows_the_statistics():
    tree = sc.Tree(
        sc.make("chain:n=3", discount=0.5, operator="max"), method="bts"
    ).grow(simulations=100)
    drawn = view.text(tree, depth=1)
    root = tree.node(0)
    assert drawn.splitlines()[1] == f"state 0  value {root.value:.4g}  visits 100"
    assert f"*{tree.problem.label(0, tree.action())}  q" in next(
        line for line in drawn.splitlines() if "*" in line
    )
    for _, child in tree.children(0):
        assert f"visits {tree.node(child).visits:,}" in drawn


def test_what_is_left_out_is_counted():
    root = view.visible_branch(GAME, depth=2, width=2)
    assert len(root.children) == 2
    assert root.hidden == len(GAME.children(0)) - 2 > 0
    assert f"{root.hidden} more" in view.text(GAME, depth=2, width=2)
    counted = [child.node.visits for child in root.children]
    assert counted == sorted(counted, reverse=True)
    assert min(counted) >= max(
        GAME.node(i).visits
        for _, i in GAME.children(0)
        if GAME.node(i).visits not in counted
    )


def test_svg_is_well_formed_and_self_contained():
    picture = ElementTree.fromstring(view.svg(GAME, depth=3, width=3))
    space = "{http://www.w3.org/2000/svg}"
    groups = picture.findall(f"{space}g")
    count = 1

    def below(part):
        return 1 + sum(below(child) for child in part.children)

    assert len(groups) == below(view.visible_branch(GAME, depth=3, width=3)) > count
    assert picture.findall(f"{space}g/{space}rect")  # the min player's nodes
    text = view.html(GAME)
    assert not re.search(r"(src|href)\s*=|@import|url\(|<script|\son\w+=", text)
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]


def test_files_by_their_ending(tmp_path):
    for name in ("tree.txt", "tree.svg", "tree.html"):
        assert view.save(GAME, tmp_path / name).read_text(encoding="utf-8")
    with pytest.raises(sc.InvalidInput, match=r"\.svg"):
        view.save(GAME, tmp_path / "tree.gif")
    with pytest.raises(sc.InvalidInput, match="width"):
        view.text(GAME, width=0)


def test_nodes_do_not_overlap():
    places = view._all_positions(
        view._lay_out(view.visible_branch(GAME, depth=3, width=4), 0, [0.0])
    )
    spots = {(round(place.x), round(place.y)) for place in places}
    assert len(spots) == len(places)
