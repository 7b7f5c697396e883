"""Every method is known to every table that speaks of methods."""

from pathlib import Path

import click
import pytest

import smoothcruiser as sc
from smoothcruiser.cli.app import app
from smoothcruiser.comparison import planners
from smoothcruiser.methods import METHODS
from smoothcruiser.methods.base import Session
from smoothcruiser.methods.tree_search import TreeSearch
from smoothcruiser.query import KEYWORDS, Query
from smoothcruiser.tree.search_rules import TREE_SEARCHES

ROOT = Path(__file__).parents[3]


def problem():
    return sc.make("chain:n=3", discount=0.2, temperature=1.0)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_documented_listed_and_keeps_a_session(name):
    method = METHODS[name]
    assert method.__doc__
    assert method.because.startswith(": ")
    assert method.takes
    assert set(method.takes) <= set(KEYWORDS)
    help_text = app.get_command(click.Context(app), "plan").get_help(
        click.Context(app)
    )
    assert name in " ".join(help_text.split())
    read = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    assert any(name in page.read_text() for page in read)
    session = method.session(Query.of(problem()))
    assert isinstance(session, Session)
    assert session.decisions == 0


def test_tree_searches_are_methods_and_planners_are_known():
    assert set(TREE_SEARCHES) == {
        name for name, method in METHODS.items() if isinstance(method, TreeSearch)
    }
    assert planners() == ("smoothcruiser", "certified", *TREE_SEARCHES)


@pytest.mark.compiles
def test_a_session_decides_as_plan_does_at_its_own_seed():
    """Law: the default session's first decision is plan with the seed of (PLANS, 0)."""
    import numpy as np

    from smoothcruiser.jit.random import Key

    first = np.random.SeedSequence(5, spawn_key=(Key.PLANS, 0)).generate_state(1)[0]
    asked = {"epsilon": 0.3, "delta": 0.1, "method": "smoothcruiser"}
    agent = sc.Agent(problem(), seed=5, **asked)
    agent.act(0)
    assert (
        agent.estimate.q_values
        == sc.plan(problem(), seed=int(first), **asked).q_values
    )
