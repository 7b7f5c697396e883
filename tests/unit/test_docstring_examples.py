"""The examples in docstrings of public verbs run and print what they show."""

import doctest
import importlib

import pytest


@pytest.mark.compiles
@pytest.mark.parametrize(
    "module", ["smoothcruiser.comparison", "smoothcruiser.evaluation.evaluate"]
)
def test_the_examples_print_what_they_show(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0
