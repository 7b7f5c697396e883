"""Interval arithmetic that rounds ends outwards, and never without need.

A bound that is rounded to nearest may exclude the number that it bounds: one unit in the
last place is enough. Here every end lies on the safe side, and it is the exact number
wherever a float can be that: (-1, 1) stays (-1, 1). An operation rounds to nearest first,
as the processor does; whole numbers then tell on which side the exact result lies.

No result depends on the C library: logarithms are those of ``decimal``, which rounds
correctly, and powers are products of whole numbers.

Sums with the same bits in every version of Python.

From Python 3.12 on the built-in ``sum`` compensates for the rounding of floats, and its
last bits differ from those of 3.11. Numbers of an answer are added here, from left to right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal
from functools import lru_cache

Interval = tuple[float, float]

POWER_BITS = 256  # behind the point, of powers of a discount
LOG_DIGITS = 40  # of logarithms before they are rounded to floats


def enclose_quotient(numerator: int, denominator: int) -> Interval:
    """Return the narrowest interval of floats around the quotient.

    The denominator is above 0.
    """
    try:
        nearest = numerator / denominator  # whole numbers are divided correctly
    except OverflowError:
        nearest = math.copysign(math.inf, numerator)
    return _enclose_nearest(nearest, numerator, denominator)


def _enclose_nearest(nearest: float, numerator: int, denominator: int) -> Interval:
    """Return the same interval, from the float that lies nearest to the quotient."""
    if math.isinf(nearest):
        largest_float = math.nextafter(nearest, 0.0)
        return (largest_float, nearest) if nearest > 0.0 else (nearest, largest_float)
    top, bottom = nearest.as_integer_ratio()
    excess = top * denominator - numerator * bottom
    if excess == 0:
        return nearest, nearest
    if excess > 0:
        return math.nextafter(nearest, -math.inf), nearest
    return nearest, math.nextafter(nearest, math.inf)


def _add_numbers(x: float, y: float) -> Interval:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y, x + y
    if x == 0.0 or y == 0.0:
        return x + y, x + y
    (a, b), (c, d) = x.as_integer_ratio(), y.as_integer_ratio()
    return _enclose_nearest(x + y, a * d + c * b, b * d)


def _multiply_numbers(x: float, y: float) -> Interval:
    if x == 0.0 or y == 0.0:  # nothing stays nothing, also infinitely often
        return 0.0, 0.0
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y, x * y
    (a, b), (c, d) = x.as_integer_ratio(), y.as_integer_ratio()
    return _enclose_nearest(x * y, a * c, b * d)


def add_intervals(x: Interval, y: Interval) -> Interval:
    """Return the interval of all sums of a number of ``x`` and one of ``y``."""
    return _add_numbers(x[0], y[0])[0], _add_numbers(x[1], y[1])[1]


def scale_interval(x: Interval, factor: Interval) -> Interval:
    """Return the interval of all products with a factor of at least 0."""
    lower_factor = factor[0] if x[0] >= 0.0 else factor[1]
    upper_factor = factor[1] if x[1] >= 0.0 else factor[0]
    return _multiply_numbers(x[0], lower_factor)[0], _multiply_numbers(
        x[1], upper_factor
    )[1]


def widen_interval(x: Interval, margin: float) -> Interval:
    """Return the interval extended by ``margin`` on either side."""
    return add_intervals(x, (-margin, margin))


@lru_cache(maxsize=4096)  # bounds with a horizon need every number of steps left
def discounted_sum(discount: float, steps: int | None, sign: int = 1) -> Interval:
    """Bounds of 1 + x + ... + x**(steps - 1) for x = sign * discount.

    It is (1 - x**steps)/(1 - x). The power is enclosed between whole multiples of
    2**-POWER_BITS: a product of two such powers is rounded down, or up, by one of them,
    which doubling an exponent doubles, so that the two ends are at most 4 ``steps`` of
    them apart; 1 - x**steps is at least 2**-53, and ``steps`` below 2**53.
    """
    top, bottom = discount.as_integer_ratio()
    top *= sign
    if steps is None:
        return enclose_quotient(bottom, bottom - top)
    if top == bottom:
        return enclose_quotient(steps, 1)
    power_min, power_max = _power(discount, steps)
    if sign < 0 and steps % 2 == 1:
        power_min, power_max = -power_max, -power_min
    fixed_one, scale = 1 << POWER_BITS, (bottom - top) << POWER_BITS
    lower_end = enclose_quotient((fixed_one - power_max) * bottom, scale)[0]
    return lower_end, enclose_quotient((fixed_one - power_min) * bottom, scale)[1]


def _power(base: float, exponent: int) -> tuple[int, int]:
    """Bounds of base**exponent, for a base in [0, 1], as multiples of 2**-POWER_BITS."""
    top, bottom = base.as_integer_ratio()
    base_min = (top << POWER_BITS) // bottom
    base_max = -((-top << POWER_BITS) // bottom)
    power_min = power_max = 1 << POWER_BITS
    while exponent > 0:
        if exponent & 1:
            power_min = power_min * base_min >> POWER_BITS
            power_max = -(-power_max * base_max >> POWER_BITS)
        base_min, base_max = (
            base_min * base_min >> POWER_BITS,
            -(-base_max * base_max >> POWER_BITS),
        )
        exponent >>= 1
    return power_min, power_max


@lru_cache(maxsize=256)
def log_bounds(number: int) -> Interval:
    """Bounds of the natural logarithm of a whole number of at least 1."""
    if number == 1:
        return 0.0, 0.0
    nearest = Context(prec=LOG_DIGITS).ln(Decimal(number))
    top, bottom = nearest.as_integer_ratio()
    # ``nearest`` is below 1000 and off by less than 1/shift
    shift = 10 ** (LOG_DIGITS - 3)
    lower_end = enclose_quotient(top * shift - bottom, bottom * shift)[0]
    return lower_end, enclose_quotient(top * shift + bottom, bottom * shift)[1]


def root_bounds(number: int) -> Interval:
    """Bounds of the square root of a whole number."""
    scaled_up = number << 2 * POWER_BITS
    root = math.isqrt(scaled_up)
    is_square = root * root == scaled_up
    lower_end = enclose_quotient(root, 1 << POWER_BITS)[0]
    return lower_end, enclose_quotient(
        root if is_square else root + 1, 1 << POWER_BITS
    )[1]


def sum_in_order(numbers: Iterable[float]) -> float:
    """Return the sum of the numbers, each rounded as it is added."""
    total = 0.0
    for number in numbers:
        total += number
    return total
