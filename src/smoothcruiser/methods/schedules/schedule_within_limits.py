"""The schedule that a request with limits runs, and its cut into shards.

A budget or a time limit that does not pay for the requested epsilon is no reason to
refuse: the schedule with the smallest epsilon that can be paid is run instead, and a
note says so. Without an epsilon that is the whole request. Where not even half of the
value span can be promised, the schedule for that is run up to the limit, and the answer
is the interval that its samples allow.

  budget    the price is compared with it: the choice is the same on every machine
  seconds   the simulator is measured first (``engines.calibrate``), where it runs, for
            at most ``TIME_SHARE`` of the time, and ``SHARE`` of the price or the budget
            where there is one; the time left, times the workers, is the budget

Where nobody named a limit, ``PreparedSchedule.check`` refuses prices above the default.
This file leaves out stopping a run at its limits (``engines.run``).
"""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from smoothcruiser.engines.shards import CALLS_PER_SHARD
from smoothcruiser.errors import InvalidInput, SmoothcruiserError, Unpayable
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallRole
from smoothcruiser.run_control.clock import Clock, pause_clock
from smoothcruiser.schedule.number_text import power_of_ten, short
from smoothcruiser.schedule.reach import (
    OutOfReach,
    OutOfTime,
    check_patience,
    patience,
)
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.theory.least_price import least_price

if TYPE_CHECKING:
    from smoothcruiser.engines.calibrate import Speed
    from smoothcruiser.engines.pilot import FirstSamples
    from smoothcruiser.engines.worker_reuse import TimedWorkers
    from smoothcruiser.run_control.call_seconds import Breaker

COARSEST = 0.5  # of the value span: a wider promise says nothing
SHARE = 0.05  # of the calls, to measure the simulator
TIME_SHARE = 0.03  # of the seconds
MOST_SECONDS = 0.3  # to measure it, in any case
# Of the calls that the measured speed allows, a schedule may cost so much: machines are
# not steady. One that is chosen for the time gets root samples for ``OVERFULL`` times
# these calls, so that the clock ends it and no good luck: its bounds hold at every count.
MARGIN, OVERFULL = 0.85, 3.0
# Of the seconds, for the choice of a schedule: after the first share the best one so far
# is taken. Only where there is none, the search goes on for the second: at discount 0.2
# the widest schedule has intervals 200 times as wide as the one that 0.4 s find.
CHOICE_SHARE, LONGEST_SHARE = 0.1, 0.5
# A run that may be stopped is cut finer, so that all actions get their turn: shards
# of so many seconds, or so many shards per action within the budget.
SHARD_SECONDS, TURNS = 0.2, 50
MOST_CALLS = 10**300  # beyond, a count is no float


class ScheduleMaker(Protocol):
    """A method that makes schedules."""

    def schedule(self, query: Query) -> Schedule:
        """The cheapest schedule of this kind that keeps the promise."""

    def payable(self, query: Query, calls: int, quick: bool) -> Schedule:
        """The schedule of the smallest epsilon found that costs at most ``calls``.

        It raises where there is none.
        """


@dataclass(frozen=True, kw_only=True)
class FittedSchedule:
    """The schedule that a request runs within its limits."""

    schedule: Schedule
    notes: tuple[str, ...] = ()
    shards: int | None = None  # parts per action; None: as many as always
    room: float = (
        math.inf
    )  # calls of the schedule, where its price is above the budget
    seconds: float = 0.0  # of the time limit that the choice took, without compiling
    pressed: bool = False  # Ctrl-C, while the simulator was measured
    compile_seconds: float = 0.0  # before it was measured
    inspects: bool = True  # whether the step is inspected, before and after the run
    workers: TimedWorkers | None = None  # those that were timed
    begun: FirstSamples | None = None  # samples of the run that a pilot took
    # half-width at which an action may stop; None: the schedule's epsilon
    wanted: float | None = None

    def inspection_calls(self, problem: Problem) -> int:
        """Calls beside those of the schedule, at the most."""
        return problem.inspection_calls if self.inspects else 0

    def most_calls(self, problem: Problem) -> int:
        """All calls of the run, at the most."""
        price = self.schedule.num_calls
        price = price if price <= self.room else int(self.room)
        return self.inspection_calls(problem) + price

    def again(self) -> FittedSchedule:
        """The same, where the time of choosing it is counted elsewhere."""
        return replace(self, seconds=0.0, compile_seconds=0.0, pressed=False)


