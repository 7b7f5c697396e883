"""One run of a schedule: workers, store, time limit, inspections of the step.

A run that is stopped, by its time limit, by hand, by a callback or at its budget,
answers with the interval that its samples allow (``engines.run``). The time limit
counts from the preparation on and leaves out compiling. It holds for the inspections of
the step too: each gets a share of it, the one after the run at least one call, and none where the
limit has passed by more than its grace.

Two answers as one: the intersection of both intervals.

The failures of the two have probability delta together, so outside of them both
intervals hold, and with them every part that they share (docs/auto.md). The values are
those of the better estimate, the one with the smaller usual standard error (where there
is none: with the narrower interval), brought into the intersection, and within epsilon
of its ends where the promise is kept. The policy is that of the answer's action values.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from smoothcruiser.errors import Interrupted, InvalidInput, StoreError, WorkersLost
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Interval,
    best_action,
    bring_inside,
    error_if_near,
    not_excluded,
)
from smoothcruiser.methods.schedules.schedule_within_limits import FittedSchedule
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.step_errors import contradiction
from smoothcruiser.progress import Phase, Phases
from smoothcruiser.query import Compute, Query
from smoothcruiser.run_control.call_ledger import CallLedger, CallRole
from smoothcruiser.run_control.call_seconds import Breaker, calls_the_oracle
from smoothcruiser.run_control.clock import Clock, pause_clock
from smoothcruiser.run_control.control import Control, StopReason
from smoothcruiser.run_control.stop_requests import (
    count_stop,
    stoppable,
    tell_at_the_end,
    unbroken,
)
from smoothcruiser.schedule.schedule import Schedule

if TYPE_CHECKING:
    from smoothcruiser.engines.base import Job, Workers
    from smoothcruiser.engines.pilot import FirstSamples
    from smoothcruiser.engines.root_answer import RunRecord
    from smoothcruiser.engines.run import Ledger, Listener, Outcome
    from smoothcruiser.engines.shards import Partial, Shard
    from smoothcruiser.store import Record, Store, StoredRun

    Open = Callable[[Job, Compute], Workers]

log = logging.getLogger(__name__)

# Of the seconds of a run, for each of the inspections of the step before and after it.
LOOK_SHARE = 0.05
REPLAYED_CALLS = 1000  # of a stored run, at least, when it is resumed
LAST_LOOK_SECONDS = 0.2  # for the one after a run that was stopped by hand


def start_run(
    query: Query,
    chosen: FittedSchedule,
    stored: StoredRun | None = None,
    opened: Open | None = None,
) -> Estimate:
    """A run, in a store if one was named; one that is stored already goes on."""
    query = replace(query, state=query.place)
    if query.compute.store is None:
        return _run_schedule(query, chosen, None, opened)
    from smoothcruiser.store import Store

    with Store(query.compute.store) as store:
        run_number = (
            store.begin(store_record(query, chosen.schedule))
            if stored is None
            else stored.id
        )
        return _run_schedule(query, chosen, (store, run_number))


def store_record(query: Query, schedule: Schedule) -> Record:
    """The record in a store of a run that begins."""
    from smoothcruiser.engines.registry import choose
    from smoothcruiser.store import Record
    from smoothcruiser.store.record_checks import plain

    return Record(
        problem=query.problem,
        method=schedule.method,
        plan=plain(schedule),
        state=query.place,
        seed=query.seed,
        shards=query.compute.shards,
        executor=choose(query.problem, query.compute).name,
    )


@stoppable()
def _run_schedule(
    query: Query,
    chosen: FittedSchedule,
    keeper: tuple[Store, int] | None,
    opened: Open | None = None,
) -> Estimate:
    from smoothcruiser.engines.base import Job
    from smoothcruiser.engines.root_answer import assemble, interval_of
    from smoothcruiser.engines.run import Ledger, Listener
    from smoothcruiser.engines.shards import cut_shards
    from smoothcruiser.engines.stopping_rule import stopping_rule

    schedule, shards = chosen.schedule, query.compute.shards
    problem, state = query.problem, query.state
    actions = (
        problem.legal_actions(state) if schedule.root.target == "q_values" else [0]
    )
    segments = cut_shards(schedule, shards=shards)
    stop_rule = stopping_rule(schedule, shards, problem.mover(state))
    stop_rule = replace(stop_rule, wanted=chosen.wanted)
    keep_shard: Callable[..., None] | None = None
    replay: Callable[[Workers, int], None] = _replay_nothing
    known_parts = None if chosen.begun is None else chosen.begun.parts
    resume_hint = "Nothing is kept: store=FILE keeps finished shards."
    if keeper is not None:
        from smoothcruiser.store.record_checks import check_parts

        store, run_number = keeper
        keep_shard = partial(store.keep, run_number)
        known_parts = store.parts(run_number)
        check_parts(stop_rule, shards, actions, known_parts)
        replay = partial(_replay_shards, run_number, segments, known_parts)
        resume_hint = (
            f"Finished shards are kept: go on with {store.way_back(run_number)}."
        )
    tell_at_the_end(resume_hint)
    ledger = Ledger(segments, actions, stop_rule.enough, known_parts)
    listener = Listener(
        query.progress, keep_shard, interval_of(problem, state, stop_rule)
    )
    job = Job(problem, schedule, state, stop_rule.center, stop_rule.score)
    call_ledger = query.ledger.copy(query.ledger.total + chosen.most_calls(problem))
    if chosen.begun is not None:
        call_ledger.add(chosen.begun.ledger)
    try:
        outcome, ran = _sample_shards(
            query, chosen, job, ledger, call_ledger, listener, opened, replay
        )
    except (StoreError, WorkersLost) as error:
        raise type(error)(f"{error} {resume_hint}") from error
    call_ledger.spend(CallRole.SAMPLES, outcome.num_calls)
    call_ledger.spend(CallRole.AHEAD, outcome.calls_spent - outcome.num_calls)
    estimate = assemble(
        problem, state, stop_rule, outcome, ran, call_ledger, seed=query.seed
    )
    estimate = replace(
        estimate,
        run=None if keeper is None else keeper[1],
        seconds=estimate.seconds
        + (0.0 if chosen.begun is None else chosen.begun.seconds),
    )
    if keeper is not None and outcome.finished:
        keeper[0].finish(keeper[1], estimate)
    elif keeper is not None:
        estimate = replace(estimate, notes=(*estimate.notes, resume_hint))
    return estimate


def _sample_shards(
    query: Query,
    chosen: FittedSchedule,
    job: Job,
    ledger: Ledger,
    call_ledger: CallLedger,
    listener: Listener,
    opened: Open | None,
    replay: Callable[[Workers, int], None],
) -> tuple[Outcome, RunRecord]:
    """The outcome of a run, finished or stopped, and the executor that ran it."""
    from smoothcruiser.engines.registry import choose
    from smoothcruiser.engines.root_answer import RunRecord
    from smoothcruiser.engines.run import Alarm, cause_of
    from smoothcruiser.engines.run import run_schedule as run_shards

    control = Control(query.limits, spent=chosen.seconds)
    clock, time_limit = control.clock, query.limits.seconds
    look_share = None if time_limit is None else LOOK_SHARE * time_limit
    executor = choose(query.problem, query.compute)
    pool, alarm, outcome = None, Alarm(), None
    num_repeated, phases, seconds_before = 0, Phases(query.progress), 0.0
    earlier_calls = sum(part.calls for part in ledger.parts.values())

    def begin(phase: Phase) -> None:
        if phases.begin(phase, calls=earlier_calls, resumed=earlier_calls):
            raise Interrupted("The progress function returned False.")

    with Breaker() as breaker:
        try:
            if chosen.pressed:
                raise KeyboardInterrupt
            if time_limit is not None and executor.pool is not None:
                breaker.arm(clock.left() + control.grace)
            begin("compiling" if executor.pool is None else "starting")
            # an engine here is loaded; workers elsewhere are waited for
            with _engine_loading() if executor.pool is None else nullcontext():
                pool = _open_workers(opened, job, query.compute)
            seconds_before = clock.compile_seconds()
            if time_limit is not None:
                alarm.set(pool.stop, clock.left())
                breaker.arm(clock.left() + control.grace)
            if (
                control.check() is not None
            ):  # nothing is begun that would only be ended
                raise Interrupted("The time was over before the first call.")
            looked_at = time.perf_counter()
            if chosen.inspects:
                begin("inspecting")
                _inspect_first(pool, query.seed, call_ledger, look_share, chosen.begun)
            replay(pool, query.seed)
            if time_limit is not None:  # leave time to do so after the run
                look_seconds = (time.perf_counter() - looked_at) / 2.0
                alarm.set(
                    pool.stop, clock.left() - min(look_seconds, look_share or 0.0)
                )
            outcome = run_shards(
                pool,
                job.schedule,
                ledger,
                seed=query.seed,
                listener=listener,
                alarm=alarm,
                room=chosen.room,
                until=None if time_limit is None else clock.left,
            )
            if clock.left() > -control.grace and chosen.inspects:
                look_limit = _last_look_seconds(clock, outcome.stopped)
                num_repeated = pool.inspect(query.seed, call_ledger, look_limit)
        except (Interrupted, KeyboardInterrupt) as error:
            count_stop(error)
            if outcome is None:
                is_late = alarm.rang or breaker.fired or clock.left() <= 0.0
                outcome = ledger.stopped(cause_of(error, is_late, phases.refused))
                log.info("stopped before the first shard: %s", outcome.stopped)
        finally:
            alarm.cancel()
            if pool is not None:
                pool.close()
    if breaker.fired:
        log.warning("a call of the oracle was broken off, after the time limit")
    if pool is None:
        return outcome, RunRecord(executor.name)
    compile_seconds = pool.compile_seconds + chosen.compile_seconds
    compile_seconds += clock.compile_seconds() - seconds_before
    return outcome, RunRecord(pool.name, compile_seconds, pool.seen(num_repeated))


def _inspect_first(
    pool: Workers,
    seed: int,
    call_ledger: CallLedger,
    seconds: float | None,
    begun: FirstSamples | None,
) -> None:
    """Inspect the step before the run, unless a pilot did."""
    if begun is None:
        pool.inspect(seed, call_ledger, seconds)
    else:
        pool.looked = begun.looked


def _replay_nothing(workers: Workers, seed: int) -> None:
    """Nothing to replay: the run begins."""


def _replay_shards(
    run: int,
    segments: Sequence[Sequence[Shard]],
    stored_parts: Mapping[tuple[int, int], Partial],
    workers: Workers,
    seed: int,
) -> None:
    """Sample stored shards again, and refuse a run that gives other sums.

    An edit that no fingerprint sees changes what the step answers, if it changes
    anything. The shards are the cheapest ones, of ``REPLAYED_CALLS`` together, or of a
    quarter of the stored calls where those are few (a simulator may be slow), or one
    more. Their calls are not part of the answer, and not of its price.
    """
    stored_calls = sum(part.calls for part in stored_parts.values())
    most_calls = min(REPLAYED_CALLS, stored_calls // 4)
    places = sorted(
        stored_parts, key=lambda place: (stored_parts[place].calls, *place[::-1])
    )
    shards = [shard for segment in segments for shard in segment]
    replayed_shards: list[Shard] = []
    num_calls = 0
    for action, index in places:
        if num_calls < most_calls:
            replayed_shards.append(replace(shards[index], action=action))
            num_calls += stored_parts[action, index].calls
    replayed_parts: dict[tuple[int, int], Partial] = {}

    def report(shard: Shard, part: Partial) -> bool:
        replayed_parts[shard.action, shard.index] = part
        return False

    workers.map(iter(replayed_shards), seed, report)
    for (action, index), part in replayed_parts.items():
        if part != stored_parts[action, index]:
            raise InvalidInput(
                f"Run {run} was made for another problem than this one: shard {index} "
                f"of action {action}, taken again, has other sums than the stored one; "
                "pass the problem it was started with, or start a new run."
            )


@contextmanager
def _engine_loading() -> Iterator[None]:
    """A part that compiles: it does not count, and a stop is raised after it.

    A Ctrl-C in the middle would leave Numba half imported, or be lost in a callback.
    """
    with unbroken(), pause_clock():
        yield


@calls_the_oracle
def _open_workers(opened: Open | None, job: Job, compute: Compute) -> Workers:
    """Workers for a job; a cluster may take longer to start than a run may last."""
    from smoothcruiser.engines.registry import open_workers

    return (opened or open_workers)(job, compute)


def _last_look_seconds(clock: Clock, reason: StopReason | None) -> float | None:
    """The seconds for the inspection after the run; None is no limit."""
    time_limit = max(0.0, clock.left())
    if reason in (StopReason.HAND, StopReason.CALLBACK):
        time_limit = min(time_limit, LAST_LOOK_SECONDS)
    return None if time_limit == math.inf else time_limit


def combine_estimates(
    query: Query, first: Estimate, second: Estimate, delta: float
) -> Estimate:
    """One answer of two that fail with probability ``delta`` together.

    Every interval is the intersection of both.
    """
    first_certificate, second_certificate = first.certificate, second.certificate
    assert first_certificate is not None
    assert second_certificate is not None
    interval = intersect_intervals(
        first_certificate.interval, second_certificate.interval
    )
    q_intervals = second_certificate.q_intervals
    if first_certificate.q_intervals and q_intervals:
        q_intervals = tuple(
            map(intersect_intervals, first_certificate.q_intervals, q_intervals)
        )
    assumptions = (
        *second_certificate.assumptions,
        *(
            a
            for a in first_certificate.assumptions
            if a not in second_certificate.assumptions
        ),
    )
    if any(
        lower_bound > upper_bound
        for lower_bound, upper_bound in (interval, *q_intervals)
    ):
        raise contradiction(query.place, delta, assumptions)
    certificate = Certificate(
        kind=second_certificate.kind,
        interval=interval,
        q_intervals=q_intervals,
        confidence=1.0 - delta,
        bound=f"{second_certificate.bound}; {first_certificate.bound}",
        assumptions=assumptions,
        best_actions=not_excluded(q_intervals, query.problem.mover(query.place))
        if q_intervals
        else second_certificate.best_actions,
    )
    epsilon, promised_width = second.epsilon, query.promise.epsilon
    if epsilon != query.promise.epsilon:  # it was stopped, or promises less
        interval_widths = [
            upper_bound - lower_bound
            for lower_bound, upper_bound in q_intervals or (interval,)
        ]
        epsilon = 0.5 * max(
            width for width in interval_widths if not math.isnan(width)
        )
        promised_width = None
    better_estimate = _better_estimate(first, second)
    value = bring_inside(better_estimate.value, interval, promised_width)
    q_values: tuple[float, ...] = ()
    if q_intervals:
        likely_values = better_estimate.q_values or second.q_values or first.q_values
        values_in_intervals = zip(likely_values, q_intervals, strict=True)
        q_values = tuple(
            bring_inside(q, q_interval, promised_width)
            for q, q_interval in values_in_intervals
        )
    policy = _regularized_policy(query, q_values)
    mover = query.problem.mover(query.place)
    return replace(
        with_calls_before(second, first.num_calls),
        value=value,
        interval=interval,
        q_values=q_values,
        policy=policy,
        action=best_action(policy, q_values, mover) if q_values else None,
        certificate=certificate,
        standard_error=error_if_near(
            better_estimate.standard_error, better_estimate.value, value
        ),
        epsilon=epsilon,
        delta=delta,
        seconds=first.seconds + second.seconds,
        compile_seconds=first.compile_seconds + second.compile_seconds,
        notes=(
            *second.notes,
            f"Certified search had ±{first.epsilon:.3g} after {first.num_calls:,} calls; "
            "its intervals and the schedule's hold together.",
        ),
    )


def with_calls_before(estimate: Estimate, calls: int) -> Estimate:
    """The estimate where so many calls were made before its own."""
    calls_spent, price = estimate.calls_spent, estimate.price
    return replace(
        estimate,
        num_calls=estimate.num_calls + calls,
        calls_spent=None if calls_spent is None else calls_spent + calls,
        price=None if price is None else price + calls,
    )


def intersect_intervals(first: Interval, second: Interval) -> Interval:
    """The intersection of two intervals; NaN, of an illegal action, stays."""
    return (
        first[0] if first[0] > second[0] else second[0],
        first[1] if first[1] < second[1] else second[1],
    )


def _better_estimate(first: Estimate, second: Estimate) -> Estimate:
    """The one with the smaller usual error, or with the narrower interval."""
    first_error, second_error = first.standard_error, second.standard_error
    if first_error is not None and second_error is not None:
        return first if first_error < second_error else second
    interval_widths = [
        math.inf
        if estimate.interval is None
        else estimate.interval[1] - estimate.interval[0]
        for estimate in (first, second)
    ]
    return first if interval_widths[0] < interval_widths[1] else second


def _regularized_policy(
    query: Query, q_values: tuple[float, ...]
) -> tuple[float, ...]:
    """The regularized policy at action values; NaN, of an illegal action, gets 0."""
    problem, legal_values = query.problem, [q for q in q_values if not math.isnan(q)]
    if not legal_values:
        return ()
    weights = problem.operator.weights(problem.num_actions)
    gradient = problem.operator.gradient(
        legal_values,
        player=problem.mover(query.place),
        weights=[
            w for w, q in zip(weights, q_values, strict=True) if not math.isnan(q)
        ],
    )
    gradient_sum, shares = sum_in_order(gradient), iter(gradient)
    return tuple(
        0.0 if math.isnan(q) else next(shares) / gradient_sum for q in q_values
    )
