"""Which schedule a request with limits runs, and how it is cut.

A budget or a time limit that does not pay for the requested epsilon is no reason to
refuse: the schedule with the smallest epsilon that can be paid is run instead, and a
note says so. Without an epsilon that is all that was asked for. Where not even half
of the value span can be promised, the schedule for that is run up to the limit, and
the answer is what its samples allow.

  budget    the price is compared with it: the choice is the same on every machine
  seconds   the simulator is measured first (``engines.calibrate``), where it runs, for
            at most ``TIME_SHARE`` of the time, and ``SHARE`` of the price or the budget
            where there is one; what is left, times the workers, is the budget

Where nobody named a limit, ``Scheduling.check`` refuses what is above the default.
What this file leaves out: stopping a run at its limits (``engines.run``).
"""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from smoothcruiser.engines.shards import CALLS_PER_SHARD
from smoothcruiser.errors import (
    InvalidInput,
    SmoothcruiserError,
    Unpayable,
)
from smoothcruiser.jit.stopwatch import Stopwatch, uncounted
from smoothcruiser.query import Query
from smoothcruiser.schedule.numbers import power_of_ten, short
from smoothcruiser.schedule.reach import (
    Clock,
    OutOfReach,
    OutOfTime,
    check_patience,
    patience,
)
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.theory.least_price import least_price

if TYPE_CHECKING:
    from smoothcruiser.engines.calibrate import Speed
    from smoothcruiser.engines.forecast import FirstSamples
    from smoothcruiser.engines.lending import TimedWorkers
    from smoothcruiser.engines.watchdog import Breaker

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


