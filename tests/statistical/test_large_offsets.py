"""Rewards that share a large offset lose no promise to rounding, and a promise
that rounding forbids is refused.

World: two actions pay ``offset`` + 0.2 + 0.3 a or ``offset`` + 0.9 with equal
chance, for ever. Q = offset/(1-gamma) + the Q of offset 0, exactly, so the
truth is known to the last digit of the offset.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest

import smoothcruiser as sc

OFFSET, DISCOUNT, EPSILON = 1e9, 0.5, 0.1


def truth(offset: float) -> float:
    rewards, value = (0.55, 0.7), 0.0
    for _ in range(200):
        value = float(np.logaddexp.reduce([r + DISCOUNT * value for r in rewards]))
    return value + offset / (1.0 - DISCOUNT)


@numba.njit
def step(state, action, rng):
    return 1e9 + (0.2 + 0.3 * action if rng.random() < 0.5 else 0.9), state


def rows(states, actions, rng):
    low = rng.random(len(states)) < 0.5
    return 1e9 + np.where(low, 0.2 + 0.3 * actions, 0.9), states


def plan(oracle=step, offset=OFFSET, epsilon=EPSILON, facts=(), **how):
    usual = {"num_actions": 2, "discount": DISCOUNT, "operator": sc.Entropy(1.0)}
    usual |= {"reward_range": (offset, offset + 1.0), "initial_state": 0}
    problem = sc.MDP(oracle, **usual | dict(facts))
    how = {"method": "smoothcruiser", "delta": 0.1, "epsilon": epsilon} | how
    return sc.plan(problem, **how)


def test_a_promise_at_a_billion_is_kept():
    """Before sums were taken around a centre, 20 of 20 runs were off by more
    than epsilon.
    """
    for seed in range(20):
        estimate = plan(seed=seed)
        low, high = estimate.interval
        assert low <= truth(OFFSET) <= high
        assert abs(estimate.value - truth(OFFSET)) <= EPSILON
        assert 0.5 * (high - low) <= EPSILON * 1.01


@pytest.mark.parametrize("executor", ["reference", "python", "batched", "certified"])
def test_every_engine_sums_around_a_centre(executor):
    oracle = sc.batched(rows) if executor == "batched" else step.py_func
    how = {"executor": executor, "epsilon": 0.5}
    if executor == "certified":
        oracle, how = step, {"method": "certified"}
    estimate = plan(oracle, **how)
    assert estimate.interval[0] <= truth(OFFSET) <= estimate.interval[1]


def test_a_horizon_has_a_centre_for_every_stage():
    """Rewards of 1e9 for three steps at discount 1: the stages lie a billion apart."""
    facts = {"discount": 1.0, "operator": sc.Max(), "horizon": 3}
    estimate = plan(epsilon=0.5, facts=facts)
    assert abs(estimate.value - (3 * OFFSET + 3 * 0.7)) <= 0.5


def test_what_rounding_forbids_is_refused():
    """At 1e16 neighbouring floats are 2 apart: no epsilon of 0.1 means anything."""
    told = r"too fine for rewards.*subtract what all rewards share"
    with pytest.raises(sc.InvalidInput, match=told):
        plan(lambda state, action, rng: (1e16 + 1.0, state), 1e16)
