"""Law: numbers are added from left to right, on every version of Python.

Broken on purpose: the built-in ``sum`` of Python 3.12 and later, or ``math.fsum``, gives 2.
"""

from smoothcruiser.operators.outward import sum_in_order


def test_each_number_is_rounded_as_it_is_added():
    assert sum_in_order([1.0, 1e100, 1.0, -1e100]) == 0.0
    assert sum_in_order([0.1] * 10) == 0.9999999999999999
    assert sum_in_order([]) == 0.0
