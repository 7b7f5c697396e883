"""The page for a referee (docs/statements.md) names tests that exist.

Laws: every test that it names is defined where it says; statements are numbered without
gaps; every statement names a test, or says that there is none.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/statements.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
ROWS = re.findall(r"^\| (\d+) \| (.*)$", PAGE, re.MULTILINE)


@cache
def defined(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_every_named_test_exists(path):
    assert {name for where, name in NAMED if where == path} <= defined(path)


def test_statements_are_numbered_and_each_has_a_test_or_says_why_not():
    assert [int(number) for number, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 30
    for number, row in ROWS:
        assert "`tests/" in row or "no test" in row, number
