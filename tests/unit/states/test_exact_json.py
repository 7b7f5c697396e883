"""States as plain data: read back to the bit, or refused in one sentence."""

import enum
import json
import math
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.states.state_json import ExactJson


class Light(enum.Enum):
    RED = 1
    GREEN = 2


class Cell(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Crossing:
    cell: Cell
    light: Light
    cars: frozenset[int]


START = Crossing(Cell(1, 2.0), Light.RED, frozenset({1, 2}))
PROBLEM = mdp(
    lambda state, action, rng: (0.0, state), operator=sc.Max(), initial_state=START
)
NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]


def again(state):
    exact_json = ExactJson(PROBLEM)
    return exact_json.read_state(json.loads(json.dumps(exact_json.write_state(state))))


@pytest.mark.parametrize(
    "state",
    [
        0,
        -(2**63),
        2**5000,
        True,
        None,
        "a\ud800\0",
        b"\x00\xff",
        -0.0,
        5e-324,
        math.inf,
        1 - 2j,
        (1, True, 1.0),
        ((), ([], {"a": (1,), 2: {3}}), frozenset({(1, 2)})),
        np.int8(-3),
        np.float32(0.1),
        np.str_("x"),
        np.bool_(True),
        Cell(3, -0.0),
        Crossing(Cell(0, 0.5), Light.GREEN, frozenset()),
    ],
    ids=lambda state: f"{type(state).__name__} {state!r:.20}",
)
def test_a_state_comes_back_with_its_types(state):
    """Equal, of the same type, and printed alike down to the sign of a zero."""
    found = again(state)
    assert type(found) is type(state)
    assert found == state
    assert repr(found) == repr(state)


def test_the_bits_of_nan_come_back():
    """A payload is part of a state."""
    assert struct.pack("<d", again(NAN)) == struct.pack("<d", NAN)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_with_type_shape_order_and_lock(order):
    """Sums over an array depend on its order, so that is kept too."""
    state = np.array([[1.5, np.nan, -0.0], [4.0, 5.0, 6.0]], order=order)
    state.flags.writeable = False
    found = again(state)
    assert found.tobytes() == state.tobytes()
    assert found.shape == (2, 3)
    assert found.dtype == state.dtype
    for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE"):
        assert found.flags[flag] == state.flags[flag]


class Stranger(NamedTuple):
    x: int


@pytest.mark.parametrize(
    "state",
    [object(), (1, [lambda: 0]), Stranger(1), np.array([1, None]), np.void(b"ab")],
    ids=lambda state: type(state).__name__,
)
def test_what_cannot_come_back_is_refused(state):
    """Objects, functions, classes that the problem's own state does not have."""
    with pytest.raises(sc.InvalidInput, match="The store cannot keep"):
        ExactJson(PROBLEM).write_state(state)


def test_a_ring_is_refused():
    """It has no end."""
    ring = []
    ring.append(ring)
    with pytest.raises(sc.InvalidInput, match="The store cannot keep"):
        ExactJson(PROBLEM).write_state(ring)


@pytest.mark.parametrize(
    "data",
    [
        {"n": ["Stranger", 1]},
        {"n": ["Cell", 1]},
        {"e": ["Light", "BLUE"]},
        {"n": ["Light", 1]},
        {"a": ["|O", [1], "C", False, "AAAAAAAAAAA="]},
        {"q": 1},
        {"t": 1, "s": 2},
        {"p": [1]},
    ],
    ids=json.dumps,
)
def test_data_that_nobody_wrote_is_no_state(data):
    """Names that the problem does not have are not looked for anywhere else."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        ExactJson(PROBLEM).read_state(data)
