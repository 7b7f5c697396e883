"""The price of a promise (docs/price): what the sliders show is what ``explain`` prints.

The kept grid is whole and small, asks nobody, and its numbers are those of ``explain`` and
of the command line now. Broken on purpose: another number in prices.json.
"""

import importlib.util
import json
import random
import re
from pathlib import Path

import pytest

import smoothcruiser as sc

FOLDER = Path(__file__).parents[2] / "docs" / "price"
_spec = importlib.util.spec_from_file_location("price_build", FOLDER / "build.py")
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)


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
