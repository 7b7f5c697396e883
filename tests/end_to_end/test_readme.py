"""Law: what the documentation shows is what happens: Python runs, commands
exist, prices are today's, links lead somewhere.
"""

from __future__ import annotations

import doctest
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import smoothcruiser

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROMISES = (ROOT / "docs/promises.md").read_text()  # the README's second page
PAGES = [
    "README.md",
    "CHANGELOG.md",
    "DEVELOPING.md",
    "docs/index.md",
    "docs/promises.md",
]


def test_the_package_docstring_is_true():
    assert doctest.testmod(smoothcruiser).failed == 0


def test_the_python_example_runs_as_printed():
    """The page fits a screen, the block is short, and keeps the interval it prints."""
    assert len(README.splitlines()) <= 66
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    # fifteen lines, three imports, the guard
    assert len([line for line in block.splitlines() if line.strip()]) <= 19
    printed: list[tuple[Any, ...]] = []
    exec(
        compile(block, "README.md", "exec"),
        {"print": lambda *words: printed.append(words), "__name__": "__main__"},
    )
    ((value, (low, high), action, num_calls),) = printed
    assert low <= value <= high <= low + 2.0 * 0.0715
    assert action == 2
    for page in (README, PROMISES):
        assert f"{num_calls:,} calls" in page, f"it takes {num_calls:,} calls now"


def test_the_python_example_as_a_module_prints_nothing_when_a_command_imports_it():
    """What a module prints at import would spoil the one object of --json; and
    planning twice would cost twice.
    """
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    printed: list[tuple[Any, ...]] = []
    module = {"print": lambda *words: printed.append(words), "__name__": "shop"}
    exec(compile(block, "shop.py", "exec"), module)
    assert printed == []
    assert isinstance(module["problem"], smoothcruiser.MDP)
    assert "estimate" not in module


def test_the_shown_run_is_the_command_of_make_run_at_its_printed_price(run):
    command = re.search(r"^\$ smoothcruiser (plan .*)$", PROMISES, re.MULTILINE)
    assert command is not None
    words = shlex.split(command.group(1))
    made = " ".join((ROOT / "Makefile").read_text().replace("\\\n", " ").split())
    assert f"smoothcruiser {' '.join(words)}" in made
    options = (
        " ".join(words[1:]).replace("--compare-exact", "").replace("--state 23", "")
    )
    price = run(f"explain {options} --json").data["num_calls"]
    assert f"at most {price:,} oracle calls" in PROMISES, (
        "make run prints another price: paste its new output"
    )


ROWS = re.findall(
    r"^\| `([a-z-]+:[^`]*)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$",
    PROMISES,
    re.MULTILINE,
)


assert len(ROWS) >= 4, "there is a price table"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_prices_are_those_that_explain_prints(run, row):
    """Ours may have become up to 20% cheaper since the table was pasted, never
    dearer; the paper's does not change.
    """
    line = f"explain {row[0]} --epsilon 5% --delta 0.1 --json"
    data = run(line).data
    rivals = {rival["name"]: rival for rival in data["rivals"]}
    sparse = rivals["sparse sampling, same sharp analysis"]
    for shown, price in ((row[1], data), (row[2], sparse)):
        calls = 10.0 ** price["log10_calls"]
        assert 0.8 * _number(shown) <= calls <= 1.005 * _number(shown), (
            f"explain now prints {calls:.3g}"
        )
    paper = rivals["SmoothCruiser, paper's constants"]
    if not paper["price_is_exact"]:
        assert row[3] == f"up to 10^{paper['log10_calls']:,.0f}"
    else:
        # three digits are printed
        assert math.log10(_number(row[3])) == pytest.approx(
            paper["log10_calls"], abs=0.003
        )


def _number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_commands_and_options_that_are_named_exist(run):
    for page in PAGES:
        text = (ROOT / page).read_text()
        for command in re.findall(r"`smoothcruiser ([a-z]+)", text):
            assert run(f"{command} --help").code == 0, f"{page} names {command}"
        targets = re.findall(
            r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE
        )
        for target in re.findall(r"`make ([a-z]+)", text):
            assert target in targets, f"{page} names make {target}"


@pytest.mark.slow
def test_the_page_on_tree_search_runs_as_printed(tmp_path, monkeypatch):
    """Every block, one after the other; a comment behind the last expression of
    the first is what it gives.
    """
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/tree-search.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {"print": lambda *words: None}
    for block in blocks:
        exec(compile(block, "tree-search.md", "exec"), scope)
    shown = re.search(r"^(estimate\.action, .*?)\s+# (.*)$", blocks[0], re.MULTILINE)
    assert shown is not None
    assert repr(eval(shown.group(1), scope)) == shown.group(2)


def test_the_commands_without_a_promise_run(run, tmp_path, monkeypatch):
    """As printed, with a hundredth of the calls."""
    monkeypatch.chdir(tmp_path)
    section = PROMISES.split("## Where no promise can be paid")[1].split("## ")[0]
    lines = [
        line.split("#")[0].strip()
        for line in section.splitlines()
        if line.startswith("smoothcruiser ")
    ]
    assert len(lines) == 3
    for line in lines:
        words = (
            line.replace("1e6", "1e4")
            .replace("1e5", "1e3")
            .replace("--simulations 200", "--simulations 20 --episodes 2 --steps 5")
        )
        result = run(words.removeprefix("smoothcruiser "))
        assert result.code == 0, result.err


def test_the_example_is_the_readmes_problem(run, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    shown = run("explain own_simulator:problem --epsilon 5% --delta 0.1 --json")
    price = shown.data["num_calls"]
    assert f"the schedule takes {price / 1e6:.1f} million" in PROMISES
    plain = run("plan own_simulator:plain --epsilon 20% --delta 0.1 --json")
    assert plain.data["action"] in (0, 1, 2)
