"""Oracles that hang: ended at their time limit, in whatever thread they run."""

import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from worlds import COMMON, PROMISE, walk

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

RETURNED = []  # calls that slept to their end


def sleeps(state, action, rng):
    if state == 3:
        time.sleep(60)
        RETURNED.append(state)
    return walk(state, action, rng)


def loops(state, action, rng):
    while state == 3:
        pass
    return walk(state, action, rng)


def plan_limited(step, **more):
    return sc.plan(sc.MDP(step, call_seconds=0.3, **COMMON, **more), 2, **PROMISE)


@pytest.mark.parametrize("step", [sleeps, loops])
def test_an_oracle_that_hangs_is_ended_at_its_time_limit(step):
    """The error comes before the call that sleeps has ended."""
    sentence = r"within 0\.3 s at state 3, action [01]; fix the simulator there, or"
    with pytest.raises(sc.OracleError, match=sentence):
        plan_limited(step)
    assert not RETURNED


def test_a_companion_that_hangs_is_ended_too():
    def terminal(state):
        while state == 3:
            pass
        return False

    sentence = r"player or value_bounds did not return within 0\.3 s"
    with pytest.raises(sc.OracleError, match=sentence):
        plan_limited(walk, terminal=terminal)


def test_the_limit_holds_outside_the_main_thread_too():
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(plan_limited, loops)
        with pytest.raises(sc.OracleError, match=r"within 0\.3 s at state 3"):
            answer.result(timeout=20)


def test_a_slow_oracle_within_its_limit_is_left_alone():
    def step(state, action, rng):
        time.sleep(0.002)
        return walk(state, action, rng)

    how = {"epsilon": "40%", "delta": 0.3, "method": "smoothcruiser"}
    limited = sc.plan(sc.MDP(step, call_seconds=0.5, **COMMON), **how)
    assert limited.value == sc.plan(sc.MDP(walk, **COMMON), **how).value


@pytest.mark.parametrize(
    "limit", [0, -1, 1e-300, 1e10, math.inf, math.nan, True, "soon"]
)
def test_a_time_limit_that_is_none_is_refused(limit):
    with pytest.raises(sc.InvalidInput, match="call_seconds must be a number of seco"):
        sc.MDP(walk, call_seconds=limit, **COMMON)
