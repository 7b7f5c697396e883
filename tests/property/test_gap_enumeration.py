"""Means of paths with a learned value, over all noise of small random problems.

400 problems are in ``benchmarks/gap/enumeration.py``, which this file shares.
"""

import numpy as np
import pytest
from benchmarks.gap import enumeration


def test_no_law_is_broken_on_random_problems():
    """E U >= V, E L = V_pi, W = V gives U = V: three forms of paths, games, keys."""
    for law, (_, least) in enumeration.check_problems(9, seed=7).items():
        assert least > -enumeration.TOLERANCE, law


@pytest.mark.parametrize("name", enumeration.MUTATIONS)
def test_a_kernel_with_one_wrong_line_breaks_a_law(name):
    law, margin, _ = enumeration.break_laws(name)
    assert margin < -1e-3, law


def test_bounds_of_the_value_are_none_of_a_policy():
    assert enumeration.break_policy_bound()[0] > 1e-3


def test_inner_samples_without_the_number_of_the_path_fall_below_the_value():
    assert enumeration.break_shared_inner()[0] > 1e-3


def test_words_of_positions_are_distinct():
    from smoothcruiser.jit.random.mirrored_streams import first_words, position_words

    first = [first_words(5, part) for part in range(2)]
    places = np.ndindex(2, 5, 12, 10, 6)
    words = {position_words(first[part], *position)[:2] for part, *position in places}
    assert len(words) == 2 * 5 * 12 * 10 * 6
