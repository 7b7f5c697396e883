"""Many states in one call: estimates that hold together with probability 1 - delta.

A session (``methods.base``) answers one state after the other, and what it keeps in
between is what one call saves: certified search has one memory, so that states which
share successors share their samples; a known model is solved once; a schedule is
compiled once, and workers elsewhere are started once.

The promise. A memory of certified search has one delta for all that it is ever asked.
Other methods answer each of the n states with delta/n, so by the union bound all
n intervals hold with probability 1 - delta. (For a schedule that is one plan with
log(2 means n/delta) where one state has log(2 means/delta).) The n runs need not be
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

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, overload

from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    Unpayable,
    described,
)
from smoothcruiser.estimate import (
    Certificate,
    Estimate,
    Spread,
    best_action,
    not_excluded,
    terminal_estimate,
)
from smoothcruiser.jit.interrupts import heard, stoppable
from smoothcruiser.methods.base import (
    DEFAULT_BUDGET,
    Method,
    Session,
    prepared,
    refuse_unused,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import identical
from smoothcruiser.progress import Progress
from smoothcruiser.query import Limits, Query, check_delta


@dataclass(frozen=True)
class Estimates(Sequence[Estimate]):
    """The answers of ``plan_many``, in the order of its states.

    All their intervals hold together with probability at least 1 - ``delta``.
    """

    estimates: tuple[Estimate, ...]
    delta: float | None  # for all of them together; None where nothing is promised
    num_calls: int  # of all; a state that is listed twice is paid for once
    seconds: float
    method: str
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Estimate: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Estimate, ...]: ...

    def __getitem__(self, index: int | slice) -> Estimate | tuple[Estimate, ...]:
        """The answer at a place of the list of states."""
        return self.estimates[index]

    def __len__(self) -> int:
        return len(self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """The answers and what they share, as plain data."""
        return {
            "method": self.method,
            "delta": self.delta,
            "num_calls": self.num_calls,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "estimates": [estimate.to_dict() for estimate in self.estimates],
        }

    def to_json(self, **options: Any) -> str:
        """The answers and what they share, as JSON text."""
        return json.dumps(self.to_dict(), **options)

    def __str__(self) -> str:
        """One line per state, and one for all."""
        lines = [_line(estimate) for estimate in self.estimates]
        sure = ""
        if any(estimate.interval is not None for estimate in self.estimates):
            sure = (
                f", all intervals together with probability {1 - (self.delta or 0):g}"
            )
        count = len(self.estimates)
        lines.append(
            f"{count} {'state' if count == 1 else 'states'} by {self.method}: "
            f"{self.num_calls:,} calls{sure}"
        )
        return "\n".join(lines)


def _line(estimate: Estimate) -> str:
    box = estimate.interval
    where = "" if box is None else f" in [{box[0]:.6g}, {box[1]:.6g}]"
    what = "over" if estimate.action is None else f"action {estimate.action}"
    if estimate.action is None and not estimate.q_values:
        what = "value alone"
    return f"{estimate.state!r:.40}: {estimate.value:.6g}{where}, {what}"


def plan_all(method: Method, query: Query, states: Iterable[Any]) -> Estimates:
    """The answers at all ``states``; ``query`` holds the rest of the request."""
    begin = time.perf_counter()
    if query.compute.store is not None:
        raise InvalidInput(
            "plan_many keeps nothing in a store; drop store (--store), or save the "
            "memory of a Certified."
        )
    refuse_unused(method.name, query, method.takes, method.because)
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
    if live:
        each = _share(query, len(live))
        try:
            ready = prepared(method, each.at(places[live[0]], query.seed))
        except Unpayable as error:
            raise Unpayable(
                f"{len(live)} states share budget and delta. For each of them: {error}"
            ) from error
        method, notes = ready.method, ready.notes
        call = Call(method, query, each, [places[i] for i in live], begin)
        answers |= dict(zip(live, call.run(), strict=True))
    return Estimates(
        estimates=tuple(answers[i] for i in first),
        delta=_joint(query, answers.values()),
        num_calls=sum(answers[i].num_calls for i in set(first)),
        seconds=time.perf_counter() - begin,
        method=method.name,
        notes=notes,
    )


def _joint(query: Query, answers: Iterable[Estimate]) -> float | None:
    """The probability that some interval fails; None where there are none."""
    promises = [x.certificate for x in answers if x.certificate is not None]
    if all(promise.confidence == 1.0 for promise in promises):
        return 0.0 if promises else None
    return query.promise.delta


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
    calls = _budget(query)
    return replace(
        query,
        promise=promise,
        limits=replace(
            limits,
            calls=None if calls is None else max(1, calls // count),
            seconds=None if limits.seconds is None else limits.seconds / count,
        ),
        progress=None,
    )


def _budget(query: Query) -> int | None:
    """The calls of all states together; None where each has the method's default."""
    promised = query.promise.epsilon is not None
    return query.limits.calls or (DEFAULT_BUDGET if promised else None)


BY_HAND = "The call was stopped by hand"
SAID_STOP = "The callback said stop"


