"""States: words and back, bit by bit; one number for a row of words; which states are the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.states.identity import state_key
from smoothcruiser.states.table import TABLES, WordTable
from smoothcruiser.states.table_kernel import UNKNOWN


class Place(NamedTuple):
    x: int
    height: float
    lit: bool


STATES = [
    -(2**63),
    -0.0,
    True,
    np.float32(0.1),
    np.uint8(255),
    np.uint64(2**64 - 1),
    (1, (2.5, False)),
    Place(3, float("nan"), True),
    np.array([[1, -2, 3]], np.int8),
    (7, np.array([0.5, -0.0]), Place(1, 2.0, False)),
]


def spell(state: Any) -> str:
    """A state with its numbers, shapes and types of arrays."""
    parts = [spell(part) for part in state] if isinstance(state, tuple) else []
    if isinstance(state, np.ndarray):
        parts = [state.dtype.str, str(state.shape), state.tobytes().hex()]
    return f"{type(state).__name__}({parts or state})"


def as_python(state: Any) -> Any:
    """A state as Python gets it from compiled code: scalars as int, float and bool."""
    if isinstance(state, tuple):
        values = map(as_python, state)
        return type(state)(*values) if hasattr(state, "_fields") else tuple(values)
    return state.item() if isinstance(state, np.generic) else state


@pytest.mark.compiles
@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state!r:.25}")
def test_a_state_comes_back_from_its_words(state: Any) -> None:
    """Many states at once, and each with memory of its own."""
    import numba

    from smoothcruiser.states.codec import codec_of

    codec = codec_of(numba.typeof(state), state)
    assert codec is codec_of(numba.typeof(state), state)
    rows = codec.encode([state, state])
    assert rows.shape == (2, codec.size) == (2, len(codec.floats))
    assert [spell(s) for s in codec.decode(rows)] == 2 * [spell(as_python(state))]
    parts = codec.row_parts
    states = parts["ALLOCATE"](2)
    states[:] = 0
    parts["STORE"](states, 1, state)
    assert states[1].tobytes()[: 8 * codec.size] == rows[0].tobytes()
    if codec.is_plain:
        assert spell(parts["LOAD"](states, 1)) == spell(state)
        assert spell(parts["KEEP"](states, 0, state)) == spell(state)


@pytest.mark.compiles
def test_words_that_mislead_are_no_row() -> None:
    """-0.0 equals 0.0 and NaN nothing; another shape or type is another form."""
    import numba

    from smoothcruiser.states.codec import codec_of

    array, number = (0, np.zeros(2)), (0, 0.0)
    codecs = [codec_of(numba.typeof(state), state) for state in (array, number)]
    assert codecs[0].has_row(array)
    assert codecs[1].has_row((-(2**63), 1.0))
    for state in ((0, np.zeros(3)), (0, np.array([1.0, -0.0])), (0.0, np.zeros(2))):
        assert not codecs[0].has_row(state)
    for state in ((0, -0.0), (0, float("nan")), (0.0, 0.0), (0, 0.0, 0.0)):
        assert not codecs[1].has_row(state)


@pytest.mark.compiles
def test_states_without_words_are_refused_in_one_sentence() -> None:
    import numba

    from smoothcruiser.states.codec import codec_of

    with pytest.raises(sc.InvalidInput, match="Compiled oracles take states of num"):
        codec_of(numba.typeof("text"), "text")


# --- one table of states, in both forms ---------------------------------------


FORMS = [False, pytest.param(True, marks=pytest.mark.compiles)]


def unique_rows(count: int, width: int) -> Any:
    """Rows that differ in their last word alone, in random order."""
    rows = np.full((count, width), -(2**63))
    rows[:, -1] = np.random.default_rng(width).permutation(count) - count // 2
    return rows


@pytest.mark.parametrize("compiled", FORMS)
def test_numbers_are_found_again_while_the_table_grows(compiled: bool) -> None:
    """Each number once, others for the number they stand for, gaps for none."""
    rows = unique_rows(1_000, 1)
    with TABLES.use_form(compiled=compiled):
        table = WordTable(1)
        for part in np.split(rows[:800], 8):
            table.extend(part, without_words=[0])
        table.stand_for(rows[700:900], np.arange(700, 900))
        numbers, missing = table.find(rows)
        place = np.arange(1_000)
        is_own = (place < 800) & (place % 100 != 0)
        stands_for = np.where((place >= 700) & (place < 900), place, UNKNOWN)
        assert numbers.tolist() == np.where(is_own, place + 1, stands_for).tolist()
        assert missing.tolist() == np.flatnonzero(numbers == UNKNOWN).tolist()


@pytest.mark.parametrize("compiled", FORMS)
def test_rows_that_compiled_code_wrote_get_the_numbers_that_python_gives(
    compiled: bool,
) -> None:
    """Of six new rows two are ends and one is known under another row."""
    rows = unique_rows(8, 3)
    with TABLES.use_form(compiled=compiled):
        table = WordTable(3)
        table.extend(rows[:2])
        table.reserve(6)
        table.keys[3:9] = rows[2:]
        table.size = 9
        table.enter_all()  # as ``draw_rows`` leaves it: rows 3 to 8 are in their slots
        table.size = 3
        table.settle(np.array([3, 0, 4, 0, 2, 5]))
        assert table.size == 6
        assert table.keys[1:6].tolist() == rows[[0, 1, 2, 4, 7]].tolist()
        assert table.others[: table.num_others].tolist() == rows[[3, 5, 6]].tolist()
        slots = table.slots[table.slots != 0]
        assert sorted(slots.tolist()) == [-3, -2, -1, 1, 2, 3, 4, 5]
        before = table.slots.copy()
        table.enter_all()
        assert sorted(table.slots.tolist()) == sorted(before.tolist())


def test_the_room_that_is_said_is_the_room_that_is_taken() -> None:
    """Bytes of arrays that replace others are known before they are made."""
    table = WordTable(2)
    table.extend(unique_rows(100, 2))
    keys, slots = table.keys, table.slots
    said = table.grown_bytes(5_000)
    table.extend(unique_rows(5_000, 2) + np.array([1, 0]))
    assert table.keys is not keys
    assert table.slots is not slots
    assert said == table.keys.nbytes + table.slots.nbytes


# --- states that a step must not change, and keys of states -------------------


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
