"""Many states in one call: estimates that hold together with probability 1 - delta.

A session (``methods.base``) answers one state after the other, and what it keeps in
between is what one call saves: certified search has one memory, so that states which
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

Limits are for the whole call. State i of n gets 1/(n - i) of what is left, so what
one does not need goes to those after it. With one memory a state may be asked about
again: those that missed epsilon share what the others left over. A state that no
limit reached has the interval that the rewards allow, with a note.

What this file leaves out: the methods, and how a session shares
(``Method.together``).
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
    described,
)
from smoothcruiser.estimate import Estimate, terminal_estimate, unsampled_estimate
from smoothcruiser.jit.interrupts import heard, stoppable
from smoothcruiser.jit.stopwatch import Stopwatch
from smoothcruiser.methods.base import (
    BY_HAND,
    DEFAULT_BUDGET,
    SAID_STOP,
    Method,
    Prepared,
    Session,
    Unbegun,
    prepared,
    refuse_unused,
    with_delta,
)
from smoothcruiser.methods.estimates import Estimates
from smoothcruiser.methods.joint import together
from smoothcruiser.methods.portfolio import (
    Race,
    choice_notes,
    unbegun_in_time,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import identical
from smoothcruiser.progress import (
    Callback,
    Progress,
    finish,
    says_stop,
    shown,
    time_left,
)
from smoothcruiser.query import Limits, Promise, Query, check_delta
from smoothcruiser.schedule.numbers import short


def plan_all(method: Method, query: Query, states: Iterable[Any]) -> Estimates:
    """The answers at all ``states``; ``query`` holds the rest of the request."""
    with shown(query.progress):
        found = _planned(method, query, states)
        calls = sum(
            x.num_calls if x.calls_spent is None else x.calls_spent
            for x in {id(x): x for x in found.estimates}.values()
        )
        finish(
            query.progress,
            calls=max(calls, found.num_calls),
            seconds=found.seconds,
            done=len(found.estimates),
            total=len(found.estimates),
        )
    return found


def _planned(method: Method, query: Query, states: Iterable[Any]) -> Estimates:
    watch = Stopwatch()
    if query.compute.store is not None:
        raise InvalidInput(
            "plan_many keeps nothing in a store; drop store=, or save the "
            "memory of a Certified."
        )
    refuse_unused(method.name, query, method.takes, method.because)
    query = with_delta(method, query)  # before it is shared out among the states
    problem = query.problem
    places = _places(problem, states)
    first = _first_of_each(problem, places)
    answers: dict[int, Estimate] = {
        i: terminal_estimate(problem, places[i], method.name, query.seed)
        for i in set(first)
        if problem.is_terminal(places[i])
    }
    live = [i for i in sorted(set(first)) if i not in answers]
    notes: tuple[str, ...] = ()
    name, looked = method.name, 0
    if live:
        first_state = _share(query, len(live)).at(places[live[0]], query.seed)
        each = replace(first_state, progress=None)
        ready = prepared(method, first_state)
        ready = _payable(query, ready, len(live))
        name, looked = ready.method.name, ready.looked
        notes = (*ready.notes, *choice_notes(ready))
        there = {i: places[i] for i in live}
        stopped = _stopped(query, ready)
        if stopped is not None:
            answers |= {i: stopped.unsampled(there[i]) for i in live}
        else:
            answers |= _answers(query, each, ready, there, watch)
    prices = [answers[i].price for i in live]
    return Estimates(
        estimates=tuple(answers[i] for i in first),
        delta=_joint(query, answers.values()),
        price=None if None in prices else looked + sum(filter(None, prices)),
        num_calls=looked + sum(answers[i].num_calls for i in set(first)),
        seconds=watch.elapsed(),
        method=name,
        notes=notes,
    )


def _stopped(query: Query, ready: Prepared) -> Unbegun | None:
    """What answers all states where a stop came before the first sample of any."""
    if isinstance(ready, Unbegun):
        return ready
    spent = getattr(ready, "spent", 0.0)
    return unbegun_in_time(replace(ready, query=query), spent)


def _answers(
    query: Query, each: Query, ready: Prepared, there: dict[int, Any], watch: Stopwatch
) -> dict[int, Estimate]:
    """The answers at the states ``there``, by the parts of what was prepared for one.

    A part whose session shares has its share of delta for all states together; what
    it leaves open goes to the next part, and both intervals hold.
    """
    total = _budget(query)
    parts = ready.parts
    answers: dict[int, Estimate] = {}
    todo, spent = list(there), ready.looked
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        call = Call(
            method=part.method,
            query=_whole(part.query, query, each, alone=len(parts) == 1),
            ready=part,
            places=[there[i] for i in todo],
            watch=watch,
            calls=None if total is None else total - spent,
            until=_until(query, watch, last),
            progress=query.progress,
            known=sum(i not in todo for i in there),
            total=len(there),
        )
        most = part.query.limits.calls
        if not last and call.calls is not None and most is not None:
            call.calls = min(call.calls, most * len(todo))
        found = dict(zip(todo, call.run(), strict=True))
        spent += call.spent
        for i, reached in zip(todo, call.reached, strict=True):
            if i not in answers:
                answers[i] = found[i]
            elif reached:
                place = part.query.at(there[i], query.seed)
                answers[i] = _combined(place, answers[i], found[i])
        todo = [i for i in todo if _missed(answers[i], query.promise)]
        if not todo or call.by_hand:
            break
    return answers


def _whole(part: Query, query: Query, each: Query, *, alone: bool) -> Query:
    """The request of a part about all states: it has the same share of the whole delta
    as ``part`` has of that of one state.
    """
    promise, delta = part.promise, query.promise.delta
    if delta is not None and promise.delta is not None and each.promise.delta:
        share = 1.0 if alone else min(1.0, promise.delta / each.promise.delta)
        promise = replace(promise, delta=share * delta)
    return replace(part, promise=promise, limits=query.limits)


def _until(query: Query, watch: Stopwatch, last: bool) -> float:
    """What ``watch`` shows when the time of a part is up: the last one has all of it."""
    seconds, now = query.limits.seconds, watch.elapsed()
    if seconds is None:
        return math.inf
    return seconds if last else now + 0.5 * (seconds - now)


def _missed(answer: Estimate, promise: Promise) -> bool:
    """Whether a promise was not kept: the interval is too wide."""
    if answer.epsilon is None or answer.interval is None:
        return False
    return promise.is_missed(answer.epsilon, answer.interval)


def _combined(query: Query, first: Estimate, second: Estimate) -> Estimate:
    """One answer of two, which fail together with at most the sum of their deltas."""
    return together(query, first, second, (first.delta or 0.0) + (second.delta or 0.0))


def _joint(query: Query, answers: Iterable[Estimate]) -> float | None:
    """The probability that some interval fails; None where nothing is promised."""
    promises = [x.certificate for x in answers if x.certificate is not None]
    if all(promise.confidence == 1.0 for promise in promises):
        return 0.0 if promises else None
    if query.promise.delta is not None:
        return query.promise.delta
    together = math.fsum(1.0 - promise.confidence for promise in promises)
    return together if together < 1.0 else None  # each state had a delta of its own


def _places(problem: Problem, states: Iterable[Any]) -> list[Any]:
    """The states as the problem knows them; the first that is none is named."""
    unordered = isinstance(states, str | bytes | Mapping | AbstractSet)
    if unordered or not isinstance(states, Iterable):
        raise InvalidInput(
            f"plan_many takes a list of states, got {described(states)}; for one state "
            "write plan(problem, state)."
        )
    found = []
    for i, state in enumerate(states):
        try:
            found.append(problem.start(state))
            problem.profile(found[-1])  # an error of legal or player comes here
        except (InvalidInput, OracleError) as error:
            raise type(error)(f"State {i} of the list: {error}") from error
    return found


def _first_of_each(problem: Problem, places: list[Any]) -> list[int]:
    """For each state the place where it is listed first.

    Only states that are the same to the bit are one.
    """
    known: dict[Any, list[int]] = {}
    first = []
    for i, state in enumerate(places):
        try:
            alike = known.setdefault(problem.key_of(state), [])
        except (TypeError, InvalidInput):  # no key: certified search would refuse it
            alike = []
        same = (j for j in alike if identical(state, places[j]))
        first.append(next(same, i))
        if first[-1] == i:
            alike.append(i)
    return first


def _share(query: Query, count: int) -> Query:
    """The request about one of ``count`` states, by a method that shares nothing."""
    promise, limits = query.promise, query.limits
    if promise.delta is not None:
        promise = replace(promise, delta=check_delta(promise.delta / count))
    calls, seconds = limits.calls, limits.seconds
    return replace(
        query,
        promise=promise,
        limits=replace(
            limits,
            calls=None if calls is None else max(1, calls // count),
            seconds=None if seconds is None else seconds / count,
        ),
    )


def _payable(query: Query, ready: Prepared, count: int) -> Prepared:
    """What is run: all that was prepared, if it fits the default budget.

    Of a race for the best promise, or above that budget, it is the search alone: its
    price is shared, and mostly far lower.
    """
    limits, price = query.limits, ready.explanation.num_calls
    if isinstance(ready, Race) and not query.promise.asked:
        return ready.searching(
            "auto chose certified search: states come back, and it narrows the "
            "intervals of all states until the limit."
        )
    limited = limits.calls is not None or limits.seconds is not None
    if limited or price is None or not query.promise.asked:
        return ready
    if price * count <= DEFAULT_BUDGET:
        return ready
    if isinstance(ready, Race):
        return ready.searching(
            f"auto chose certified search: the schedules of {count:,} states would cost "
            f"up to {short(price * count)} calls, and states come back."
        )
    raise Unpayable(
        f"{count:,} states of up to {short(price)} oracle calls each cost more than "
        f"the budget of {short(DEFAULT_BUDGET)} (budget=); ask for a larger epsilon, "
        "or name a budget or seconds to do the best within."
    )


def _budget(query: Query) -> int | None:
    """The calls of all states together; None where each has the method's default."""
    promised = query.promise.asked
    return query.limits.calls or (DEFAULT_BUDGET if promised else None)