class Maker(Protocol):
    """A method that makes schedules."""

    def schedule(self, query: Query) -> Schedule:
        """The cheapest schedule of this kind that keeps the promise."""

    def payable(self, query: Query, calls: int, quick: bool) -> Schedule:
        """The schedule of the smallest epsilon found that costs at most ``calls``.

        It raises where there is none.
        """


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The schedule that a request runs within its limits."""

    schedule: Schedule
    notes: tuple[str, ...] = ()
    shards: int | None = None  # parts per action; None: as many as always
    room: float = math.inf  # calls of the schedule, where its price is above the budget
    calls: int = 0  # made to measure the simulator
    seconds: float = 0.0  # of the time limit that the choice took, without compiling
    pressed: bool = False  # Ctrl-C, while the simulator was measured
    compile_seconds: float = 0.0  # before it was measured
    inspects: bool = True  # whether the step is inspected, before and after the run
    looks: int = 0  # calls of the inspections, at the most
    workers: TimedWorkers | None = None  # those that were timed
    begun: FirstSamples | None = None  # what a pilot has drawn of the run
    # half-width at which an action may stop; None: the schedule's epsilon
    wanted: float | None = None

    @property
    def beside(self) -> int:
        """Calls beside those of the schedule, at the most."""
        return self.calls + (self.looks if self.inspects else 0)

    @property
    def price(self) -> int:
        """All calls of the request, at the most."""
        price = self.schedule.num_calls
        return self.beside + (price if price <= self.room else int(self.room))

    def again(self) -> Fitted:
        """The same, where what choosing it took is counted elsewhere."""
        return replace(self, calls=0, seconds=0.0, compile_seconds=0.0, pressed=False)


def fitted(method: Maker, query: Query) -> Fitted:
    """The schedule to run for a request, whatever its limits are.

    With ``seconds`` the simulator is measured. Errors are for what is missing from the
    request, and for what no limit could change.
    """
    limits = query.limits
    watch = None if limits.seconds is None else Stopwatch()
    if not query.promise.asked and not (limits.calls or limits.seconds):
        raise InvalidInput(
            "This method needs epsilon, the half-width of the promised interval "
            "(epsilon=0.1, or epsilon='5%'), or a limit for the best promise that it "
            "pays for: budget= or seconds=."
        )
    looks = query.problem.inspection_calls
    if limits.calls is None and limits.seconds is None:
        return Fitted(schedule=method.schedule(query), looks=looks)
    asked, price = _asked(method, query, watch)
    budget: float = math.inf
    if limits.calls is not None:
        budget = limits.calls - (looks if _inspects(query) else 0)
    pace = _Pace()
    if limits.seconds is not None:
        pace = _measured(query, _to_measure(budget, asked))
        budget -= pace.calls
    try:
        return _within(method, query, asked, price, budget, pace, watch)
    except (KeyboardInterrupt, SmoothcruiserError) as stop:  # they were made
        stop.calls = pace.calls  # type: ignore[union-attr]
        raise


def _within(
    method: Maker,
    query: Query,
    asked: Schedule | None,
    price: str,
    budget: float,
    pace: _Pace,
    watch: Stopwatch | None,
) -> Fitted:
    """The schedule for so many calls, and for the time by ``watch`` that is left."""
    limits = query.limits

    def spent() -> float:
        return 0.0 if watch is None else watch.elapsed()

    in_time = pace.calls_in(query, spent())
    found = asked
    notes: tuple[str, ...] = ()
    wanted = shards = None
    if asked is None or asked.num_calls > min(budget, in_time):
        quick = in_time < budget
        calls = min(budget, in_time)
        found = _payable(method, query, calls, quick, spent)
        limit = (
            f"the {limits.seconds:.3g} s allowed"
            if quick
            else f"the budget of {short(limits.calls or 0)}"
        )
        notes = _notes(query, found, price, limit, calls)
        if limits.seconds is not None:  # it is used until nothing more is wanted
            wanted = query.promise.epsilon or 0.0
        if quick:
            found = _stretched(query, found, min(budget, OVERFULL * in_time), pace.rate)
        shards = _shards(query, found, budget, pace.rate)
    assert found is not None
    return Fitted(
        schedule=found,
        notes=notes,
        shards=shards,
        room=math.inf if found.num_calls <= budget else budget,
        calls=pace.calls,
        seconds=spent(),
        pressed=pace.pressed,
        compile_seconds=pace.compile_seconds,
        looks=query.problem.inspection_calls,
        inspects=_inspects(query),
        workers=pace.opened,
        wanted=wanted,
    )


def _stretched(
    query: Query, schedule: Schedule, calls: float, rate: float | None
) -> Schedule:
    """The schedule with root samples for so many calls, or for fewer.

    A shard's error of rounding grows with its samples, and is refused where it comes near
    epsilon.
    """
    while calls > schedule.num_calls:
        longer = schedule.stretch_root(calls)
        if _survives_rounding(longer, _shards(query, longer, math.inf, rate)):
            return longer
        calls *= 0.5
    return schedule


def _survives_rounding(schedule: Schedule, shards: int | None = None) -> bool:
    """Whether floating point can keep the promise, with the sums of so many shards."""
    from smoothcruiser.engines.stopping import stopping_rule

    try:
        stopping_rule(schedule, shards)
    except InvalidInput:
        return False
    return True


def _inspects(query: Query) -> bool:
    """Whether the budget allows to inspect the step before and after the run."""
    calls = query.limits.calls
    return calls is None or calls >= query.problem.inspection_calls


def _to_measure(budget: float, asked: Schedule | None) -> float:
    """The calls that measuring the simulator may take.

    They are a share of the price of the requested epsilon and what the budget leaves
    beside it, or a share of the budget that does not pay for it.
    """
    if asked is None or asked.num_calls > budget:
        return SHARE * budget
    return min(SHARE * asked.num_calls, budget - asked.num_calls)


def _asked(
    method: Maker, query: Query, watch: Stopwatch | None
) -> tuple[Schedule | None, str]:
    """The schedule for the requested epsilon, if there is one, and its price."""
    promise, calls = query.promise, query.limits.calls
    if promise.epsilon is None:
        return None, ""
    if promise.delta is not None and calls is not None:
        least = least_price(
            query.problem.facts, promise.epsilon, promise.delta, promise.target
        )
        if least.log_calls > math.log(calls):
            return None, f"at least {power_of_ten(least.log_calls)} calls"
    try:
        with _choice_time(query, None if watch is None else watch.elapsed):
            asked = method.schedule(query)
    except OutOfReach as error:
        return None, f"at least {power_of_ten(error.log_calls)} calls"
    except OutOfTime:
        check_patience()  # of a caller that knows something better to do
        return None, "more than could be computed in this time"
    except Unpayable:
        return None, "more calls than can be counted"
    return asked, f"{short(asked.num_calls)} calls"


def _choice_time(
    query: Query, clock: Clock | None, share: float = CHOICE_SHARE
) -> AbstractContextManager[None]:
    """A search for schedules ends when it has taken ``share`` of ``seconds=``."""
    if clock is None or query.limits.seconds is None:
        return nullcontext()
    return patience(clock() + share * query.limits.seconds, clock)


def _payable(
    method: Maker, query: Query, calls: float, quick: bool, clock: Clock
) -> Schedule:
    """The schedule with the smallest epsilon for so many calls.

    It is that of ``COARSEST`` where no useful one can be paid, or found in time.
    """
    from smoothcruiser.schedule.alternatives import FINEST, TINY

    facts, promise = query.problem.facts, query.promise
    least = promise.epsilon or FINEST * max(facts.value_span(), TINY)
    coarsest = max(COARSEST * facts.value_span(), least)

    def at(epsilon: float) -> Schedule:
        asked = replace(promise, epsilon=epsilon, words=epsilon)
        return method.schedule(replace(query, promise=asked))

    widest = at(coarsest)
    if widest.num_calls > calls:  # the inverse would take seconds to find that out
        return widest
    for share in (CHOICE_SHARE, LONGEST_SHARE - CHOICE_SHARE):
        try:
            with _choice_time(query, clock, share):
                dearest = method.payable(query, int(min(calls, MOST_CALLS)), quick)
        except OutOfTime:  # a second search begins where this one ended
            check_patience()  # of a caller that knows something better to do
            continue
        except SmoothcruiserError:  # too few calls for any
            break
        if not least <= dearest.epsilon <= coarsest:
            dearest = at(min(max(dearest.epsilon, least), coarsest))
        while promise.epsilon is None and not _survives_rounding(dearest):
            if dearest.epsilon >= coarsest:
                break
            dearest = at(min(2.0 * dearest.epsilon, coarsest))
        return dearest
    return widest


def _notes(
    query: Query, found: Schedule, price: str, limit: str, calls: float
) -> tuple[str, ...]:
    """What is run instead of what was requested, and why."""
    asked = query.promise.epsilon
    wish = (
        ""
        if asked is None
        else f"epsilon {asked:g} would cost {price}, more than {limit}: "
    )
    about = f"the schedule is for epsilon {found.epsilon:g}, "
    if found.num_calls <= calls:
        about += f"about the smallest that fits {limit}."
    elif found.epsilon < COARSEST * query.problem.facts.value_span():
        about += f"and {limit} may end before it."
    else:
        about = (
            f"no schedule that promises half of the value span fits {limit}; one for "
            f"epsilon {found.epsilon:g} is run as far as that goes."
        )
    sentence = f"{wish}{about}"
    return (sentence[0].upper() + sentence[1:],)


def _shards(
    query: Query, found: Schedule, budget: float, rate: float | None
) -> int | None:
    """Into how many parts an action's samples are cut; None is the usual number."""
    if query.compute.shards is not None:
        return query.compute.shards
    root = found.root
    means = found.facts.num_actions if root.target == "q_values" else 1
    each = min(found.num_calls, MOST_CALLS) / means
    size = math.inf
    if found.num_calls > budget:
        size = budget / (means * TURNS)
    elif rate:
        turn = (query.limits.seconds or math.inf) / (means * TURNS)
        size = rate * min(SHARD_SECONDS, turn)
    elif query.limits.seconds is not None:
        size = budget / (means * TURNS)
    if not size < CALLS_PER_SHARD:
        return None
    return max(1, min(root.samples, math.ceil(each / max(size, 1.0))))


