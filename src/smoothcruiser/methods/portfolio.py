"""The runs of ``auto``: one method, or certified search and then a schedule.

A race spends delta/2 on each of the two. Certified search gets a bounded number of
calls; where it has not kept the promise by then, the schedule runs, at a known price.
Whatever decides between them, both intervals hold together with probability 1 - delta
(a union), so the answer may be either, or the intersection of both (docs/auto.md).

This file leaves out the choice itself (``methods.auto``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.estimate import Estimate, Interval
from smoothcruiser.methods.base import DEFAULT_BUDGET, Prepared, UnstartedAnswer
from smoothcruiser.methods.certified_search import PreparedSearch, ask, memory_of
from smoothcruiser.methods.schedules.schedule_run import (
    combine_estimates,
    intersect_intervals,
    with_calls_before,
)
from smoothcruiser.methods.schedules.scheduled import PreparedSchedule
from smoothcruiser.progress import Progress, add_earlier_work, says_stop
from smoothcruiser.query import Query
from smoothcruiser.records.data import head, json_text, schema_of
from smoothcruiser.records.json_shapes import DataclassShape
from smoothcruiser.records.shapes import Count, Schema
from smoothcruiser.run_control.call_ledger import CallRole
from smoothcruiser.run_control.clock import LEAST_SECONDS, Clock, pause_clock
from smoothcruiser.run_control.stop_requests import count_stop
from smoothcruiser.schedule.number_text import duration, rate, short
from smoothcruiser.schedule.schedule import Level

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified
    from smoothcruiser.engines.pilot import Pilot

# A search that has spent a share of its calls is judged by its forecast: with n
# calls for a half-width w, about n (w/epsilon)**RATE in all. The widths of searches
# fall like this, as measured (docs/evidence/portfolio.md).
RATE, JUDGED_FROM = 1.5, 0.125
# ends of a search after which its user wants no more
BY_HAND = ("callback", "hand")
P = TypeVar("P", bound=Prepared)


@dataclass(frozen=True, kw_only=True)
class Option:
    """A method with its price, run or weighed."""

    method: str
    num_calls: Count | None = None  # at the most; None: it depends on the problem
    delta: float | None = None
    role: str = ""  # in a few words
    seconds: float | None = field(default=None, compare=False)  # of these calls

    def row(self) -> tuple[str, str, str, str]:
        """The option as a row of a table."""
        calls_text = (
            "not known before" if self.num_calls is None else short(self.num_calls)
        )
        time_text = "" if self.seconds is None else duration(self.seconds)
        return self.method, calls_text, time_text, self.role

    def alternative_sentence(self) -> str:
        """The option as a sentence, where another one is run."""
        if self.num_calls is None:
            price_text = "whose price is not known before the run"
        else:
            price_text = f"for at most {short(self.num_calls)} calls"
        if self.seconds is not None:
            price_text += f" ({duration(self.seconds)})"
        return f"Weighed against it: {self.method}, {price_text}."


@dataclass(frozen=True, kw_only=True)
class PilotData:
    """What a look saw, as JSON has it."""

    calls: int
    steps: int
    returned: int
    by_chance: bool
    seconds_per_call: float | None


@dataclass(frozen=True, kw_only=True)
class DecisionData:
    """A decision as JSON has it."""

    method: str
    num_calls: Count | None
    epsilon: float | None
    delta: float | None
    reason: str
    runs: tuple[Option, ...]
    instead_of: tuple[Option, ...]
    pilot: PilotData | None
    levels: tuple[str, ...] = ()  # none: the methods that it runs have them


@dataclass(frozen=True, kw_only=True)
class Decision(Shown):
    """What ``auto`` decided and on what grounds; ``str`` shows it."""

    json_kind: ClassVar[str] = "decision"

    reason: str
    options: tuple[Option, ...]  # those that are run come first
    num_run: int  # how many of them are run, one after the other
    epsilon: float | None
    delta: float | None
    pilot: Pilot | None = None
    calls_before: int = 0  # those that the decision took
    levels: tuple[Level, ...] = ()  # of the schedule, if one may be run
    budget: int | None = None  # of a race with a search that may use all of it

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods that run, in this order."""
        return tuple(option.method for option in self.options[: self.num_run])

    @property
    def method(self) -> str:
        """The methods that run, in words."""
        return ", then ".join(self.methods)

    @property
    def num_calls(self) -> int | None:
        """Oracle calls at the most, the look's too; None: it depends on the problem."""
        if self.budget is not None:
            return self.budget
        option_calls = [option.num_calls for option in self.options[: self.num_run]]
        if None in option_calls:
            return None
        return self.calls_before + sum(filter(None, option_calls))

    def to_dict(self) -> dict[str, Any]:
        """The decision as plain data."""
        pilot = self.pilot
        pilot_data = None
        if pilot is not None:
            pilot_data = PilotData(
                calls=pilot.calls,
                steps=pilot.steps,
                returned=pilot.returned,
                by_chance=pilot.by_chance,
                seconds_per_call=pilot.seconds,
            )
        decision_data = DecisionData(
            method=self.method,
            num_calls=self.num_calls,
            epsilon=self.epsilon,
            delta=self.delta,
            reason=self.reason,
            runs=self.options[: self.num_run],
            instead_of=self.options[self.num_run :],
            pilot=pilot_data,
        )
        json_fields: dict[str, Any] = DataclassShape(DecisionData).data(decision_data)
        return head(self.json_kind) | json_fields

    def to_json(self, **options: Any) -> str:
        """The decision as JSON text."""
        return json_text(self.to_dict(), options)

    @classmethod
    def json_schema(cls) -> Schema:
        """The JSON Schema of the result of ``to_dict``."""
        return schema_of(cls.json_kind, cls.__doc__, DecisionData)

    def __repr__(self) -> str:
        return brief("Decision", method=self.method, calls=self.num_calls)

    @property
    def sentence(self) -> str:
        """The decision in words, with a table of the methods that run."""
        text_lines = [self.reason, ""]
        if self.pilot is not None:
            text_lines += [describe_pilot(self.pilot), ""]
        table_rows = [option.row() for option in self.options[: self.num_run]]
        column_widths = [max(len(row[k]) for row in table_rows) for k in range(3)]
        column_widths[1] = max(column_widths[1], len("calls at most"))
        column_widths[2] = max(column_widths[2], len("time"))
        column_titles = ("", "calls at most", "time", "")
        for name, calls_text, time_text, role in (column_titles, *table_rows):
            line = (
                f"  {name:<{column_widths[0]}}  {calls_text:>{column_widths[1]}}  "
                f"{time_text:>{column_widths[2]}}  {role}"
            )
            text_lines.append(line.rstrip())
        for option in self.options[self.num_run :]:
            text_lines += ["", option.alternative_sentence()]
        return "\n".join(text_lines) + "\n"


