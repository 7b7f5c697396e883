"""The examples of records and of a page run and print what they show.

Those of the public verbs are in tests/unit/test_public_names.py.
"""

import doctest
from pathlib import Path

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def test_the_examples_of_records_print_what_they_show():
    found = doctest.testmod(sc.records.data)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_examples_of_a_page_print_what_they_show():
    path = Path(__file__).parents[3] / "docs" / "results.md"
    found = doctest.testfile(str(path), module_relative=False)
    assert found.attempted > 10
    assert found.failed == 0
