"""States that a step must not change: found before the run, whatever the engine."""

import numba
import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.states.identity import state_key


@numba.njit
def careless(state, action, rng):
    reward = 1.0 / (1.0 + state[0])
    state[0] += 1
    return reward, state


def problem(step):
    return mdp(step, initial_state=np.zeros(2))


@pytest.mark.compiles
@pytest.mark.parametrize("step", [careless, careless.py_func])
def test_a_step_that_writes_into_its_state_is_refused(step):
    """Its interval would be disjoint from the truth; the caller's own array
    stays as it was.
    """
    made = problem(step)
    with pytest.raises(sc.OracleError, match="changed the state it was given"):
        sc.plan(made, epsilon="30%", delta=0.1, method="smoothcruiser")
    assert made.initial_state.tolist() == [0.0, 0.0]


SAME_BYTES = [
    (np.array([255], np.uint8), np.array([-1], np.int8)),
    (np.array([1], "<i4"), np.array([1 << 24], ">i4")),
    (np.array([1.0]), np.array([0x3FF0000000000000])),
    (np.zeros(1, [("x", "i4"), ("y", "i4")]), np.zeros(1, [("y", "i4"), ("x", "i4")])),
]


@pytest.mark.parametrize(("one", "other"), SAME_BYTES)
def test_arrays_of_the_same_bytes_are_other_states_in_another_type(one, other):
    assert one.tobytes() == other.tobytes()
    assert state_key(one) != state_key(other)
    assert state_key((one, 1)) != state_key((other, 1))
    assert state_key(one) == state_key(one.copy())


def test_zero_has_no_sign_in_keys_and_objects_have_none():
    assert state_key(np.array([-0.0])) == state_key(np.array([0.0]))
    boxed = np.zeros(1, [("x", "O")])  # its bytes are addresses
    with pytest.raises(sc.SmoothcruiserError, match="cannot be"):
        state_key(boxed)


@numba.njit
def to_the_top_bit(state, action, rng):
    if state == 0:
        return 0.0, np.int64(-9223372036854775808)
    return 1.0, state


@numba.njit
def unsigned(state, action, rng):
    return (1.0 if state > 10 else 0.0), np.uint64(0x8000000000000005)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("step", "start", "truth"), [(to_the_top_bit, 0, 1.0), (unsigned, 20, 2.0)]
)
def test_every_whole_number_is_a_state(step, start, truth):
    """The smallest 64-bit number is no sign for the end, and one above 2**63
    does not turn negative; or they are refused.
    """
    problem = mdp(step, num_actions=1, operator=sc.Max(), initial_state=start)
    promise = {"method": "certified", "epsilon": 0.1, "delta": 0.05}
    try:
        found = sc.plan(problem, budget=100_000, **promise)
    except sc.SmoothcruiserError:
        return
    assert found.interval[0] <= truth <= found.interval[1]
