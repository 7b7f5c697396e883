"""Rows of bytes: states of many arrays, exact to the bit, without JAX.

Laws: packing and unpacking lose no bit (NaN, -0.0 and all types included); rows are equal
exactly where all bits are; nobody can write into a row; what ``plain`` writes, ``parsed``
reads as the same row; what does not fit is refused in one sentence.
"""

import copy
import json
import pickle

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.batched.layout import Leaf, RowLayout, RowState

LEAVES = [("x", (2,), "float32"), ("mask", (3,), "bool"), ("time", (), "int32")]
LEAVES += [("none", (0,), "int8"), ("far", (), "float64")]
LAYOUT = RowLayout("toy", tuple(Leaf(*leaf) for leaf in LEAVES))


def arrays(x=(0.1, -0.0), mask=(True, False, True), time=7, far=1e300):
    return [
        *(np.array(x, np.float32), np.array(mask), np.int32(time)),
        *(np.zeros(0, np.int8), np.float64(far)),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_no_bit_is_lost(seed):
    rng = np.random.default_rng(seed)
    given = [
        rng.integers(0, 2**32, 2, np.uint32).view(np.float32),  # NaNs among them
        rng.random(3) < 0.5,
        np.int32(rng.integers(-(2**31), 2**31)),
        np.zeros(0, np.int8),
        rng.integers(0, 2**63, 1, np.uint64).view(np.float64)[0],
    ]
    row = LAYOUT.pack(given)
    assert [x.tobytes() for x in LAYOUT.unpack(row)] == [x.tobytes() for x in given]
    assert len(row.words) == LAYOUT.size == 8 + 3 + 4 + 0 + 8
    assert LAYOUT.pack(LAYOUT.unpack(row)) == row


def test_rows_are_equal_where_all_bits_are():
    row = LAYOUT.pack(arrays())
    assert row == LAYOUT.pack(arrays())
    assert hash(row) == hash(LAYOUT.pack(arrays()))
    assert row != LAYOUT.pack(arrays(x=(0.1, 0.0)))  # the sign of a zero is a bit
    nan = LAYOUT.pack(arrays(x=(np.nan, 0.0)))
    assert nan == LAYOUT.pack(arrays(x=(np.nan, 0.0)))
    other = RowLayout("toy", (Leaf("y", (LAYOUT.size,), "uint8"),))
    assert row != RowState(other, row.words)


def test_nobody_can_write_into_a_row():
    row = LAYOUT.pack(arrays())
    with pytest.raises(AttributeError, match="cannot be changed"):
        row.words = b""
    with pytest.raises(ValueError, match="read-only"):
        row.leaves["x"][0] = 1.0
    source = arrays()
    packed = LAYOUT.pack(source)
    source[0][0] = 99.0
    assert packed == LAYOUT.pack(arrays())


def test_copies_and_pickles_are_the_same_row():
    row = LAYOUT.pack(arrays())
    assert copy.deepcopy(row) == row
    assert pickle.loads(pickle.dumps(row)) == row


def test_a_row_is_written_and_read():
    row = LAYOUT.pack(arrays())
    plain = LAYOUT.plain(row)
    assert LAYOUT.parse(json.loads(json.dumps(plain))) == row
    assert repr(row).startswith("toy(x=[0.1, -0.0], mask=[1, 0, 1], time=7")


@pytest.mark.parametrize(
    "change, said",
    [
        ({"time": 1.5}, "time must be int32"),
        ({"mask": [2, 0, 0]}, "mask must be bool"),
        ({"mask": [True]}, r"mask must be bool of shape \(3,\)"),
        ({"x": "left"}, "x must be float32"),
        ({"wind": 3}, "has no 'wind'"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    plain = LAYOUT.plain(LAYOUT.pack(arrays()))
    with pytest.raises(sc.InvalidInput, match=said):
        LAYOUT.parse(plain | change)
    del plain["time"]
    with pytest.raises(sc.InvalidInput, match="needs 'time'"):
        LAYOUT.parse(plain)


def test_arrays_of_another_form_are_refused():
    with pytest.raises(sc.InvalidInput, match="x of toy must be float32"):
        LAYOUT.pack([np.zeros(2), *arrays()[1:]])
    with pytest.raises(sc.InvalidInput, match="bytes"):
        RowState(LAYOUT, b"abc")
