"""What ``auto`` runs: one method, or certified search and then a schedule.

A race spends delta/2 on each of the two. Certified search gets a bounded number of
calls; where it has not kept the promise by then, the schedule runs, whose price is
known. Whatever decides between them, both intervals hold together with probability
1 - delta (a union), so the answer may be either, or what both leave (docs/auto.md).

What this file leaves out: the choice itself (``methods.auto``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from smoothcruiser.estimate import Estimate, Interval
from smoothcruiser.jit.interrupts import hear
from smoothcruiser.jit.stopwatch import Stopwatch, uncounted
from smoothcruiser.methods.base import DEFAULT_BUDGET, Prepared, Unbegun
from smoothcruiser.methods.certified import Searching, ask, memory_of
from smoothcruiser.methods.joint import both, together
from smoothcruiser.methods.scheduled import Scheduling
from smoothcruiser.progress import Progress, added, says_stop
from smoothcruiser.query import Query
from smoothcruiser.records.data import head, json_text, schema_of
from smoothcruiser.records.fields import DataclassShape
from smoothcruiser.records.shapes import Count, Schema
from smoothcruiser.schedule.numbers import duration, rate, short
from smoothcruiser.schedule.schedule import Level
from smoothcruiser.shown import Shown, brief

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified
    from smoothcruiser.engines.pilot import Pilot

# A search that has spent a share of its calls is judged by what it will need: with n
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
    role: str = ""  # what it does here, in a few words
    seconds: float | None = field(default=None, compare=False)  # of these calls

    def row(self) -> tuple[str, str, str, str]:
        """The option as a row of a table."""
        calls = "not known before" if self.num_calls is None else short(self.num_calls)
        seconds = "" if self.seconds is None else duration(self.seconds)
        return self.method, calls, seconds, self.role

    def weighed(self) -> str:
        """The option as a sentence, where another one is run."""
        if self.num_calls is None:
            price = "whose price is not known before the run"
        else:
            price = f"for at most {short(self.num_calls)} calls"
        if self.seconds is not None:
            price += f" ({duration(self.seconds)})"
        return f"Weighed against it: {self.method}, {price}."


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
    levels: tuple[str, ...] = ()  # none: what it runs has them


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
    measured: int = 0  # calls that measured the speed, for a limit of seconds
    levels: tuple[Level, ...] = ()  # of the schedule, if one may be run
    budget: int | None = None  # of a race whose search may use all of it

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of what is run, in this order."""
        return tuple(option.method for option in self.options[: self.num_run])

    @property
    def method(self) -> str:
        """What is run, in words."""
        return ", then ".join(self.methods)

    @property
    def num_calls(self) -> int | None:
        """Oracle calls at the most, the look's too; None: it depends on the problem."""
        if self.budget is not None:
            return self.budget
        run = [option.num_calls for option in self.options[: self.num_run]]
        known = [calls for calls in run if calls is not None]
        return self.looked + sum(known) if len(known) == len(run) else None

    @property
    def looked(self) -> int:
        """Oracle calls that the decision took: the look's, and those that were timed."""
        return self.measured + (0 if self.pilot is None else self.pilot.calls)

    def to_dict(self) -> dict[str, Any]:
        """The decision as plain data."""
        pilot = self.pilot
        seen = None
        if pilot is not None:
            seen = PilotData(
                calls=pilot.calls,
                steps=pilot.steps,
                returned=pilot.returned,
                by_chance=pilot.by_chance,
                seconds_per_call=pilot.seconds,
            )
        shown = DecisionData(
            method=self.method,
            num_calls=self.num_calls,
            epsilon=self.epsilon,
            delta=self.delta,
            reason=self.reason,
            runs=self.options[: self.num_run],
            instead_of=self.options[self.num_run :],
            pilot=seen,
        )
        found: dict[str, Any] = DataclassShape(DecisionData).data(shown)
        return head(self.json_kind) | found

    def to_json(self, **options: Any) -> str:
        """The decision as JSON text."""
        return json_text(self.to_dict(), options)

    @classmethod
    def json_schema(cls) -> Schema:
        """The JSON Schema of what ``to_dict`` returns."""
        return schema_of(cls.json_kind, cls.__doc__, DecisionData)

    def __repr__(self) -> str:
        return brief("Decision", method=self.method, calls=self.num_calls)

    @property
    def sentence(self) -> str:
        """The decision in words, with a table of what is run."""
        shown = [self.reason, ""]
        if self.pilot is not None:
            shown += [seen_by(self.pilot), ""]
        rows = [option.row() for option in self.options[: self.num_run]]
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        widths[1] = max(widths[1], len("calls at most"))
        widths[2] = max(widths[2], len("time"))
        titles = ("", "calls at most", "time", "")
        for name, calls, seconds, role in (titles, *rows):
            line = (
                f"  {name:<{widths[0]}}  {calls:>{widths[1]}}  "
                f"{seconds:>{widths[2]}}  {role}"
            )
            shown.append(line.rstrip())
        for option in self.options[self.num_run :]:
            shown += ["", option.weighed()]
        return "\n".join(shown) + "\n"


