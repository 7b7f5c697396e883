"""The codec of a state: words and back, in Python and in compiled code, bit by bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


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


def test_states_without_words_are_refused_in_one_sentence() -> None:
    import numba

    from smoothcruiser.states.codec import codec_of

    with pytest.raises(sc.InvalidInput, match="Compiled oracles take states of num"):
        codec_of(numba.typeof("text"), "text")
