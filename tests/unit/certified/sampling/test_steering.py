"""What decides where the next samples go: pairs that lag behind, supports to complete."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.bounds.counts import missing
from smoothcruiser.certified.query_limits import make_limits

pytestmark = pytest.mark.compiles


def test_pairs_that_have_enough_wait_for_those_that_lag_behind():
    """The floor is the gain at which radii slope/n add up to the goal."""
    search = sc.Certified(
        sc.make("chain:n=4", discount=0.8, operator=sc.Entropy(0.1)), delta=0.1
    )
    search.query(budget=2_000, target="value")
    steer, g, root = search.loop.steering, search.memory.graph, search.position.root
    search.region.list_reach()
    size = search.memory.num_pairs
    limits = make_limits(0.3, None, None, None, "value")
    g.pairs["total"][:size], g.pairs["gain"][:size] = 100.0, 1e-6
    usual = steer._floor(root, limits)
    width = 2.0 * search.memory.half_width(root, "value")
    assert usual == pytest.approx(0.25 * width / (100.0 * size))
    g.pairs["gain"][0] = 1.0  # one that needs far more than it can get at once
    roots = 100.0 * (1e-3 * (size - 1) + 1.0)
    assert steer._floor(root, limits) == pytest.approx(max(usual, (0.6 / roots) ** 2))
    no_goal = make_limits(None, 10, None, None, "value")
    assert steer._floor(root, no_goal) == usual


def trap(least: float) -> sc.Problem:
    """Two states, each of which leads to the other; from 0 one may leave as well."""

    def step(state: int, action: int, rng: np.random.Generator):
        if state == 1 or action == 0:
            return 0.0, 1 - state
        return (1.0, 2) if rng.random() < 0.5 else (0.0, 3)

    return mdp(
        step,
        discount=1.0,
        operator=sc.Max(),
        payoffs="end",
        terminal=lambda state: state > 1,
        min_probability=least,
    )


def test_supports_are_completed_where_nothing_else_brings_the_bound_down():
    """Then no further sample is missing, and the upper bound leaves the edge."""
    search = sc.Certified(trap(0.01), delta=0.1, seed=1)
    found = search.query(epsilon=0.1, target="value", budget=30_000)
    pairs = search.memory.graph.pairs[: search.memory.num_pairs]
    assert found.interval[1] <= found.interval[0] + 0.2
    assert found.interval[0] <= 0.5 <= found.interval[1]
    assert missing(pairs, 0.01).sum() == 0.0
    region = search.region
    assert region.urgent_jobs(100) is None
