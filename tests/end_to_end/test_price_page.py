"""The price of a promise (docs/price): what the sliders show is what ``explain`` prints.

Without a browser: the kept grid is whole, small, and its numbers are those of ``explain`` and
of the command line now. In Chromium (slow): every position of the sliders, by the keyboard
too; no request to anywhere; nothing wider than a phone. Broken on purpose: another
number in prices.json, a slider that reads its neighbour's entry.
"""

import importlib.util
import json
import random
import re
from pathlib import Path

import pytest
from chromium import Tab, executable

import smoothcruiser as sc

FOLDER = Path(__file__).parents[2] / "docs" / "price"
_spec = importlib.util.spec_from_file_location("price_build", FOLDER / "build.py")
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)

BROWSER = pytest.mark.skipif(
    executable() is None,
    reason="Chromium is not installed here; the page's numbers are compared without it.",
)


@pytest.fixture(scope="module")
def entries():
    return json.loads(build.DATA.read_text())


def test_the_grid_is_whole_and_small(entries):
    assert list(entries) == [point.key for point in build.points()]
    page = build.page(entries)
    assert len(page.encode()) < 300_000
    assert not re.search(r"https?://|src=|@import|url\(", page)


@pytest.mark.parametrize("seed", range(2))
def test_kept_numbers_are_those_of_explain(entries, seed):
    quick = [p for p in build.points() if p.discount <= build.QUICK]
    point = random.Random(seed).choice(quick)
    facts = {"discount": point.discount, "temperature": point.temperature}
    problem = sc.make(f"garnet:actions={point.actions}", **facts)
    found = sc.explain(problem, epsilon=point.epsilon, delta=point.delta)
    kept = entries[point.key]
    assert kept["payable"] == (found.num_calls <= 10**9)
    said = " ".join(str(found).split())
    for name in ("promise", "price", "root"):
        assert " ".join(kept[name].split()) in said, name
    assert all(line in str(found) for line in kept["plan"])
    assert kept["calls"] in kept["price"]
    assert kept["expected"] in kept["price"]
    assert build.differing(entries, [point]) == []


def _choose(tab, point):
    for name, value in point._asdict().items():
        index = build.AXES[name].index(value)
        event = f"$('{name}').dispatchEvent(new Event('input'))"
        tab.run(f"$('{name}').value = {index}; {event}; 0")


def _shown(tab):
    names = [
        "calls",
        "expected",
        "promise",
        "price",
        "time",
        "root",
        "plan",
        "command",
    ]
    texts = f"{json.dumps(names)}.map((id) => [id, $(id).textContent])"
    return json.loads(tab.run(f"JSON.stringify(Object.fromEntries({texts}))"))


def _built(entries, folder):
    path = folder / "price.html"
    path.write_text(build.page(entries))
    return path.as_uri()


@BROWSER
@pytest.mark.slow
def test_every_position_shows_its_own_entry_and_asks_nobody(entries, tmp_path):
    url = _built(entries, tmp_path)
    with Tab(url) as tab:
        for point in build.points():
            _choose(tab, point)
            shown, kept = _shown(tab), entries[point.key]
            assert shown["command"] == point.command
            assert shown["plan"] == "\n".join(kept["plan"])
            for name in ("calls", "expected", "promise", "price", "time", "root"):
                assert shown[name] == kept[name], (point, name)
            method = tab.run("$('method').dataset.method")
            assert method == ("smoothcruiser" if kept["payable"] else "tree")
            rows = tab.run("[...$('rivals').rows].map((r) => r.cells[1].textContent)")
            assert rows == [kept["calls"], *(row[1] for row in kept["rivals"])]
        assert tab.requests == [url]
        assert tab.errors == []


@BROWSER
@pytest.mark.slow
def test_arrow_keys_move_the_sliders_to_what_explain_prints(entries, tmp_path):
    with Tab(_built(entries, tmp_path), width=390, height=844) as tab:
        at = dict(build.START)
        for name, key in (
            ("discount", "ArrowLeft"),
            ("temperature", "ArrowRight"),
            ("actions", "ArrowLeft"),
            ("epsilon", "ArrowRight"),
            ("delta", "ArrowRight"),
        ):
            tab.run(f"$('{name}').focus()")
            tab.press(key)
            step = 1 if key == "ArrowRight" else -1
            at[name] = build.AXES[name][build.AXES[name].index(at[name]) + step]
            point = build.Point(**at)
            shown = _shown(tab)
            assert shown["command"] == point.command
            assert shown["price"] == build.describe_price(point.explained())


@BROWSER
@pytest.mark.slow
def test_what_can_be_paid_can_be_clicked_and_what_you_have_decides(entries, tmp_path):
    point = next(p for p in build.points() if not entries[p.key]["payable"])
    with Tab(_built(entries, tmp_path)) as tab:
        _choose(tab, point)
        assert tab.run("document.querySelectorAll('#payable button').length") > 0
        tab.run("document.querySelector('#payable button').click()")
        assert tab.run("$('method').dataset.method") == "smoothcruiser"
        for have, method in (("back", "certified"), ("model", "exact")):
            tab.run(f"document.querySelector('[value={have}]').click()")
            assert tab.run("$('method').dataset.method") == method
