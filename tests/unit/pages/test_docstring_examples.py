"""The examples in docstrings of public verbs run and print what they show."""

import doctest
import importlib
from pathlib import Path

import pytest


@pytest.mark.compiles
@pytest.mark.parametrize(
    "module",
    [
        "smoothcruiser.comparison.comparison_runs",
        "smoothcruiser.evaluation.evaluate",
        "smoothcruiser.records.data",
    ],
)
def test_the_examples_print_what_they_show(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.compiles
@pytest.mark.parametrize("page", ["results.md"])
def test_the_examples_of_a_page_print_what_they_show(page):
    path = Path(__file__).parents[3] / "docs" / page
    found = doctest.testfile(str(path), module_relative=False)
    assert found.attempted > 10
    assert found.failed == 0
