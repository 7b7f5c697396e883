"""Numbers as a person reads them: counts, shares, lengths of time and speeds.

They have one form wherever they are printed.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

LONGEST = 12  # digits before or after the point that a number is printed with
FIGURES = 4  # of numbers that would have more


def short(count: int) -> str:
    """Return a count for a sentence: digits in groups up to 10^12, then like 7.46e88.

    Integers that are too long to print are allowed.
    """
    return f"{count:,}" if count < 10**12 else _scientific(count)


def power_of_ten(log_count: float) -> str:
    """Return the count with this natural logarithm: digits, or like 10^8236."""
    log10_count = log_count / math.log(10.0)
    if log10_count < 12.0:
        return short(math.ceil(math.exp(log_count) * (1.0 - 1e-9)))
    return f"10^{math.floor(log10_count + 1e-9):,}"


def format_log_count(log_count: float) -> str:
    """Return ``short`` of the count with this natural logarithm, rounded."""
    if log_count < 700.0:
        return short(max(1, round(math.exp(log_count))))
    return power_of_ten(log_count)


def count_noun(count: int, noun: str) -> str:
    """Return a count with its noun: '1 state', '2,500 states'."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def compact(count: int) -> str:
    """Return a count for a narrow column: digits up to 99,999, then like 1.33e8."""
    return f"{count:,}" if count < 10**5 else _scientific(count)


def _scientific(count: int) -> str:
    exponent = math.floor(math.log10(count))
    three_digits = round(10.0 ** (math.log10(count) - exponent) * 100)
    if three_digits >= 1000:
        three_digits, exponent = three_digits // 10, exponent + 1
    return f"{three_digits // 100}.{three_digits % 100:02d}e{exponent}"


def amount(count: int) -> str:
    """Return a count in the units of a speed: '950', '58.2 k', '133 M'."""
    for unit, unit_size, smallest_count in (("M", 10**6, 10**6), ("k", 10**3, 10**4)):
        if count >= smallest_count:
            value = count / unit_size
            return f"{value:,.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
    return f"{count:,}"


def percent(share: float) -> str:
    """Return a share in percent, with at most three digits."""
    percentage = 100.0 * share
    if percentage >= 9.95:
        return f"{percentage:.0f}%"
    if percentage >= 0.05:
        return f"{percentage:.1f}%"
    return "0" if percentage == 0.0 else "<0.1%"


def format_decimals(value: float, digits: int) -> str:
    """A number with ``digits`` decimals; like 1.7e308 where they would be too many."""
    if not math.isfinite(value) or _fits(value, digits):
        return f"{value:.{digits}f}"
    return f"{value:.{FIGURES}g}"


def _fits(value: float, digits: int) -> bool:
    return digits <= LONGEST and abs(value) < 10.0**LONGEST


def bounds(low: float, high: float, digits: int) -> str:
    """An interval with ``digits`` decimals, rounded outwards: it holds as printed.

    The last bits come from rounding the ends outwards and are ignored: the interval
    [-1, 1] is not printed as [-1.01, 1.01].
    """
    last_bits = 1e-12 * max(
        (abs(x) for x in (low, high) if math.isfinite(x)), default=0.0
    )
    rounded_ends = (low + last_bits, ROUND_FLOOR), (high - last_bits, ROUND_CEILING)
    end_texts = (_round_decimal(x, digits, mode) for x, mode in rounded_ends)
    return f"[{', '.join(end_texts)}]"


def distance(half: float, digits: int) -> str:
    """A half-width with ``digits`` decimals, rounded up so that it holds as printed.

    The last bits come from the subtraction that it results from and are ignored.
    """
    return _round_decimal(half * (1.0 - 1e-12), digits, ROUND_CEILING)


def format_bound(bound: float, figures: int = 2) -> str:
    """A bound with ``figures`` figures, rounded up so that it holds as printed."""
    if not math.isfinite(bound):
        return f"{bound:f}"
    context = Context(prec=figures, rounding=ROUND_CEILING)
    exact_bound = Decimal(repr(bound * (1.0 - 1e-12)))
    return f"{float(context.create_decimal(exact_bound)):.{figures}g}"


def _round_decimal(value: float, digits: int, rounding_mode: str) -> str:
    if not math.isfinite(value):
        return f"{value:f}"
    exact_value = Decimal(repr(float(value)))  # the shortest text that is this number
    if not _fits(value, digits):
        rounded_value = (
            Context(prec=FIGURES, rounding=rounding_mode).plus(exact_value).normalize()
        )
        return f"{rounded_value.copy_abs() if rounded_value.is_zero() else rounded_value:g}"
    context = Context(prec=2 * LONGEST + 2, rounding=rounding_mode)
    rounded_value = exact_value.quantize(Decimal(1).scaleb(-digits), context=context)
    return (
        f"{rounded_value.copy_abs() if rounded_value.is_zero() else rounded_value:f}"
    )


def duration(seconds: float) -> str:
    """Return a length of time as a person would say it.

    For example '0.3 s', '4 min', '3 h', '12 days' or '5.1e60 years'.
    """
    if seconds < 0.095:
        return "under 0.1 s"
    if seconds == math.inf:
        return "longer than anybody can wait"
    for unit, unit_size, unit_limit in (
        ("s", 1.0, 120.0),
        ("min", 60.0, 120.0),
        ("h", 3600.0, 48.0),
        ("days", 86400.0, 730.0),
    ):
        if seconds < unit_limit * unit_size:
            value = seconds / unit_size
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    years = seconds / 31_557_600.0
    if years < 1e5:
        return f"{years:,.0f} years"
    return f"{years:.1e} years".replace("e+", "e")


def rate(speed: float) -> str:
    """Return a speed such as '50 M calls/s'."""
    for unit, unit_size in (("M ", 1e6), ("k ", 1e3)):
        if speed >= unit_size:
            return f"{speed / unit_size:.3g} {unit}calls/s"
    return f"{speed:.3g} calls/s"
