"""A program imports the method that it asks for, and no other: that is its first wait."""

import copy

import pytest

from fresh_process import run_python
from smoothcruiser.methods import METHODS, Methods

PROGRAM = """
import sys
import smoothcruiser as sc

problem = sc.make("chain:n=3", discount=0.5, operator="max")
sc.plan(problem, method={method!r}, **{asked!r})
print(*(name for name in {others!r} if "smoothcruiser." + name in sys.modules))
"""
SCHEDULES = ("schedule.schedule", "schedule.compiler.optimizer", "methods.scheduled")
CHOICE = ("methods.auto", "methods.portfolio", "methods.many")
TREES = ("tree.search_rules", "tree.tree", "methods.tree_search")
CERTIFIED = ("methods.certified_search", "certified.search")
SOLVER = ("exact", "methods.exact_method")
PROMISE = {"epsilon": 0.5, "delta": 0.1}


@pytest.mark.parametrize(
    ("method", "asked", "others"),
    [
        ("uct", {"budget": 100}, (*SCHEDULES, *CHOICE, *CERTIFIED, *SOLVER)),
        ("certified", PROMISE, (*SCHEDULES, *CHOICE, *TREES)),
        ("smoothcruiser", PROMISE, (*CHOICE, *CERTIFIED, *TREES, *SOLVER)),
        ("exact", {}, (*SCHEDULES, *CHOICE, *TREES, *CERTIFIED)),
    ],
)
@pytest.mark.compiles
def test_a_method_loads_no_other(method, asked, others):
    program = PROGRAM.format(method=method, asked=asked, others=others)
    assert run_python(program).stdout.split() == []


def test_a_copy_of_the_table_is_a_table_of_its_own():
    mine = copy.copy(METHODS)
    del mine["uct"]
    assert "uct" in METHODS
    assert "uct" not in mine
    assert str(METHODS).startswith("Methods(auto, smoothcruiser, paper")


def test_to_ask_whether_there_is_a_method_imports_none():
    methods = Methods({"absent": "methods.absent:Absent"})
    assert "absent" in methods
    assert "other" not in methods