@dataclass
class Call:
    """One method on many states."""

    method: Method
    query: Query  # about all states, where they share
    ready: Prepared  # for one of them, where nothing is shared
    places: list[Any]
    watch: Stopwatch  # of the whole request: compiling does not count
    calls: int | None  # at the most, of all
    until: float  # what ``watch`` shows when time is up
    progress: Callback | None
    known: int = 0  # states that an earlier part has answered
    total: int = 1  # of all parts
    spent: int = 0
    ended: str = ""  # why no more states are asked about
    # states whose share of the limits was used up: more may help them
    cut: list[int] = field(default_factory=list)
    answers: list[Estimate | None] = field(default_factory=list)

    @property
    def reached(self) -> list[bool]:
        """Which states were asked about."""
        return [answer is not None for answer in self.answers]

    @property
    def _seconds_left(self) -> float:
        return self.until - self.watch.elapsed()

    @property
    def by_hand(self) -> bool:
        """Whether the caller wants no more."""
        return self.ended in (BY_HAND, SAID_STOP)

    @stoppable()
    def run(self) -> list[Estimate]:
        """The answers; a state that no limit reached has what the rewards allow."""
        self.answers = [None] * len(self.places)
        session = self.method.together(self.query, self.ready)
        if not session.shared:
            session.query = self.ready.query
            if self.query.limits.calls is None:
                self.calls = None  # the price of each is known, and was checked
        try:
            todo, before = list(range(len(self.places))), -1
            while todo and not self.ended and self.spent > before:
                before = self.spent
                for k, i in enumerate(todo):
                    if not self._ask(session, i, len(todo) - k):
                        break
                todo = [i for i in self.cut if session.shared and self._is_open(i)]
                self.cut = []
            return [self._final(session, i) for i in range(len(self.places))]
        finally:
            session.close()

    def _is_open(self, i: int) -> bool:
        """Whether a state may be asked about again."""
        answer = self.answers[i]
        return answer is None or _missed(answer, self.query.promise)

    def _final(self, session: Session, i: int) -> Estimate:
        """The answer at state ``i``, with what later states have taught."""
        answer = self.answers[i]
        until = 0.0 if self.by_hand else time.perf_counter() + self._seconds_left
        if answer is not None:
            done = self.query.promise.asked and not self._is_open(i)
            return answer if done else session.reviewed(answer, until)
        nothing = self._unsampled(i, self.ended)
        found = session.reviewed(nothing, until)
        if found is nothing:
            return nothing
        why = f"{self.ended}: the interval comes from samples for other states."
        return replace(found, notes=(why,))

    def _unsampled(self, i: int, why: str) -> Estimate:
        problem, seed = self.ready.query.problem, self.ready.query.seed
        place = self.places[i]
        return unsampled_estimate(problem, place, self.method.name, why, seed)

    def _ask(self, session: Session, i: int, left: int) -> bool:
        """Answer state ``i``, the first of ``left`` ones; False where the call ends."""
        limits = self._limits(left, session.shared and self.spent > 0)
        if limits is None:
            return False
        session.query = replace(
            session.query, limits=limits, progress=self._reporter(left)
        )
        stops, earlier, begin = heard(), self.answers[i], self.watch.elapsed()
        try:
            found = session.decide(self.places[i])
        except (Interrupted, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) or heard() > stops:
                self.ended = BY_HAND
                return False
            found = self._unsampled(i, str(error))
            found = replace(found, num_calls=getattr(error, "calls", 0))
        self.spent += found.num_calls
        seconds = self.watch.elapsed() - begin
        used = limits.calls is not None and found.num_calls >= limits.calls
        late = limits.seconds is not None and seconds >= limits.seconds
        if used or late:
            self.cut.append(i)
        if earlier is not None:
            found = replace(
                found,
                num_calls=earlier.num_calls + found.num_calls,
                seconds=earlier.seconds + found.seconds,
            )
        self.answers[i] = found
        if heard() > stops:
            self.ended = BY_HAND
        return not self.ended

    def _limits(self, left: int, again: bool) -> Limits | None:
        """What the next of ``left`` states may cost; None where nothing is left.

        ``again`` says that the step is inspected again after a query, beyond its
        budget.
        """
        calls, seconds = self.calls, None
        if calls is not None:
            inspected = self.query.problem.inspection_calls if again else 0
            rest = calls - self.spent - inspected
            if rest < 1:
                self.ended = "The budget was spent"
                return None
            calls = max(1, min(rest, (calls - self.spent) // left - inspected))
        if self.until < math.inf:
            seconds = self._seconds_left / left
            if seconds <= 0.0:
                self.ended = "The time was up"
                return None
        return replace(self.query.limits, calls=calls, seconds=seconds)

    def _reporter(self, left: int) -> Callback | None:
        """What tells the caller how far all states are; False from it ends the call."""
        tell = self.progress
        if tell is None:
            return None
        before = self.spent
        done = self.known + sum(self.reached)

        def report(one: Progress) -> object:
            if one.phase in ("preparing", "done"):
                return None
            calls, spent = before + one.calls, self.watch.elapsed()
            price = None if one.price is None else before + left * one.price
            until = self._seconds_left if self.until < math.inf else None
            every = replace(
                one,
                calls=calls,
                seconds=spent,
                seconds_left=time_left(calls, price, spent, until),
                price=price,
                done=done,
                total=self.total,
                label=f"state {min(done + 1, self.total):,} of {self.total:,}",
            )
            if says_stop(tell(every)):
                self.ended = SAID_STOP
            return False if self.ended else None

        return report