def fit_schedule(method: ScheduleMaker, query: Query) -> FittedSchedule:
    """The schedule to run for a request, whatever its limits are.

    With ``seconds`` the simulator is measured. Errors are for requests that lack
    something, and for problems that no limit could change.
    """
    limits = query.limits
    clock = Clock(limits.seconds)
    if not query.promise.asked and not (limits.calls or limits.seconds):
        raise InvalidInput(
            "This method needs epsilon, the half-width of the promised interval "
            "(epsilon=0.1, or epsilon='5%'), or a limit for the best promise that it "
            "pays for: budget= or seconds=."
        )
    if limits.calls is None and limits.seconds is None:
        return FittedSchedule(schedule=method.schedule(query))
    requested_schedule, price_text = _requested_schedule(method, query, clock)
    budget: float = math.inf
    if limits.calls is not None:
        inspection_calls = query.problem.inspection_calls if _inspects(query) else 0
        budget = limits.calls - inspection_calls
    pace = _Pace()
    if limits.seconds is not None:
        pace = _measure_pace(query, _to_measure(budget, requested_schedule))
        budget -= query.ledger.count(CallRole.TIMING)
    return _within(method, query, requested_schedule, price_text, budget, pace, clock)


def _within(
    method: ScheduleMaker,
    query: Query,
    requested_schedule: Schedule | None,
    price_text: str,
    budget: float,
    pace: _Pace,
    clock: Clock,
) -> FittedSchedule:
    """The schedule for so many calls, and for the time by ``clock`` that is left."""
    limits = query.limits
    in_time = pace.calls_in(clock)
    schedule = requested_schedule
    notes: tuple[str, ...] = ()
    wanted_width = num_shards = None
    if requested_schedule is None or requested_schedule.num_calls > min(
        budget, in_time
    ):
        is_quick = in_time < budget
        max_calls = min(budget, in_time)
        schedule = _payable(method, query, max_calls, is_quick, clock)
        limit_text = (
            f"the {limits.seconds:.3g} s allowed"
            if is_quick
            else f"the budget of {short(limits.calls or 0)}"
        )
        notes = _notes(query, schedule, price_text, limit_text, max_calls)
        if limits.seconds is not None:  # it is used until nothing more is wanted
            wanted_width = query.promise.epsilon or 0.0
        if is_quick:
            schedule = _stretch_schedule(
                query, schedule, min(budget, OVERFULL * in_time), pace.rate
            )
        num_shards = _shards(query, schedule, budget, pace.rate)
    assert schedule is not None
    return FittedSchedule(
        schedule=schedule,
        notes=notes,
        shards=num_shards,
        room=math.inf if schedule.num_calls <= budget else budget,
        seconds=clock.elapsed(),
        pressed=pace.pressed,
        compile_seconds=pace.compile_seconds,
        inspects=_inspects(query),
        workers=pace.opened,
        wanted=wanted_width,
    )


def _stretch_schedule(
    query: Query, schedule: Schedule, calls: float, rate: float | None
) -> Schedule:
    """The schedule with root samples for so many calls, or for fewer.

    A shard's error of rounding grows with its samples, and is refused where it comes near
    epsilon.
    """
    while calls > schedule.num_calls:
        longer_schedule = schedule.stretch_root(calls)
        if _survives_rounding(
            longer_schedule, _shards(query, longer_schedule, math.inf, rate)
        ):
            return longer_schedule
        calls *= 0.5
    return schedule


def _survives_rounding(schedule: Schedule, shards: int | None = None) -> bool:
    """Whether floating point can keep the promise, with the sums of so many shards."""
    from smoothcruiser.engines.stopping_rule import stopping_rule

    try:
        stopping_rule(schedule, shards)
    except InvalidInput:
        return False
    return True


def _inspects(query: Query) -> bool:
    """Whether the budget allows to inspect the step before and after the run."""
    call_limit = query.limits.calls
    return call_limit is None or call_limit >= query.problem.inspection_calls


def _to_measure(budget: float, requested_schedule: Schedule | None) -> float:
    """The calls that measuring the simulator may take.

    They are a share of the price of the requested epsilon, within the rest of the
    budget, or a share of a budget that does not pay for it.
    """
    if requested_schedule is None or requested_schedule.num_calls > budget:
        return SHARE * budget
    return min(
        SHARE * requested_schedule.num_calls, budget - requested_schedule.num_calls
    )