# --- seconds ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """What was measured of a simulator."""

    rate: float | None = None  # calls per second of one worker; None: not measured
    workers: float = 1.0  # that work at once
    calls: int = 0
    compile_seconds: float = 0.0
    pressed: bool = False
    opened: TimedWorkers | None = None  # workers elsewhere that are ready

    def calls_in(self, query: Query, spent: float) -> float:
        """The calls for which there is time; ``spent`` are seconds so far."""
        if query.limits.seconds is None or self.rate is None:
            return math.inf
        left = query.limits.seconds - spent
        return MARGIN * self.rate * self.workers * max(0.0, left)


def _measured(query: Query, most_calls: float) -> _Pace:
    """The pace of the executor that will run the request, measured where it runs.

    It is not known where there is no call to measure it: then the clock alone ends the
    run.
    """
    with uncounted():  # they load Numba
        from smoothcruiser.engines.pools.base import check_workers
        from smoothcruiser.engines.registry import choose
        from smoothcruiser.engines.watchdog import Breaker

    seconds = query.limits.seconds
    assert seconds is not None
    if most_calls < 1:
        return _Pace()
    row = choose(query.problem, query.compute)
    breaker = Breaker()
    elsewhere = row.pool is not None
    measure = _speed_elsewhere if elsewhere else _speed_here
    try:
        with breaker:
            speed, opened = measure(query, row.name, most_calls, breaker)
    except KeyboardInterrupt as stop:  # or one call lasts longer than all may
        made = getattr(stop, "calls", 0)
        return _Pace(rate=0.0, calls=made, pressed=not breaker.fired)
    many = elsewhere or row.engine(query.problem).parallel
    workers = check_workers(query.compute.workers) if many else 1
    # Workers that compute share the cores; those that wait do not.
    cores = (os.cpu_count() or 1) / max(speed.busy, 1e-3)
    return _Pace(
        rate=speed.rate,
        workers=min(workers, max(1.0, cores)),
        calls=speed.calls,
        compile_seconds=speed.compile_seconds,
        opened=opened,
    )