def seen_by(pilot: Pilot) -> str:
    """What the pilot saw, as a sentence."""
    chance = "chance was seen" if pilot.by_chance else "no chance was seen"
    speed = ""
    if pilot.seconds:
        speed = f"; the step alone makes {rate(1.0 / pilot.seconds)}"
    return (
        f"A look of {pilot.calls:,} calls, which are counted: {pilot.returned:,} of "
        f"{pilot.steps:,} steps led to a state that was met before, and {chance}{speed}."
    )


# --- running ------------------------------------------------------------------


def unbegun_in_time(ready: Prepared, spent: float) -> Unbegun | None:
    """The answer where deciding took all the time that there was; None if not."""
    seconds = ready.query.limits.seconds
    if seconds is None or spent < seconds:
        return None
    return replace(unbegun(ready), why="The time was up before the first sample")


def unbegun(ready: Prepared) -> Unbegun:
    """What a decision answers that is not run."""
    return Unbegun(
        method=ready.method,
        query=ready.query,
        explanation=ready.explanation,
        notes=ready.notes,
        calls=ready.looked,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Chosen(Prepared):
    """One method, after a look that is counted."""

    explanation: Decision
    inner: Prepared
    spent: float = 0.0  # seconds that preparing took, without compiling
    compiling: float = 0.0  # seconds that compiling took

    @property
    def parts(self) -> tuple[Prepared, ...]:
        """The one method."""
        return (self.inner,)

    @property
    def looked(self) -> int:
        """Calls that the decision took."""
        return self.explanation.looked

    def check(self) -> None:
        """Refuse what the method refuses."""
        self.inner.check()

    def answer(self) -> Estimate:
        """The Estimate of the method, with the calls of the look."""
        late = unbegun_in_time(self, self.spent)
        if late is not None:
            return late.answer()
        inner, seconds = self.inner, self.query.limits.seconds
        if seconds is not None:
            inner = _with_seconds(inner, max(1e-3, seconds - self.spent))
        progress = added(inner.query.progress, self.looked)
        inner = replace(inner, query=replace(inner.query, progress=progress))
        try:
            return self.annotated(_with_choice(inner.answer(), self))
        except KeyboardInterrupt as stop:  # before the run was ready for it
            hear(stop)
            return unbegun(self).answer()


@dataclass(frozen=True, kw_only=True, repr=False)
class Race(Prepared):
    """Certified search for a bounded number of calls, then a schedule if needed."""

    explanation: Decision
    search: Searching
    schedule: Scheduling
    spent: float = 0.0  # seconds that preparing took, without compiling
    compiling: float = 0.0  # seconds that compiling took

    def __post_init__(self) -> None:
        """Without an epsilon a search that leads uses all of the budget: the price."""
        if self.query.promise.epsilon is None:
            decided = replace(self.explanation, budget=self.query.limits.calls)
            object.__setattr__(self, "explanation", decided)

    @property
    def parts(self) -> tuple[Prepared, ...]:
        """Both, each with half of delta."""
        return self.search, self.schedule

    @property
    def looked(self) -> int:
        """Calls that the decision took."""
        return self.explanation.looked

    def searching(self, reason: str) -> Chosen:
        """The search alone, with all of delta and of the limits."""
        promise, decided = self.query.promise, self.explanation
        inner = self.search.method.prepare(self.query)
        option = Option(method=inner.method.name, delta=promise.delta)
        shown = replace(decided, reason=reason, options=(option,), num_run=1, levels=())
        return Chosen(
            method=inner.method,
            query=self.query,
            explanation=shown,
            notes=(reason, *self.notes[1:]),
            inner=inner,
            spent=self.spent,
            compiling=self.compiling,
        )

    def check(self) -> None:
        """Refuse what the schedule refuses."""
        self.schedule.check()

    def answer(self) -> Estimate:
        """The Estimate of the one that keeps the promise, or of both together."""
        late = unbegun_in_time(self, self.spent)
        if late is not None:
            return late.answer()
        watch = Stopwatch()
        search, seconds = self.search, self.query.limits.seconds
        if seconds is not None:
            search = _with_seconds(search, max(1e-3, 0.5 * (seconds - self.spent)))
        with uncounted():  # it loads modules
            memory = memory_of(search.query, self.search.method.bound)
        told = added(self.query.progress, self.looked)
        judge = _Judge(replace(search.query, progress=told), memory)
        query = replace(search.query, state=search.query.place, progress=judge)
        try:
            first = ask(memory, query, DEFAULT_BUDGET)
            stopped = memory.reason in BY_HAND and not judge.behind
            stopped |= memory.fault is not None  # a step that was broken off
            if not stopped and self._leads(first):
                longer = memory.go_on(
                    budget=self._calls_left(),
                    seconds=self._left(watch),
                    callback=told,
                )
                first = replace(
                    longer,
                    seconds=first.seconds + longer.seconds,
                    compile_seconds=first.compile_seconds + longer.compile_seconds,
                )
                stopped = True
        finally:
            memory.close()
        if stopped or self._is_enough(first, watch):
            return self.annotated(_with_choice(self._of_all(first), self))
        scheduling = self.schedule
        if seconds is not None:
            scheduling = _with_seconds(scheduling, self._left(watch))
        told = added(told, first.num_calls, first.seconds, _with(first.interval))
        scheduling = replace(scheduling, query=replace(scheduling.query, progress=told))
        try:
            second = scheduling.answer()
        except KeyboardInterrupt as stop:  # before the schedule was ready for it
            hear(stop)
            return self.annotated(_with_choice(self._of_all(first), self))
        assert self.query.promise.delta is not None
        found = together(self.query, first, second, self.query.promise.delta)
        return self.annotated(_with_choice(found, self))

    def _calls_left(self) -> int | None:
        """The search's calls where it has the price of both, after the look."""
        calls = self.price
        return None if calls is None else max(1, calls - self.looked)

    def _leads(self, first: Estimate) -> bool:
        """Whether the search, without an epsilon, has what the schedule would have."""
        if self.query.promise.epsilon is not None:
            return False
        reached = first.epsilon
        return reached is not None and reached <= self.schedule.explanation.epsilon

    def _left(self, watch: Stopwatch) -> float | None:
        """The seconds that are left, ``watch`` since the answer was begun."""
        seconds = self.query.limits.seconds
        if seconds is None:
            return None
        return max(1e-3, seconds - self.spent - watch.elapsed())

    def _is_enough(self, first: Estimate, watch: Stopwatch) -> bool:
        """Whether the promise is kept, or the time over."""
        asked, reached = self.query.promise.epsilon, first.epsilon
        if asked is not None and reached is not None and reached <= asked:
            return True
        seconds = self.query.limits.seconds
        left = self._left(watch)
        return seconds is not None and left is not None and left <= 0.05 * seconds

    def _of_all(self, first: Estimate) -> Estimate:
        """The search's answer with the delta of the whole race."""
        delta = self.query.promise.delta
        assert delta is not None
        certificate = first.certificate
        if certificate is not None:
            certificate = replace(certificate, confidence=1.0 - delta)
        return replace(first, delta=delta, certificate=certificate)


class _Judge:
    """Ends a search that will not keep its promise within its calls.

    It judges between rounds alone: when there is a report in the middle of one, the
    clock decides, and what is run must not depend on that.
    """

    def __init__(self, query: Query, memory: Certified) -> None:
        self.memory = memory
        self.progress, self.epsilon = query.progress, query.promise.epsilon
        self.calls = query.limits.calls
        self.behind = False

    def __call__(self, seen: Progress) -> object:
        if self.progress is not None and says_stop(self.progress(seen)):
            return False
        if self.epsilon is None or self.calls is None or seen.half_width is None:
            return None
        if self.memory.in_round:
            return None
        if seen.calls >= JUDGED_FROM * self.calls:
            needed = seen.calls * (seen.half_width / self.epsilon) ** RATE
            self.behind = needed > self.calls
        return not self.behind


def choice_notes(ready: Prepared) -> tuple[str, ...]:
    """What the calls before the first sample were for, if there were any."""
    if not isinstance(ready, Chosen | Race) or not ready.looked:
        return ()
    measured = ready.explanation.measured
    looked = ready.looked - measured
    what = [f"{looked:,} looked at the simulator first"] * (looked > 0)
    timed = "timed it" if looked else "timed the simulator"
    what += [f"{measured:,} {timed}"] * (measured > 0)
    return (f"Of the calls, {' and '.join(what)}.",)


def _with_choice(estimate: Estimate, ready: Chosen | Race) -> Estimate:
    """The estimate with the calls of choosing, and a note on them.

    Where the simulator was timed, that is most of the time of choosing.
    """
    before = ready.looked
    compiling = estimate.compile_seconds + ready.compiling
    estimate = replace(estimate, compile_seconds=compiling)
    if not before:
        return estimate
    return replace(
        with_calls_before(estimate, before),
        seconds=estimate.seconds + (ready.spent if ready.explanation.measured else 0.0),
        notes=(*choice_notes(ready), *estimate.notes),
    )


def with_calls_before(estimate: Estimate, calls: int) -> Estimate:
    """The estimate where so many calls were made before its own."""
    spent, price = estimate.calls_spent, estimate.price
    return replace(
        estimate,
        num_calls=estimate.num_calls + calls,
        calls_spent=None if spent is None else spent + calls,
        price=None if price is None else price + calls,
    )


def _with_seconds(ready: P, seconds: float | None) -> P:
    query = ready.query
    return replace(
        ready, query=replace(query, limits=replace(query.limits, seconds=seconds))
    )


def _with(
    first: Interval | None,
) -> Callable[[Interval | None], Interval | None]:
    """What an interval leaves of ``first``: both hold."""

    def narrowed(found: Interval | None) -> Interval | None:
        if found is None or first is None:
            return found or first
        return both(found, first)

    return narrowed