def describe_pilot(pilot: Pilot) -> str:
    """The observations of the pilot, as a sentence."""
    chance_text = "chance was seen" if pilot.by_chance else "no chance was seen"
    speed_text = ""
    if pilot.seconds:
        speed_text = f"; the step alone makes {rate(1.0 / pilot.seconds)}"
    return (
        f"A look of {pilot.calls:,} calls, which are counted: {pilot.returned:,} of "
        f"{pilot.steps:,} steps led to a state that was met before, and "
        f"{chance_text}{speed_text}."
    )


# --- running ------------------------------------------------------------------


def unstarted_if_late(ready: Prepared, spent: float) -> UnstartedAnswer | None:
    """The answer where deciding took all the time that there was; None if not."""
    time_limit = ready.query.limits.seconds
    if time_limit is None or spent < time_limit:
        return None
    return replace(
        unstarted_answer(ready), why="The time was up before the first sample"
    )


def unstarted_answer(ready: Prepared) -> UnstartedAnswer:
    """The answer of a decision that is not run."""
    return UnstartedAnswer(
        method=ready.method,
        query=ready.query,
        explanation=ready.explanation,
        notes=ready.notes,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class DecidedRun(Prepared):
    """The run of a decision, after a look that is counted."""

    explanation: Decision
    spent: float = 0.0  # seconds that preparing took, without compiling
    compiling: float = 0.0  # seconds that compiling took

    def answer(self) -> Estimate:
        """The Estimate, with the calls of the look."""
        late_answer = unstarted_if_late(self, self.spent)
        if late_answer is not None:
            return late_answer.answer()
        return self.answer_in_time()

    @abstractmethod
    def answer_in_time(self) -> Estimate:
        """The Estimate where deciding has left time for one."""

    def annotated(self, estimate: Estimate) -> Estimate:
        """The estimate with the calls of choosing, and a note on them.

        Where the simulator was timed, that is most of the time of choosing.
        """
        compile_seconds = estimate.compile_seconds + self.compiling
        estimate = replace(estimate, compile_seconds=compile_seconds)
        if self.looked:
            timing = self.spent if self.query.ledger.count(CallRole.TIMING) else 0.0
            estimate = replace(
                with_calls_before(estimate, self.looked),
                seconds=estimate.seconds + timing,
                notes=(*choice_notes(self), *estimate.notes),
            )
        return super().annotated(estimate)


@dataclass(frozen=True, kw_only=True, repr=False)
class ChosenMethod(DecidedRun):
    """One method, after a look that is counted."""

    inner: Prepared

    @property
    def parts(self) -> tuple[Prepared, ...]:
        """The one method."""
        return (self.inner,)

    def check(self) -> None:
        """Raise the errors of the method."""
        self.inner.check()

    def answer_in_time(self) -> Estimate:  # noqa: D102
        inner, time_limit = self.inner, self.query.limits.seconds
        if time_limit is not None:
            inner = _with_seconds(inner, max(1e-3, time_limit - self.spent))
        progress = add_earlier_work(inner.query.progress, self.looked)
        inner = replace(inner, query=replace(inner.query, progress=progress))
        try:
            return self.annotated(inner.answer())
        except KeyboardInterrupt as stop:  # before the run was ready for it
            count_stop(stop)
            return unstarted_answer(self).answer()


@dataclass(frozen=True, kw_only=True, repr=False)
class Race(DecidedRun):
    """Certified search for a bounded number of calls, then a schedule if needed."""

    search: PreparedSearch
    schedule: PreparedSchedule

    def __post_init__(self) -> None:
        """Without an epsilon a search that leads uses all of the budget: the price."""
        if self.query.promise.epsilon is None:
            decision = replace(self.explanation, budget=self.query.limits.calls)
            object.__setattr__(self, "explanation", decision)

    @property
    def parts(self) -> tuple[Prepared, ...]:
        """Both, each with half of delta."""
        return self.search, self.schedule

    def search_alone(self, reason: str) -> ChosenMethod:
        """The search alone, with all of delta and of the limits."""
        promise, decision = self.query.promise, self.explanation
        inner = self.search.method.prepare(self.query)
        option = Option(method=inner.method.name, delta=promise.delta)
        search_decision = replace(
            decision, reason=reason, options=(option,), num_run=1, levels=()
        )
        return ChosenMethod(
            method=inner.method,
            query=self.query,
            explanation=search_decision,
            notes=(reason, *self.notes[1:]),
            inner=inner,
            spent=self.spent,
            compiling=self.compiling,
        )

    def check(self) -> None:
        """Raise the errors of the schedule."""
        self.schedule.check()

    def answer_in_time(self) -> Estimate:
        """The Estimate of the one that keeps the promise, or of both together."""
        watch = Clock(self.query.limits.seconds, self.spent)
        search = self.search
        if watch.is_limited:
            search = _with_seconds(search, max(LEAST_SECONDS, 0.5 * watch.left()))
        with pause_clock():  # it loads modules
            memory = memory_of(search.query, self.search.method.bound)
        progress = add_earlier_work(self.query.progress, self.looked)
        judge = _Judge(replace(search.query, progress=progress), memory)
        query = replace(search.query, state=search.query.place, progress=judge)
        try:
            search_estimate = ask(memory, query, DEFAULT_BUDGET)
            is_stopped = memory.reason in BY_HAND and not judge.behind
            is_stopped |= memory.fault is not None  # a step that was broken off
            if not is_stopped and self._leads(search_estimate):
                longer_estimate = memory.go_on(
                    budget=self._calls_left(),
                    seconds=watch.remaining(),
                    callback=progress,
                )
                search_estimate = replace(
                    longer_estimate,
                    seconds=search_estimate.seconds + longer_estimate.seconds,
                    compile_seconds=search_estimate.compile_seconds
                    + longer_estimate.compile_seconds,
                )
                is_stopped = True
        finally:
            memory.close()
        if is_stopped or self._is_enough(search_estimate, watch):
            return self.annotated(self._with_full_delta(search_estimate))
        scheduling = self.schedule
        if watch.is_limited:
            scheduling = _with_seconds(scheduling, watch.remaining())
        progress = add_earlier_work(
            progress,
            search_estimate.num_calls,
            search_estimate.seconds,
            _narrow_by(search_estimate.interval),
        )
        scheduling = replace(
            scheduling, query=replace(scheduling.query, progress=progress)
        )
        try:
            schedule_estimate = scheduling.answer()
        except KeyboardInterrupt as stop:  # before the schedule was ready for it
            count_stop(stop)
            return self.annotated(self._with_full_delta(search_estimate))
        assert self.query.promise.delta is not None
        joint_estimate = combine_estimates(
            self.query, search_estimate, schedule_estimate, self.query.promise.delta
        )
        return self.annotated(joint_estimate)

    def _calls_left(self) -> int | None:
        """The search's calls where it has the price of both, after the look."""
        num_calls = self.price
        return None if num_calls is None else max(1, num_calls - self.looked)

    def _leads(self, estimate: Estimate) -> bool:
        """Whether the search, without an epsilon, is as narrow as the schedule or more."""
        if self.query.promise.epsilon is not None:
            return False
        reached_width = estimate.epsilon
        return (
            reached_width is not None
            and reached_width <= self.schedule.explanation.epsilon
        )

    def _is_enough(self, estimate: Estimate, watch: Clock) -> bool:
        """Whether the promise is kept, or the time over."""
        requested_epsilon, reached_width = self.query.promise.epsilon, estimate.epsilon
        if reached_width is None:
            reached_width = math.inf
        if requested_epsilon is not None and reached_width <= requested_epsilon:
            return True
        return watch.is_limited and watch.left() <= 0.05 * watch.limit

    def _with_full_delta(self, estimate: Estimate) -> Estimate:
        """The search's answer with the delta of the whole race."""
        delta = self.query.promise.delta
        assert delta is not None
        certificate = estimate.certificate
        if certificate is not None:
            certificate = replace(certificate, confidence=1.0 - delta)
        return replace(estimate, delta=delta, certificate=certificate)


class _Judge:
    """Ends a search that will not keep its promise within its calls.

    It judges between rounds alone: the clock decides when there is a report in the
    middle of one, and the choice must not depend on that.
    """

    def __init__(self, query: Query, memory: Certified) -> None:
        self.memory = memory
        self.progress, self.epsilon = query.progress, query.promise.epsilon
        self.calls = query.limits.calls
        self.behind = False

    def __call__(self, report: Progress) -> object:
        if self.progress is not None and says_stop(self.progress(report)):
            return False
        if self.epsilon is None or self.calls is None or report.half_width is None:
            return None
        if self.memory.in_round:
            return None
        if report.calls >= JUDGED_FROM * self.calls:
            calls_needed = report.calls * (report.half_width / self.epsilon) ** RATE
            self.behind = calls_needed > self.calls
        return not self.behind


def choice_notes(ready: Prepared) -> tuple[str, ...]:
    """The note on the calls before the first sample, if there were any."""
    if not isinstance(ready, DecidedRun) or not ready.looked:
        return ()
    timed_calls = ready.query.ledger.count(CallRole.TIMING)
    look_calls = ready.looked - timed_calls
    call_purposes = [f"{look_calls:,} looked at the simulator first"] * (
        look_calls > 0
    )
    timed_text = "timed it" if look_calls else "timed the simulator"
    call_purposes += [f"{timed_calls:,} {timed_text}"] * (timed_calls > 0)
    return (f"Of the calls, {' and '.join(call_purposes)}.",)


def _with_seconds(ready: P, seconds: float | None) -> P:
    query = ready.query
    return replace(
        ready, query=replace(query, limits=replace(query.limits, seconds=seconds))
    )


def _narrow_by(
    earlier: Interval | None,
) -> Callable[[Interval | None], Interval | None]:
    """The function that intersects an interval with ``earlier``: both hold."""

    def narrow_interval(interval: Interval | None) -> Interval | None:
        if interval is None or earlier is None:
            return interval or earlier
        return intersect_intervals(interval, earlier)

    return narrow_interval
