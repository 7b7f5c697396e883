"""Engines agree where tables end in the middle of bounds that depend on the state.

``reference``, ``python`` and ``compiled`` return the same bits; ``batched`` and
the tree search's two forms agree where nothing is random.
"""

from dataclasses import replace

import numba
import numpy as np
import pytest
from engine_agreement import CENTER, assert_engines_agree, by_hand
from test_engines import FAMILIES, build

import smoothcruiser as sc
from smoothcruiser import Kind, Level
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled.engine import CompiledEngine
from smoothcruiser.engines.interpreted.batched import BatchedEngine
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.shards import Shard

pytestmark = pytest.mark.compiles
GAP = 0.25


@numba.njit
def lower(state):
    return 0.1 * (state % 3) - 0.2


@numba.njit
def upper(state):
    return 0.1 * (state % 3) + 0.05 * (state % 2)


def bounded(problem, bounds=(lower, upper), gap=GAP):
    return replace(problem, value_bounds=bounds, value_gap=gap)


def table(facts, target="q_values"):
    """A middle as query, as continuation, and under levels that are no leaves."""
    levels = (
        Level(Kind.MIDDLE),
        Level(Kind.PLUGIN, samples=2, query=0, shift=0.05),
        Level(Kind.ROLLOUT, samples=2, query=0, continuation=0, shift=0.03),
        Level(Kind.BLIND, continuation=2),
        Level(Kind.ROLLOUT, samples=1, query=1, continuation=3, shift=-0.02),
    )
    return by_hand(facts, levels, target=target, samples=3)


@pytest.mark.parametrize("family", FAMILIES)
def test_three_engines_return_the_same_bits(family):
    """One machine serves all worlds, since the functions are the same."""
    K = 2 + FAMILIES.index(family) % 2
    problem = bounded(build(family, sc.Max(), K, FAMILIES.index(family)))
    for target in ("q_values", "value"):
        assert_engines_agree(problem, table(problem.facts, target), 3)


def test_compiled_code_names_the_state_whose_bounds_are_false():
    """Bounds of odd states are too wide; the shard is replayed to name one."""
    P = np.eye(6)[(np.arange(6) + 1) % 6][:, None, :].repeat(2, axis=1)
    ring = sc.tabular(P, np.zeros((6, 2)), discount=0.5, operator=sc.Max())
    wrong = bounded(ring, gap=0.22)
    shard = Shard(0, 0, 0, 2)
    schedule = by_hand(wrong.facts, [Level(Kind.MIDDLE)])
    for make in (CompiledEngine, BatchedEngine):
        make(Job(wrong, schedule, 3, CENTER)).run_shard(shard, 1)
        engine = make(Job(wrong, schedule, 4, CENTER))
        with pytest.raises(sc.OracleError, match=r"at state 5.* 0\.25 apart"):
            engine.run_shard(shard, 1)


def test_batches_and_trees_agree_where_nothing_is_random():
    def walk(states, actions, rng):
        return 0.1 * actions, (states + actions + 1) % 5

    batch = sc.MDP(
        sc.batched(walk),
        num_actions=2,
        discount=0.5,
        operator=sc.Max(),
        initial_state=0,
        terminal=lambda states: states == 4,
        value_bounds=(lambda s: 0.01 * s, lambda s: 0.02 * s + 0.1),
        value_gap=0.2,
    )
    one = replace(
        batch,
        oracle=lambda s, a, rng: (0.1 * a, (s + a + 1) % 5),
        terminal=lambda s: s == 4,
        value_bounds=(lambda s: 0.01 * s, lambda s: 0.02 * s + 0.1),
    )
    levels = (Level(Kind.MIDDLE), Level(Kind.PLUGIN, samples=2, query=0))
    schedule = by_hand(batch.facts, levels)
    for action in range(2):
        shard = Shard(action, 0, 0, 2)
        rows = BatchedEngine(Job(batch, schedule, 0, 0.0)).run_shard(shard, 1)
        single = ReferenceEngine(Job(one, schedule, 0, 0.0)).run_shard(shard, 1)
        assert rows.total == pytest.approx(single.total)
        assert rows.calls == single.calls
    # at depth 1 a leaf is worth the middle of its bounds: Q = r + gamma m(next)
    tree = sc.plan(one, method=sc.UCT(depth=1), budget=50, executor="reference")
    assert tree.q_values == pytest.approx((0.5 * 0.065, 0.1 + 0.5 * 0.08))
