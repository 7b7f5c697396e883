"""What counts as a number in an argument; the arguments that all planners take.

Python's and NumPy's numbers are alike; True and False are none.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from smoothcruiser.errors import InvalidInput

# Threads can wait for 292 years (2**63 ns) and no longer.
MOST_SECONDS = 1e9
# A watching thread wakes four times in this; more often and it takes the time it guards.
LEAST_CALL_SECONDS = 1e-3


def is_whole(value: object) -> bool:
    """Whether ``value`` is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether ``value`` is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def shortened(value: Any) -> str:
    """A value in a sentence; a number or a text that is too long for one, in short."""
    if is_whole(value) and abs(value) >= 10**30:
        sign = "-" if value < 0 else ""
        return f"about {sign}10^{math.log10(abs(int(value))):.0f}"
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def check_seed(seed: Any) -> int:
    """The seed of a run as a Python number; anything else is refused."""
    if not is_whole(seed) or seed < 0:
        raise InvalidInput(
            f"seed must be a whole number of at least 0, got {shortened(seed)}."
        )
    return int(seed)


def check_seconds(seconds: Any, name: str = "seconds") -> None:
    """Refuse what is not a time; None means no limit."""
    if seconds is not None and not (is_number(seconds) and 0 < seconds <= MOST_SECONDS):
        raise InvalidInput(
            f"{name} must be a number above 0 and at most {MOST_SECONDS:g} (30 years), "
            f"or left out for no limit, got {shortened(seconds)}."
        )


def check_call_seconds(limit: Any) -> None:
    """Refuse what cannot limit one call; None means no limit."""
    if limit is not None and not (
        is_number(limit) and LEAST_CALL_SECONDS <= limit <= MOST_SECONDS
    ):
        raise InvalidInput(
            f"call_seconds must be a number of seconds from {LEAST_CALL_SECONDS:g} to "
            f"{MOST_SECONDS:g}, or None for no limit, got {shortened(limit)}."
        )


def check_keywords(verb: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a keyword that does not exist, naming the one that was meant."""
    known = tuple(known)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = (
                f"did you mean {close[0]}=?" if close else f"it has {', '.join(known)}."
            )
            raise InvalidInput(f"{verb} has no option {name!r}; {hint}")


def popped_range(parameters: dict[str, Any]) -> tuple[float, float] | None:
    """The range of rewards among the parameters of a name, which are taken out.

    It is ``reward_range=[low,high]``, or ``reward_low=`` and ``reward_high=``; None where
    there is neither.
    """
    given = parameters.pop("reward_range", None)
    low, high = (parameters.pop(name, None) for name in ("reward_low", "reward_high"))
    if (low is None) != (high is None):
        raise InvalidInput("Give reward_low= and reward_high= together.")
    pair = given if low is None else (low, high)
    if pair is None:
        return None
    if (
        not isinstance(pair, list | tuple)
        or len(pair) != 2
        or not all(is_number(x) for x in pair)
    ):
        raise InvalidInput(
            "The range of rewards is two numbers, as in reward_range=[-1,1], got "
            f"{shortened(pair)}."
        )
    return float(pair[0]), float(pair[1])
