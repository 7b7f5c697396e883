"""When a query of certified search ends: the request, checked, as limits."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.price import EqualSamples
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.interrupts import Hold
from smoothcruiser.problem.facts import Facts
from smoothcruiser.progress import Progress

DEFAULT_BUDGET = 10**9
LARGEST = sys.float_info.max
HAND_SECONDS = 0.4  # for the answer, after Ctrl-C

Target = Literal["q_values", "value"]


@dataclass(frozen=True)
class Ends:
    """When a query ends."""

    epsilon: float | None
    goal: float | None  # epsilon, or what double precision can reach if larger
    # what equal numbers of samples need for epsilon; None where nothing is estimated
    equal: EqualSamples | None
    budget: int
    seconds: float | None
    deadline: float
    callback: Callable[[Progress], object] | None
    target: Target
    hold: Hold = field(default_factory=Hold)  # says whether Ctrl-C was pressed

    def over(self, need: float = 0.0) -> str | None:
        """Why to stop now, with ``need`` seconds for the answer; None: go on."""
        if self.hold.came:
            return "hand"
        return "seconds" if time.perf_counter() + need > self.deadline else None

    def closing(self) -> Ends:
        """The limits of what only the answer needs, after a stop."""
        hand = time.perf_counter() + HAND_SECONDS
        deadline = min(self.deadline, hand) if self.hold.came else self.deadline
        return replace(self, deadline=deadline, hold=Hold())


def make_limits(
    epsilon: float | None,
    budget: float | None,
    seconds: float | None,
    callback: Callable[[Progress], object] | None,
    target: str,
    now: float,
) -> Ends:
    """The limits of a query that begins at ``now``, where outcomes are exact."""
    for name, value in (("epsilon", epsilon), ("budget", budget), ("seconds", seconds)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and (not number or not 0.0 < value <= LARGEST):
            raise InvalidInput(
                f"{name} must be a finite number above 0, got {value!r:.60}."
            )
    if epsilon is None and budget is None and seconds is None and callback is None:
        raise InvalidInput(
            "Certified search has to know when to stop: give epsilon, budget, "
            "seconds or callback."
        )
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    return Ends(
        epsilon=epsilon,
        goal=epsilon,
        equal=None,
        budget=DEFAULT_BUDGET if budget is None else int(budget),
        seconds=seconds,
        deadline=math.inf if seconds is None else now + seconds,
        callback=callback,
        target=target,  # type: ignore[arg-type]
    )


def estimated(limits: Ends, bound: Bound, facts: Facts, delta: float) -> Ends:
    """Return the limits where outcomes are estimated from samples.

    The goal is never below what rounding allows, and the price has a bound.
    """
    if limits.epsilon is None:
        return limits
    goal = max(limits.epsilon, bound.floor(facts))
    equal = EqualSamples(bound, facts, limits.epsilon, delta)
    return replace(limits, goal=goal, equal=equal)
