"""Sweeps that compute what can have changed: the bounds of sweeps over everything."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.bounds.base import KEEP
from smoothcruiser.certified.graph import MOVED, SAMPLED
from smoothcruiser.certified.sweeps.region import Region

pytestmark = pytest.mark.compiles


def ring(noise: float, seed: int) -> sc.MDP:
    """Places in a ring, in which news passes from neighbour to neighbour."""
    rng = np.random.default_rng(seed)
    size = 40
    P = np.zeros((size, 2, size))
    for s in range(size):
        for a in range(2):
            P[s, a, (s + 1 + a) % size] += 1.0 - noise
            P[s, a, int(rng.integers(size))] += noise
    return sc.tabular(P, rng.random((size, 2)), discount=0.9, operator=sc.Entropy(0.1))


def known(state: int, action: int) -> list[tuple[float, float, int]]:
    after = (state + 1 + action) % 50
    return [(0.5, float(state == 7), after), (0.5, 0.0, state)]


WORLDS = {
    "noisy": (ring(0.2, 1), {"epsilon": 0.4}),
    "certain": (ring(0.0, 2), {"budget": 20_000}),
    "known": (
        mdp(
            lambda s, a, rng: (0.0, s), discount=0.9, operator=sc.Max(), outcomes=known
        ),
        {"epsilon": 1e-6},
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_left_out_would_not_have_moved(name, monkeypatch):
    """The bits of a search are those of one that computes every node in every sweep."""
    problem, asked = WORLDS[name]
    search = sc.Certified(problem, delta=0.1, seed=3)
    found = search.query(**asked)
    only_changed = Region.sweep

    def whole(self: Region, tune: int) -> float:
        self.memory.graph.nodes["stale"][self.listed_nodes] |= SAMPLED
        return only_changed(self, tune)

    monkeypatch.setattr(Region, "sweep", whole)
    other = sc.Certified(problem, delta=0.1, seed=3)
    again = other.query(**asked)
    assert (found.interval, found.num_calls) == (again.interval, again.num_calls)
    size = search.memory.num_pairs
    for side in ("q_lower", "q_upper"):
        mine, theirs = (m.memory.graph.pairs[side][:size] for m in (search, other))
        assert np.array_equal(mine, theirs)


def test_news_is_passed_on_and_comes_to_rest():
    """At rest nothing is marked as moved. Then what changes one node passes on to those
    that lead to it, sweep by sweep.
    """
    problem, asked = WORLDS["known"]
    search = sc.Certified(problem)
    search.query(**asked)
    region, g = search.region, search.memory.graph
    for _ in range(1_000):
        region.sweep(KEEP)
        if not (g.nodes["stale"] & MOVED).any():
            break
    assert not (g.nodes["stale"] & MOVED).any()
    g.nodes["lower"][:], g.pairs["q_lower"][:] = 0.0, 0.0
    for state in (30, 31):
        g.nodes["upper"][search.memory.nodes[state]] -= 0.02
    before = g.nodes["upper"].copy()
    region.sweep(KEEP)
    assert np.array_equal(g.nodes["upper"], before)  # nobody was told
    g.nodes["stale"][search.memory.nodes[29]] |= SAMPLED
    region.sweep(KEEP)
    states = np.array([-1, *search.memory.states[1:]])
    moved = set(states[(g.nodes["upper"] < before)[: len(states)]])
    assert 29 in moved
    assert not moved & {30, 31, 32}
    for _ in range(2):
        region.sweep(KEEP)
    moved = set(states[(g.nodes["upper"] < before)[: len(states)]])
    assert {27, 28, 29} <= moved
