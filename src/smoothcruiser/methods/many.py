"""Many states in one call: estimates that hold together with probability 1 - delta.

A session (``methods.base``) answers one state after the other, and its memory in
between is the saving of one call: certified search has one memory, so that states which
share successors share their samples; a known model is solved once; a schedule is
compiled once, and workers elsewhere are started once.

The promise. A memory of certified search has one delta for all that it is ever asked.
Other methods answer each of the n states with delta/n, so by the union bound all
n intervals hold with probability 1 - delta. (For a schedule that is one plan with
log(2 means n/delta) where one state has log(2 means/delta).) Where ``auto`` races,
the memory has delta/2 for all states, and the schedule delta/(2n) for each state that
the search left open. The n runs need not be
independent for that, and the order of the states changes nothing but their seeds:
those of an agent's decisions, SeedSequence(seed, (PLANS, i)).

Limits are for the whole call. State i of n gets 1/(n - i) of the rest, so that calls
which one does not need go to those after it. With one memory a state may be asked about
again: those that missed epsilon share the calls that the others left over. A state that
no limit reached has the interval that the rewards allow, with a note.

This file leaves out the methods, and how a session shares (``Method.together``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    Unpayable,
    describe_value,
)
from smoothcruiser.estimate import (
    Estimate,
    Estimates,
    terminal_estimate,
    unsampled_estimate,
)
from smoothcruiser.methods.base import (
    BY_HAND,
    DEFAULT_BUDGET,
    SAID_STOP,
    Method,
    Prepared,
    Session,
    UnstartedAnswer,
    prepare_answer,
    refuse_unused,
    with_delta,
)
from smoothcruiser.methods.portfolio import Race, choice_notes, unstarted_if_late
from smoothcruiser.methods.schedules.schedule_run import combine_estimates
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import (
    Callback,
    Progress,
    finish,
    says_stop,
    show_bar,
    time_left,
)
from smoothcruiser.query import Promise, Query, check_delta
from smoothcruiser.run_control.call_ledger import CallLedger, CallRole
from smoothcruiser.run_control.clock import Clock
from smoothcruiser.run_control.control import Limits
from smoothcruiser.run_control.stop_requests import current_stops, stoppable
from smoothcruiser.schedule.number_text import short
from smoothcruiser.states.identity import identical


def plan_all(method: Method, query: Query, states: Iterable[Any]) -> Estimates:
    """The answers at all ``states``; ``query`` holds the rest of the request."""
    with show_bar(query.progress):
        estimates = _plan_states(method, query, states)
        answers = {id(answer): answer for answer in estimates.estimates}.values()
        calls_spent = sum(answer.calls_spent or answer.num_calls for answer in answers)
        finish(
            query.progress,
            calls=max(calls_spent, estimates.num_calls),
            seconds=estimates.seconds,
            done=len(estimates.estimates),
            total=len(estimates.estimates),
        )
    return estimates


def _plan_states(method: Method, query: Query, states: Iterable[Any]) -> Estimates:
    watch = Clock()
    if query.compute.store is not None:
        raise InvalidInput(
            "plan_many keeps nothing in a store; drop store=, or save the "
            "memory of a Certified."
        )
    refuse_unused(method.name, query, method.takes, method.because)
    query = with_delta(method, query)  # before it is shared out among the states
    problem = query.problem
    start_states = _start_states(problem, states)
    first_indices = _first_of_each(problem, start_states)
    answers: dict[int, Estimate] = {
        i: terminal_estimate(problem, start_states[i], method.name, query.seed)
        for i in set(first_indices)
        if problem.is_terminal(start_states[i])
    }
    open_indices = [i for i in sorted(set(first_indices)) if i not in answers]
    notes: tuple[str, ...] = ()
    method_name, look_calls = method.name, 0
    if open_indices:
        first_query = _share_request(query, len(open_indices)).at(
            start_states[open_indices[0]], query.seed
        )
        state_query = replace(first_query, progress=None)
        ready = prepare_answer(method, first_query)
        ready = _payable(query, ready, len(open_indices))
        method_name, look_calls = ready.method.name, ready.looked
        notes = (*ready.notes, *choice_notes(ready))
        open_states = {i: start_states[i] for i in open_indices}
        unbegun_answer = _stopped_answer(query, ready)
        if unbegun_answer is not None:
            answers |= {
                i: unbegun_answer.unsampled_answer(open_states[i])
                for i in open_indices
            }
        else:
            answers |= _answers(query, state_query, ready, open_states, watch)
    prices = [answers[i].price for i in open_indices]
    return Estimates(
        estimates=tuple(answers[i] for i in first_indices),
        delta=_joint_delta(query, answers.values()),
        price=None if None in prices else look_calls + sum(filter(None, prices)),
        num_calls=look_calls + sum(answers[i].num_calls for i in set(first_indices)),
        seconds=watch.elapsed(),
        method=method_name,
        notes=notes,
    )


def _stopped_answer(query: Query, ready: Prepared) -> UnstartedAnswer | None:
    """The answer at all states where a stop came before the first sample of any."""
    if isinstance(ready, UnstartedAnswer):
        return ready
    seconds_spent = getattr(ready, "spent", 0.0)
    return unstarted_if_late(replace(ready, query=query), seconds_spent)


def _answers(
    query: Query,
    state_query: Query,
    ready: Prepared,
    open_states: dict[int, Any],
    watch: Clock,
) -> dict[int, Estimate]:
    """The answers at ``open_states``, by the parts of the preparation for one.

    A part with a shared session has its share of delta for all states together; the
    states that it leaves open go to the next part, and both intervals hold.
    """
    default_budget = DEFAULT_BUDGET if query.promise.asked else None
    ledger = ready.query.ledger.copy(query.limits.calls or default_budget)
    ready_parts = ready.parts
    answers: dict[int, Estimate] = {}
    open_indices = list(open_states)
    for part_index, ready_part in enumerate(ready_parts):
        is_last = part_index == len(ready_parts) - 1
        call = ManyStatesRun(
            method=ready_part.method,
            query=_request_for_all(
                ready_part.query, query, state_query, alone=len(ready_parts) == 1
            ),
            ready=ready_part,
            places=[open_states[i] for i in open_indices],
            watch=watch,
            ledger=CallLedger(ledger.left),
            until=_part_deadline(query, watch, is_last),
            progress=query.progress,
            known=sum(i not in open_indices for i in open_states),
            total=len(open_states),
        )
        calls_per_state = ready_part.query.limits.calls
        if not is_last and ledger.left is not None and calls_per_state is not None:
            part_price = min(ledger.left, calls_per_state * len(open_indices))
            call.ledger.price = part_price
        new_answers = dict(zip(open_indices, call.answer_all(), strict=True))
        ledger.add(call.ledger)
        for i, was_reached in zip(open_indices, call.reached_states, strict=True):
            if i not in answers:
                answers[i] = new_answers[i]
            elif was_reached:
                place_query = ready_part.query.at(open_states[i], query.seed)
                answers[i] = _combine_answers(place_query, answers[i], new_answers[i])
        open_indices = [
            i for i in open_indices if _is_missed(answers[i], query.promise)
        ]
        if not open_indices or call.by_hand:
            break
    return answers


def _request_for_all(
    part_query: Query, query: Query, state_query: Query, *, alone: bool
) -> Query:
    """The request of a part about all states: it has the same share of the whole delta
    as ``part_query`` has of that of one state.
    """
    promise, delta = part_query.promise, query.promise.delta
    if delta is not None and promise.delta is not None and state_query.promise.delta:
        delta_share = (
            1.0 if alone else min(1.0, promise.delta / state_query.promise.delta)
        )
        promise = replace(promise, delta=delta_share * delta)
    return replace(part_query, promise=promise, limits=query.limits)


def _part_deadline(query: Query, watch: Clock, is_last: bool) -> float:
    """The time on ``watch`` at which a part ends: the last one has all of it."""
    time_limit, now = query.limits.seconds, watch.elapsed()
    if time_limit is None:
        return math.inf
    return time_limit if is_last else now + 0.5 * (time_limit - now)


def _is_missed(answer: Estimate, promise: Promise) -> bool:
    """Whether a promise was not kept: the interval is too wide."""
    if answer.epsilon is None or answer.interval is None:
        return False
    return promise.is_missed(answer.epsilon, answer.interval)


def _combine_answers(query: Query, first: Estimate, second: Estimate) -> Estimate:
    """One answer of two, which fail together with at most the sum of their deltas."""
    return combine_estimates(
        query, first, second, (first.delta or 0.0) + (second.delta or 0.0)
    )


def _joint_delta(query: Query, answers: Iterable[Estimate]) -> float | None:
    """The probability that some interval fails; None where nothing is promised."""
    certificates = [x.certificate for x in answers if x.certificate is not None]
    if all(certificate.confidence == 1.0 for certificate in certificates):
        return 0.0 if certificates else None
    if query.promise.delta is not None:
        return query.promise.delta
    total_failure = math.fsum(
        1.0 - certificate.confidence for certificate in certificates
    )
    return (
        total_failure if total_failure < 1.0 else None
    )  # each state had a delta of its own


def _start_states(problem: Problem, states: Iterable[Any]) -> list[Any]:
    """The states as the problem knows them; an error names the first that is none."""
    is_unordered = isinstance(states, str | bytes | Mapping | AbstractSet)
    if is_unordered or not isinstance(states, Iterable):
        raise InvalidInput(
            f"plan_many takes a list of states, got {describe_value(states)}; for one state "
            "write plan(problem, state)."
        )
    start_states = []
    for i, state in enumerate(states):
        try:
            start_states.append(problem.start(state))
            problem.profile(start_states[-1])  # an error of legal or player comes here
        except (InvalidInput, OracleError) as error:
            raise type(error)(f"State {i} of the list: {error}") from error
    return start_states


def _first_of_each(problem: Problem, start_states: list[Any]) -> list[int]:
    """For each state the place where it is listed first.

    Only states that are the same to the bit are one.
    """
    indices_by_key: dict[Any, list[int]] = {}
    first_indices = []
    for i, state in enumerate(start_states):
        try:
            indices_of_key = indices_by_key.setdefault(problem.key_of(state), [])
        except (TypeError, InvalidInput):  # no key: certified search would refuse it
            indices_of_key = []
        equal_indices = (
            j for j in indices_of_key if identical(state, start_states[j])
        )
        first_indices.append(next(equal_indices, i))
        if first_indices[-1] == i:
            indices_of_key.append(i)
    return first_indices


def _share_request(query: Query, count: int) -> Query:
    """The request about one of ``count`` states, by a method that shares nothing."""
    promise, limits = query.promise, query.limits
    if promise.delta is not None:
        promise = replace(promise, delta=check_delta(promise.delta / count))
    call_limit, time_limit = limits.calls, limits.seconds
    return replace(
        query,
        promise=promise,
        limits=replace(
            limits,
            calls=None if call_limit is None else max(1, call_limit // count),
            seconds=None if time_limit is None else time_limit / count,
        ),
    )


def _payable(query: Query, ready: Prepared, count: int) -> Prepared:
    """The preparation to run: all of it, if it fits the default budget.

    Of a race for the best promise, or above that budget, it is the search alone: its
    price is shared, and mostly far lower.
    """
    limits, price = query.limits, ready.explanation.num_calls
    if isinstance(ready, Race) and not query.promise.asked:
        return ready.search_alone(
            "auto chose certified search: states come back, and it narrows the "
            "intervals of all states until the limit."
        )
    has_limits = limits.calls is not None or limits.seconds is not None
    if has_limits or price is None or not query.promise.asked:
        return ready
    if price * count <= DEFAULT_BUDGET:
        return ready
    if isinstance(ready, Race):
        return ready.search_alone(
            f"auto chose certified search: the schedules of {count:,} states would cost "
            f"up to {short(price * count)} calls, and states come back."
        )
    raise Unpayable(
        f"{count:,} states of up to {short(price)} oracle calls each cost more than "
        f"the budget of {short(DEFAULT_BUDGET)} (budget=); ask for a larger epsilon, "
        "or name a budget or seconds to do the best within."
    )


@dataclass
class ManyStatesRun:
    """One method on many states."""

    method: Method
    query: Query  # about all states, where they share
    ready: Prepared  # for one of them, where nothing is shared
    places: list[Any]
    watch: Clock  # of the whole request: compiling does not count
    ledger: CallLedger  # of all states
    until: float  # the time on ``watch`` when time is up
    progress: Callback | None
    known: int = 0  # states that an earlier part has answered
    total: int = 1  # of all parts
    ended: str = ""  # the reason to answer no more states
    # states that used up their share of the limits: more may help them
    cut: list[int] = field(default_factory=list)
    answers: list[Estimate | None] = field(default_factory=list)

    @property
    def reached_states(self) -> list[bool]:
        """Whether each state was reached, in the order of the states."""
        return [answer is not None for answer in self.answers]

    @property
    def _seconds_left(self) -> float:
        return self.until - self.watch.elapsed()

    @property
    def by_hand(self) -> bool:
        """Whether the caller stopped the request."""
        return self.ended in (BY_HAND, SAID_STOP)

    @stoppable()
    def answer_all(self) -> list[Estimate]:
        """The answers; a state that no limit reached has the range of the rewards."""
        self.answers = [None] * len(self.places)
        session = self.method.together(self.query, self.ready)
        if not session.shared:
            session.query = self.ready.query
            if self.query.limits.calls is None:
                self.ledger.price = None  # that of each is known, and was checked
        try:
            open_indices, calls_before = list(range(len(self.places))), -1
            while open_indices and not self.ended and self.ledger.total > calls_before:
                calls_before = self.ledger.total
                for k, i in enumerate(open_indices):
                    if not self._answer_state(session, i, len(open_indices) - k):
                        break
                open_indices = [
                    i for i in self.cut if session.shared and self._is_open(i)
                ]
                self.cut = []
            return [self._final_answer(session, i) for i in range(len(self.places))]
        finally:
            session.close()

    def _is_open(self, i: int) -> bool:
        """Whether a state may be answered again."""
        answer = self.answers[i]
        return answer is None or _is_missed(answer, self.query.promise)

    def _final_answer(self, session: Session, i: int) -> Estimate:
        """The answer at state ``i``, improved by the samples of later states."""
        answer = self.answers[i]
        deadline = 0.0 if self.by_hand else time.perf_counter() + self._seconds_left
        if answer is not None:
            is_done = self.query.promise.asked and not self._is_open(i)
            return answer if is_done else session.review(answer, deadline)
        blank_answer = self._unsampled_answer(i, self.ended)
        reviewed_answer = session.review(blank_answer, deadline)
        if reviewed_answer is blank_answer:
            return blank_answer
        note = f"{self.ended}: the interval comes from samples for other states."
        return replace(reviewed_answer, notes=(note,))

    def _unsampled_answer(self, i: int, why: str) -> Estimate:
        problem, seed = self.ready.query.problem, self.ready.query.seed
        state = self.places[i]
        return unsampled_estimate(problem, state, self.method.name, why, seed)

    def _answer_state(self, session: Session, i: int, left: int) -> bool:
        """Answer state ``i``, the first of ``left`` ones; False where the call ends."""
        limits = self._next_limits(left, session.shared and self.ledger.total > 0)
        if limits is None:
            return False
        session.query = replace(
            session.query, limits=limits, progress=self._make_reporter(left)
        )
        num_stops = current_stops()
        earlier_answer = self.answers[i]
        start_time = self.watch.elapsed()
        try:
            answer = session.decide(self.places[i])
        except (Interrupted, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) or current_stops() > num_stops:
                self.ended = BY_HAND
                return False
            answer = self._unsampled_answer(i, str(error))
            answer = replace(answer, num_calls=getattr(error, "calls", 0))
        self.ledger.spend(CallRole.SAMPLES, answer.num_calls)
        elapsed_seconds = self.watch.elapsed() - start_time
        is_spent = limits.calls is not None and answer.num_calls >= limits.calls
        is_late = limits.seconds is not None and elapsed_seconds >= limits.seconds
        if is_spent or is_late:
            self.cut.append(i)
        if earlier_answer is not None:
            answer = replace(
                answer,
                num_calls=earlier_answer.num_calls + answer.num_calls,
                seconds=earlier_answer.seconds + answer.seconds,
            )
        self.answers[i] = answer
        if current_stops() > num_stops:
            self.ended = BY_HAND
        return not self.ended

    def _next_limits(self, left: int, again: bool) -> Limits | None:
        """The limits of the next of ``left`` states; None where nothing is left.

        ``again`` says that the step is inspected again after a query, beyond its
        budget.
        """
        max_calls, time_share = self.ledger.left, None
        if max_calls is not None:
            inspection_calls = self.query.problem.inspection_calls if again else 0
            if max_calls - inspection_calls < 1:
                self.ended = "The budget was spent"
                return None
            max_calls = max(1, max_calls // left - inspection_calls)
        if self.until < math.inf:
            time_share = self._seconds_left / left
            if time_share <= 0.0:
                self.ended = "The time was up"
                return None
        return replace(self.query.limits, calls=max_calls, seconds=time_share)

    def _make_reporter(self, left: int) -> Callback | None:
        """The callback that reports on all states; False from the caller ends all."""
        tell_caller = self.progress
        if tell_caller is None:
            return None
        calls_before = self.ledger.total
        num_done = self.known + sum(self.reached_states)

        def report(progress: Progress) -> object:
            if progress.phase in ("preparing", "done"):
                return None
            num_calls = calls_before + progress.calls
            elapsed_seconds = self.watch.elapsed()
            price = (
                None
                if progress.price is None
                else calls_before + left * progress.price
            )
            seconds_left = self._seconds_left if self.until < math.inf else None
            total_progress = replace(
                progress,
                calls=num_calls,
                seconds=elapsed_seconds,
                seconds_left=time_left(
                    num_calls, price, elapsed_seconds, seconds_left
                ),
                price=price,
                done=num_done,
                total=self.total,
                label=f"state {min(num_done + 1, self.total):,} of {self.total:,}",
            )
            if says_stop(tell_caller(total_progress)):
                self.ended = SAID_STOP
            return False if self.ended else None

        return report