@dataclass
class Call:
    """One call of ``plan_many`` under way."""

    method: Method
    query: Query  # for all states
    each: Query  # for one of them, where nothing is shared
    places: list[Any]
    begin: float
    spent: int = 0
    ended: str = ""  # why no more states are asked about
    answers: list[Estimate | None] = field(default_factory=list)

    @stoppable()
    def run(self) -> list[Estimate]:
        """The answers; a state that no limit reached has what the rewards allow."""
        self.answers = [None] * len(self.places)
        session = self.method.together(self.query)
        if not session.shared:
            session.query = self.each
        try:
            todo, before = list(range(len(self.places))), -1
            while todo and not self.ended and self.spent > before:
                before = self.spent
                for k, i in enumerate(todo):
                    if not self._ask(session, i, len(todo) - k):
                        break
                todo = [i for i in todo if session.shared and self._missed(i)]
            return [self._final(session, i) for i in range(len(self.places))]
        finally:
            session.close()

    def _final(self, session: Session, i: int) -> Estimate:
        """The answer at state ``i``, with what later states have taught."""
        answer = self.answers[i]
        if answer is not None:
            asked = self.query.promise.epsilon
            done = asked is not None and not self._missed(i)
            return answer if done else session.reviewed(answer, self._deadline)
        nothing = _unreached(self.query, self.places[i], self.method, self.ended)
        found = session.reviewed(nothing, self._deadline)
        if found is nothing:
            return nothing
        why = f"{self.ended}: the interval comes from samples for other states."
        return replace(found, notes=(why,))

    @property
    def _deadline(self) -> float:
        """When the time of the call is up; at once where somebody has stopped it."""
        if self.ended in (BY_HAND, SAID_STOP):
            return 0.0
        seconds = self.query.limits.seconds
        return math.inf if seconds is None else self.begin + seconds

    def _missed(self, i: int) -> bool:
        """Whether a state may be asked about again: its interval is too wide."""
        answer, wanted = self.answers[i], self.query.promise.epsilon
        if answer is None or wanted is None:
            return answer is None
        return answer.epsilon is not None and answer.epsilon > wanted

    def _ask(self, session: Session, i: int, left: int) -> bool:
        """Answer state ``i``, the first of ``left`` ones; False where the call ends."""
        limits = self._limits(left, session.shared and self.spent > 0)
        if limits is None:
            return False
        session.query = replace(
            session.query, limits=limits, progress=self._reporter(left)
        )
        stops, earlier = heard(), self.answers[i]
        try:
            found = session.decide(self.places[i])
        except (Interrupted, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) or heard() > stops:
                self.ended = BY_HAND
                return False
            calls = getattr(error, "calls", 0)
            found = _unreached(self.query, self.places[i], self.method, str(error))
            found = replace(found, num_calls=calls)
        self.spent += found.num_calls
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
        limits, calls, seconds = self.query.limits, _budget(self.query), None
        if calls is not None:
            inspected = self.query.problem.inspection_calls if again else 0
            rest = calls - self.spent - inspected
            calls = max(1, min(rest, (calls - self.spent) // left - inspected))
            if rest < 1:
                self.ended = "The budget was spent"
                return None
        if limits.seconds is not None:
            seconds = (self.begin + limits.seconds - time.perf_counter()) / left
            if seconds <= 0.0:
                self.ended = "The time was up"
                return None
        return replace(limits, calls=calls, seconds=seconds)

    def _reporter(self, left: int) -> Callable[[Progress], object] | None:
        """What tells the caller how far all states are; False from it ends the call."""
        tell = self.query.progress
        if tell is None:
            return None
        begin, before = self.begin, self.spent

        def report(one: Progress) -> object:
            every = replace(
                one,
                calls=before + one.calls,
                seconds=time.perf_counter() - begin,
                price=None if one.price is None else before + left * one.price,
            )
            if tell(every) is False:
                self.ended = SAID_STOP
            return False if self.ended else None

        return report


def _unreached(query: Query, state: Any, method: Method, why: str) -> Estimate:
    """The answer at a state that nothing is known about but the range of rewards."""
    problem = query.problem
    mover, actions = problem.mover(state), problem.legal_actions(state)
    facts, operator = problem.facts, problem.operator
    interval, box = facts.value_bounds(mover), facts.q_bounds(mover)
    middles = [0.5 * (box[0] + box[1])] * len(actions)
    weights = operator.weights(problem.num_actions)
    gradient = operator.gradient(
        middles, player=mover, weights=[weights[a] for a in actions]
    )
    spread = Spread.over(
        problem.num_actions, actions, middles, [box] * len(actions), gradient
    )
    why = why.rstrip(".")
    return Estimate(
        value=0.5 * (interval[0] + interval[1]),
        interval=interval,
        q_values=spread.q_values,
        policy=spread.policy,
        action=best_action(spread.policy, spread.q_values, mover),
        num_calls=0,
        epsilon=0.5 * max(interval[1] - interval[0], box[1] - box[0]),
        delta=0.0,
        method=method.name,
        certificate=Certificate(
            kind="exact",
            interval=interval,
            q_intervals=spread.q_intervals,
            confidence=1.0,
            bound="the range of rewards",
            best_actions=not_excluded(spread.q_intervals, mover),
        ),
        seconds=0.0,
        compile_seconds=0.0,
        problem=problem.name,
        state=state,
        seed=query.seed,
        notes=(f"{why}: the interval is what the rewards allow.",),
    )