def _requested_schedule(
    method: ScheduleMaker, query: Query, clock: Clock
) -> tuple[Schedule | None, str]:
    """The schedule for the requested epsilon, if there is one, and its price."""
    promise, call_limit = query.promise, query.limits.calls
    if promise.epsilon is None:
        return None, ""
    if promise.delta is not None and call_limit is not None:
        price_floor = least_price(
            query.problem.facts, promise.epsilon, promise.delta, promise.target
        )
        if price_floor.log_calls > math.log(call_limit):
            return None, f"at least {power_of_ten(price_floor.log_calls)} calls"
    try:
        with _choice_time(clock):
            schedule = method.schedule(query)
    except OutOfReach as error:
        return None, f"at least {power_of_ten(error.log_calls)} calls"
    except OutOfTime:
        check_patience()  # of a caller that knows something better to do
        return None, "more than could be computed in this time"
    except Unpayable:
        return None, "more calls than can be counted"
    return schedule, f"{short(schedule.num_calls)} calls"


def _choice_time(
    clock: Clock, share: float = CHOICE_SHARE
) -> AbstractContextManager[None]:
    """A search for schedules ends when it has taken ``share`` of ``seconds=``."""
    if not clock.is_limited:
        return nullcontext()
    return patience(clock.elapsed() + share * clock.limit, clock.elapsed)


def _payable(
    method: ScheduleMaker, query: Query, calls: float, quick: bool, clock: Clock
) -> Schedule:
    """The schedule with the smallest epsilon for so many calls.

    It is that of ``COARSEST`` where no useful one can be paid, or found in time.
    """
    from smoothcruiser.schedule.alternatives import FINEST, TINY

    facts, promise = query.problem.facts, query.promise
    min_epsilon = promise.epsilon or FINEST * max(facts.value_span(), TINY)
    max_epsilon = max(COARSEST * facts.value_span(), min_epsilon)

    def at(epsilon: float) -> Schedule:
        new_promise = replace(promise, epsilon=epsilon, words=epsilon)
        return method.schedule(replace(query, promise=new_promise))

    widest_schedule = at(max_epsilon)
    if (
        widest_schedule.num_calls > calls
    ):  # the inverse would take seconds to find that out
        return widest_schedule
    for share in (CHOICE_SHARE, LONGEST_SHARE - CHOICE_SHARE):
        try:
            with _choice_time(clock, share):
                best_schedule = method.payable(
                    query, int(min(calls, MOST_CALLS)), quick
                )
        except OutOfTime:  # a second search begins where this one ended
            check_patience()  # of a caller that knows something better to do
            continue
        except SmoothcruiserError:  # too few calls for any
            break
        clipped_epsilon = min(max(best_schedule.epsilon, min_epsilon), max_epsilon)
        if best_schedule.epsilon != clipped_epsilon:
            best_schedule = at(clipped_epsilon)
        while promise.epsilon is None and not _survives_rounding(best_schedule):
            if best_schedule.epsilon >= max_epsilon:
                break
            best_schedule = at(min(2.0 * best_schedule.epsilon, max_epsilon))
        return best_schedule
    return widest_schedule


def _notes(
    query: Query, schedule: Schedule, price_text: str, limit_text: str, calls: float
) -> tuple[str, ...]:
    """The note on a schedule that runs instead of the requested one, and why."""
    requested_epsilon = query.promise.epsilon
    wish_text = ""
    if requested_epsilon is not None:
        price_words = f"would cost {price_text}, more than {limit_text}: "
        wish_text = f"epsilon {requested_epsilon:g} {price_words}"
    schedule_text = f"the schedule is for epsilon {schedule.epsilon:g}, "
    if schedule.num_calls <= calls:
        schedule_text += f"about the smallest that fits {limit_text}."
    elif schedule.epsilon < COARSEST * query.problem.facts.value_span():
        schedule_text += f"and {limit_text} may end before it."
    else:
        schedule_text = (
            f"no schedule that promises half of the value span fits {limit_text}; one for "
            f"epsilon {schedule.epsilon:g} is run as far as that goes."
        )
    sentence = f"{wish_text}{schedule_text}"
    return (sentence[0].upper() + sentence[1:],)


