"""Every bound in the table is whole: all members, fields in the pairs it searches
with, and a word that the docs explain.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.bounds import BOUNDS, DEFAULT
from smoothcruiser.certified.graph import PAIR
from smoothcruiser.certified.search_memory import Memory

DOCS = Path(__file__).resolve().parents[4] / "docs" / "certified.md"
PROBLEM = sc.make("chain:n=4", discount=0.9, operator=sc.Entropy(0.3))


def test_the_default_is_in_the_table() -> None:
    assert DEFAULT in BOUNDS


@pytest.mark.parametrize("word", list(BOUNDS))
def test_a_bound_is_whole(word: str) -> None:
    """Members are there and of their kind; the key of the table is the word."""
    bound = BOUNDS[word]
    assert bound.word == word
    for name in bound._fields:
        assert getattr(bound, name) is not None
    assert list(inspect.signature(bound.side).parameters) == [
        "g",
        "pair",
        "upper",
        "tune",
        "rules",
    ]


@pytest.mark.parametrize("word", list(BOUNDS))
def test_its_fields_are_those_of_the_pairs(word: str) -> None:
    """A memory of the bound has the common fields, then the bound's own."""
    bound = BOUNDS[word]
    names = Memory(PROBLEM, bound).graph.pairs.dtype.names
    assert names == tuple(name for name, _ in (*PAIR, *bound.fields))


@pytest.mark.parametrize("word", list(BOUNDS))
def test_its_shares_are_within_delta(word: str) -> None:
    """The sum of 2 alpha over the first million pairs is below delta, and costs
    never fall.
    """
    costs = BOUNDS[word].cost(np.arange(1, 1_000_001), 0.1)
    assert (2.0 * np.exp(-costs)).sum() <= 0.1
    assert (np.diff(costs) >= 0.0).all()


@pytest.mark.parametrize("word", list(BOUNDS))
def test_its_price_never_falls_with_the_number_of_pairs(word: str) -> None:
    """What the steering relies on; and rounding leaves an ordinary epsilon alone."""
    bound, facts = BOUNDS[word], PROBLEM.facts
    prices = [bound.price(facts, 0.5, 0.1, pairs) for pairs in (1, 2, 30, 400)]
    assert prices == sorted(prices)
    assert 0.0 < bound.floor(facts) < 1e-9


@pytest.mark.parametrize("word", list(BOUNDS))
def test_the_docs_know_its_word(word: str) -> None:
    assert f"`{word}`" in DOCS.read_text()