def _speed_here(
    query: Query, executor: str, most_calls: float, breaker: Breaker
) -> tuple[Speed, None]:
    """The speed of an engine in this process."""
    with uncounted():
        from smoothcruiser.engines.calibrate import calls_per_second

    seconds = query.limits.seconds or 0.0
    speed = calls_per_second(
        query.problem,
        query.place,
        executor,
        seconds=min(MOST_SECONDS, TIME_SHARE * seconds),
        began=lambda: breaker.arm(seconds),
        most_calls=most_calls,
    )
    return speed, None


def _speed_elsewhere(
    query: Query, executor: str, most_calls: float, breaker: Breaker
) -> tuple[Speed, TimedWorkers]:
    """The speed of a worker, and the workers: a step that ends its process ends one.

    Starting them is part of the time limit.
    """
    with uncounted():
        from smoothcruiser.engines.calibrate import timing_job
        from smoothcruiser.engines.lending import TimedWorkers
        from smoothcruiser.engines.registry import open_workers
        from smoothcruiser.engines.workers import ShardWorkers

    seconds = query.limits.seconds or 0.0
    breaker.arm(seconds)
    workers = open_workers(
        timing_job(query.problem, query.place, most_calls), query.compute
    )
    assert isinstance(workers, ShardWorkers)
    try:
        speed = workers.measure(min(MOST_SECONDS, TIME_SHARE * seconds), most_calls)
    except BaseException:
        workers.close()
        raise
    return speed, TimedWorkers(workers)