def _shards(
    query: Query, schedule: Schedule, budget: float, rate: float | None
) -> int | None:
    """The number of shards of an action's samples; None is the usual number."""
    if query.compute.shards is not None:
        return query.compute.shards
    root = schedule.root
    num_means = schedule.facts.num_actions if root.target == "q_values" else 1
    calls_per_mean = min(schedule.num_calls, MOST_CALLS) / num_means
    shard_calls = math.inf
    if schedule.num_calls > budget:
        shard_calls = budget / (num_means * TURNS)
    elif rate:
        turn_seconds = (query.limits.seconds or math.inf) / (num_means * TURNS)
        shard_calls = rate * min(SHARD_SECONDS, turn_seconds)
    elif query.limits.seconds is not None:
        shard_calls = budget / (num_means * TURNS)
    if not shard_calls < CALLS_PER_SHARD:
        return None
    return max(1, min(root.samples, math.ceil(calls_per_mean / max(shard_calls, 1.0))))


# --- seconds ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """The measured speed of a simulator."""

    rate: float | None = None  # calls per second of one worker; None: not measured
    workers: float = 1.0  # that work at once
    compile_seconds: float = 0.0
    pressed: bool = False
    opened: TimedWorkers | None = None  # workers elsewhere that are ready

    def calls_in(self, clock: Clock) -> float:
        """The calls for which there is time."""
        if not clock.is_limited or self.rate is None:
            return math.inf
        return MARGIN * self.rate * self.workers * max(0.0, clock.left())


def _measure_pace(query: Query, most_calls: float) -> _Pace:
    """The pace of the executor that will run the request, measured where it runs.

    It is not known where there is no call to measure it: then the clock alone ends the
    run.
    """
    with pause_clock():  # they load Numba
        from smoothcruiser.engines.pools.base import check_workers
        from smoothcruiser.engines.registry import choose
        from smoothcruiser.run_control.call_seconds import Breaker

    time_limit = query.limits.seconds
    assert time_limit is not None
    if most_calls < 1:
        return _Pace()
    executor = choose(query.problem, query.compute)
    breaker = Breaker()
    is_elsewhere = executor.pool is not None
    measure_speed = _speed_elsewhere if is_elsewhere else _speed_here
    try:
        with breaker:
            speed, timed_workers = measure_speed(
                query, executor.name, most_calls, breaker
            )
    except KeyboardInterrupt:  # or one call lasts longer than all may
        return _Pace(rate=0.0, pressed=not breaker.fired)
    is_parallel = is_elsewhere or executor.engine(query.problem).parallel
    num_workers = check_workers(query.compute.workers) if is_parallel else 1
    # Workers that compute share the cores; those that wait do not.
    free_cores = (os.cpu_count() or 1) / max(speed.busy, 1e-3)
    return _Pace(
        rate=speed.rate,
        workers=min(num_workers, max(1.0, free_cores)),
        compile_seconds=speed.compile_seconds,
        opened=timed_workers,
    )


def _speed_here(
    query: Query, executor: str, most_calls: float, breaker: Breaker
) -> tuple[Speed, None]:
    """The speed of an engine in this process."""
    with pause_clock():
        from smoothcruiser.engines.calibrate import calls_per_second

    time_limit = query.limits.seconds or 0.0
    speed = calls_per_second(
        query.problem,
        query.place,
        executor,
        seconds=min(MOST_SECONDS, TIME_SHARE * time_limit),
        began=lambda: breaker.arm(time_limit),
        most_calls=most_calls,
        ledger=query.ledger,
    )
    return speed, None


def _speed_elsewhere(
    query: Query, executor: str, most_calls: float, breaker: Breaker
) -> tuple[Speed, TimedWorkers]:
    """The speed of a worker, and the workers: a step that ends its process ends one.

    Starting them is part of the time limit.
    """
    with pause_clock():
        from smoothcruiser.engines.calibrate import timing_job
        from smoothcruiser.engines.registry import open_workers
        from smoothcruiser.engines.worker_reuse import TimedWorkers, time_worker
        from smoothcruiser.engines.workers import ShardWorkers

    time_limit = query.limits.seconds or 0.0
    breaker.arm(time_limit)
    workers = open_workers(
        timing_job(query.problem, query.place, most_calls), query.compute
    )
    assert isinstance(workers, ShardWorkers)
    try:
        seconds = min(MOST_SECONDS, TIME_SHARE * time_limit)
        speed = time_worker(workers, seconds, most_calls)
        query.ledger.spend(CallRole.TIMING, speed.calls)
    except BaseException:
        workers.close()
        raise
    return speed, TimedWorkers(workers)
