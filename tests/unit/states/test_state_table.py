"""One table of states: a row of words has one number, in both forms of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smoothcruiser.states.table import TABLES, WordTable
from smoothcruiser.states.table_kernel import UNKNOWN

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
