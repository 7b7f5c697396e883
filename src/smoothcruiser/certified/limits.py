"""When a query of certified search ends: the request, checked, as limits."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Literal

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.price import EqualSamples
from smoothcruiser.certified.rounding import model_floor
from smoothcruiser.certified.shares import delta_in_order
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.interrupts import StopRequest
from smoothcruiser.jit.stopwatch import Stopwatch
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.undiscounted import is_undiscounted
from smoothcruiser.progress import Callback, Phases
from smoothcruiser.query import nearest_to_zero

DEFAULT_BUDGET = 10**9
LARGEST = sys.float_info.max
HAND_SECONDS = 0.4  # for the answer, after Ctrl-C
# how long after the time limit a call that is under way is ended, as in a run
GRACE_SHARE, GRACE_SECONDS = 0.05, 0.2

Target = Literal["q_values", "value"]


@dataclass(frozen=True)
class QueryLimits:
    """When a query ends."""

    epsilon: float | None
    goal: float | None  # epsilon, or the half-width of double precision if larger
    # equal numbers of samples for epsilon; None where nothing is estimated
    equal: EqualSamples | None
    budget: int
    seconds: float | None
    due: float  # the deadline, if nothing more is compiled
    callback: Callback | None
    target: Target
    # the share of |V| that half-widths may have, in place of epsilon
    relative: float | None = None
    floor: float = 0.0  # the half-width that double precision can reach
    hold: StopRequest = field(
        default_factory=StopRequest
    )  # says whether Ctrl-C was pressed
    phases: Phases = field(default_factory=lambda: Phases(None))
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def deadline(self) -> float:
        """When the time is up, by ``time.perf_counter()``: compiling puts it off."""
        return self.due + self.watch.stood_still() if self.due < math.inf else math.inf

    def stopped_by(self, hold: StopRequest) -> QueryLimits:
        """The same limits in a held run, which reports its phases."""
        return replace(self, hold=hold, phases=Phases(self.callback, hold))

    def reserve_calls(self, reserve: Callable[[int], int]) -> QueryLimits:
        """The same limits with the calls that ``reserve`` leaves of the budget."""
        return replace(self, budget=reserve(self.budget))

    @property
    def latest(self) -> float:
        """When a call of the oracle that is still under way is ended."""
        return self.deadline + GRACE_SHARE * (self.seconds or 0.0) + GRACE_SECONDS

    def stop_reason(self, seconds_needed: float = 0.0) -> str | None:
        """Why to stop now, with ``seconds_needed`` for the answer; None: go on."""
        if self.hold.came:
            return "hand"
        if self.phases.refused:
            return "callback"
        return (
            "seconds" if time.perf_counter() + seconds_needed > self.deadline else None
        )

    def postpone(self, seconds: float) -> QueryLimits:
        """The same limits after ``seconds`` of compiling, which count against none."""
        return replace(self, due=self.due + seconds, watch=Stopwatch())

    def closing_limits(self) -> QueryLimits:
        """The limits of the work after a stop, which only the answer needs."""
        hand_deadline = time.perf_counter() + HAND_SECONDS
        closing_time = (
            min(self.deadline, hand_deadline) if self.hold.came else self.deadline
        )
        fresh_controls = {
            "hold": StopRequest(),
            "phases": Phases(None),
            "watch": Stopwatch(),
        }
        return replace(self, due=closing_time, **fresh_controls)  # type: ignore[arg-type]

    def goal_at(self, interval: tuple[float, float]) -> float | None:
        """The half-width that ends the query where V is known to lie in ``interval``.

        A share of |V| is a share of the smallest |v| in there: all that is known of
        |V| from below. None where there is no goal (yet).
        """
        if self.relative is None:
            return self.goal
        smallest_value = nearest_to_zero(interval)
        goal = max(self.relative * smallest_value, self.floor)
        is_narrow = 0.5 * (interval[1] - interval[0]) <= goal
        return goal if smallest_value > 0.0 or is_narrow else None

    def promised_width(self, interval: tuple[float, float]) -> float | None:
        """How far from V the answer may be where V is known to lie in ``interval``."""
        if self.relative is not None:
            return self.relative * nearest_to_zero(interval)
        return self.epsilon

    def is_reached(self, half_width: float, interval: tuple[float, float]) -> bool:
        """Whether the promise itself is kept, whatever double precision can reach."""
        promised_width = self.promised_width(interval)
        return promised_width is not None and half_width <= promised_width


def make_limits(
    epsilon: float | None,
    budget: float | None,
    seconds: float | None,
    callback: Callback | None,
    target: str,
    now: float,
    relative: float | None = None,
) -> QueryLimits:
    """The limits of a query that begins at ``now``, where outcomes are exact."""
    if epsilon is not None and relative is not None:
        raise InvalidInput("Give epsilon or relative, one of the two.")
    accuracy_arguments = {"epsilon": epsilon, "relative": relative}
    for name, value in (
        accuracy_arguments | {"budget": budget, "seconds": seconds}
    ).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and (not is_number or not 0.0 < value <= LARGEST):
            is_text = isinstance(value, str) and name == "epsilon"
            hint = "; percentages are for plan" if is_text else ""
            raise InvalidInput(
                f"{name} must be a finite number above 0, got {value!r:.60}{hint}."
            )
    # a bar ends nothing
    stop_callback = None if isinstance(callback, AbstractContextManager) else callback
    if all(x is None for x in (epsilon, relative, budget, seconds, stop_callback)):
        raise InvalidInput(
            "Certified search has to know when to stop: give epsilon, relative, "
            "budget, seconds, or a progress function that returns False."
        )
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    return QueryLimits(
        epsilon=epsilon,
        goal=epsilon,
        equal=None,
        budget=DEFAULT_BUDGET if budget is None else int(budget),
        seconds=seconds,
        due=math.inf if seconds is None else now + seconds,
        callback=callback,
        target=target,  # type: ignore[arg-type]
        relative=relative,
    )


def limits_for_rows(limits: QueryLimits, facts: Facts) -> QueryLimits:
    """Return the limits where rows of a known model are read.

    The goal is never below the half-width that rounding allows.
    """
    if limits.epsilon is None:
        return limits
    return replace(limits, goal=max(limits.epsilon, model_floor(facts)))


def is_priced(problem: Problem) -> bool:
    """Whether a number of calls is known before that certainly suffices."""
    return not is_undiscounted(problem) and problem.min_probability is None


def limits_for_samples(
    limits: QueryLimits, bound: Bound, problem: Problem, delta: float
) -> QueryLimits:
    """Return the limits where outcomes are estimated from samples.

    The goal is never below the half-width that rounding allows. The price has a bound
    if one is known before.
    """
    facts = problem.facts
    if is_undiscounted(problem):
        return limits
    limits = replace(limits, floor=bound.floor(facts))
    if limits.epsilon is None:
        return limits
    goal = max(limits.epsilon, limits.floor)
    equal_samples = None
    if is_priced(problem):
        pair_delta = delta_in_order(problem, delta)
        equal_samples = EqualSamples(bound, facts, limits.epsilon, pair_delta)
    return replace(limits, goal=goal, equal=equal_samples)
