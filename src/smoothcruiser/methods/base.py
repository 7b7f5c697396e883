"""A planning method: a frozen object that prepares an answer, then runs.

    Query  ->  method.prepare(query)  ->  Prepared: explanation, notes, run()  ->  Estimate

``prepare`` makes no oracle call, except those that measure the simulator for a time
limit. ``explain`` prints its explanation, so that an explanation and the run that
follows it cannot disagree. ``takes`` names the keywords that a method uses;
``prepare_answer`` refuses every other one, for all methods. A ``Session`` is the memory of
an ``Agent`` between decisions.

This file leaves out the methods themselves (one file per family beside it) and their
table (``methods.METHODS``).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    SmoothcruiserError,
    choose_word,
)
from smoothcruiser.estimate import Estimate, terminal_estimate, unsampled_estimate
from smoothcruiser.jit.random import Key
from smoothcruiser.problem.action_sampler import refuse_sampled
from smoothcruiser.problem.declaration_checks import (
    is_undiscounted,
    refuse_undiscounted,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Phases, finish, show_bar
from smoothcruiser.query import KEYWORDS, Query
from smoothcruiser.records.data import Data
from smoothcruiser.records.shapes import Count
from smoothcruiser.run_control.stop_requests import count_stop

if TYPE_CHECKING:
    from smoothcruiser.store import StoredRun

log = logging.getLogger(__name__)

BY_HAND = "Stopped by hand"
SAID_STOP = "The progress function returned False"
DEFAULT_BUDGET = 10**9  # calls; minutes at the speed of the compiled engine


class Explanation(Protocol):
    """The description of an answer before it is computed; ``str`` shows it."""

    @property
    def method(self) -> str:
        """The name of the method that will run."""

    @property
    def num_calls(self) -> int | None:
        """Oracle calls at the most; None where that is not known before the run.

        A schedule's own price leaves out the calls that inspect and time the step
        (``Schedule.calls_beside``); ``Prepared.price`` has all.
        """

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data."""

    def to_json(self, **options: Any) -> str:
        """The explanation as JSON text."""


@dataclass(frozen=True)
class Forecast(Shown, Data):
    """The explanation of a method that follows no schedule: a price and a sentence."""

    json_kind: ClassVar[str] = "forecast"
    json_more: ClassVar[Mapping[str, Any]] = {"levels": tuple[str, ...]}

    method: str
    num_calls: Count | None
    sentence: str
    epsilon: float | None = None
    delta: float | None = None

    def more_data(self) -> dict[str, Any]:
        """No levels: it follows no schedule."""
        return {"levels": []}

    def __repr__(self) -> str:
        return brief("Forecast", method=self.method, calls=self.num_calls)


@dataclass(frozen=True, kw_only=True)
class Prepared(Shown, ABC):
    """An answer that is prepared and not yet computed.

    ``explain`` shows ``explanation``; ``notes`` say why ``auto`` chose the
    method; ``run()`` computes the Estimate. Methods write ``answer``.
    """

    method: Method
    query: Query
    explanation: (
        Any  # an Explanation; Any, so that a Schedule's own fields can be read
    )
    notes: tuple[str, ...] = ()
    stored: StoredRun | None = None  # the run that is taken up, if one is

    def run(self) -> Estimate:
        """The Estimate; ``progress`` gets reports while it is computed."""
        progress = self.query.progress
        with show_bar(progress):
            estimate = self.answer()
            if progress is not None:
                finish(progress, **last_report(estimate))
        log.debug(
            "%s answered after %d calls in %.3g s, and %.3g s of compiling",
            estimate.method,
            estimate.num_calls,
            estimate.seconds,
            estimate.compile_seconds,
        )
        return estimate

    @abstractmethod
    def answer(self) -> Estimate:
        """The Estimate that ``run`` returns: each method writes this function."""

    def check(self) -> None:
        """Raise the errors that ``run`` would raise before its first oracle call."""

    @property
    def parts(self) -> tuple[Prepared, ...]:
        """The parts that run, one after the other, until the promise is kept."""
        return (self,)

    @property
    def looked(self) -> int:
        """Oracle calls that preparing took."""
        return self.query.ledger.total

    @property
    def price(self) -> int | None:
        """All oracle calls of the request at the most; None where nothing bounds them.

        Those that inspect and time the step, and that preparing took, are among them.
        """
        price: int | None = self.explanation.num_calls
        call_limit = self.query.limits.calls
        if price is None or call_limit is None:
            return call_limit if price is None else price
        return min(price, call_limit)

    def with_pilot(self) -> Self:
        """The same with its first samples taken, so that it can forecast its price.

        ``explanation.expected_calls`` then is a forecast for this problem. The samples
        are those with which ``run`` begins: all calls together stay the same, and so
        does the answer. Where there is no early stop to foresee, or the samples are not
        machine code in this process, or are stored or timed, this is as before.
        """
        return self

    def with_notes(self, *notes: str) -> Self:
        """The same with notes before those it has."""
        return replace(self, notes=(*notes, *self.notes))

    def annotated(self, estimate: Estimate) -> Estimate:
        """The estimate with the notes of its preparation before its own.

        Advice on the request comes last.
        """
        from smoothcruiser.methods.advice import advice, remarks

        further_notes = (
            *remarks(self.query, estimate),
            *advice(self.query, self.explanation, estimate),
        )
        return replace(estimate, notes=(*self.notes, *estimate.notes, *further_notes))

    def __repr__(self) -> str:
        return brief(
            "Prepared",
            problem=self.query.problem.name,
            method=self.explanation.method,
            calls=self.explanation.num_calls,
        )


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A way to plan, as frozen data: its fields are the method's own parameters."""

    name: ClassVar[str]
    # Why other options are of no use to it: ends the sentence that refuses them.
    because: ClassVar[str] = ""
    promises: ClassVar[bool] = True  # whether its answers are certified
    compared: ClassVar[bool] = True  # whether ``compare`` runs it where none is named
    # whether it can plan at discount 1 without a horizon, where totals may be infinite
    sums_totals: ClassVar[bool] = False
    # whether it may run where a problem samples its actions (``problem.action_sampler``)
    samples_actions: ClassVar[bool] = False
    # delta where none is named; None: then it is missing, or of no use
    default_delta: ClassVar[float | None] = None

    @property
    @abstractmethod
    def takes(self) -> frozenset[str]:
        """The keywords of ``plan`` that it uses, of ``query.KEYWORDS``."""

    @abstractmethod
    def prepare(self, query: Query) -> Prepared:
        """The preparation: all that can be known before the first oracle call."""

    def session(self, query: Query) -> Session:
        """The memory between decisions; by default none."""
        return Session(self, query)

    def together(self, query: Query, ready: Prepared) -> Session:
        """The memory of ``plan_many`` between its states; by default that of an agent.

        ``ready`` is the preparation for one of them.
        """
        return self.session(query)

    @property
    def resumes(self) -> frozenset[str]:
        """The keywords of ``plan`` that ``resume`` takes for a stored run of it."""
        return frozenset()

    def pick_up(self, stored: StoredRun, query: Query) -> Prepared:
        """The preparation that resumes a stored run of this method.

        Args:
            stored: the run, its seals checked.
            query: its problem, state, seed and cut, the store, and the keywords of
                ``resume``.
        """
        raise InvalidInput(
            f"Run {stored.id} is of method {self.name!r}, whose runs are not kept; "
            "plan anew."
        )

    def needs_promise(self, problem: Problem) -> bool:
        """Whether it plans ``problem`` only with an epsilon and a delta."""
        return False

    def spending(self, problem: Problem, budget: int, delta: float) -> dict[str, Any]:
        """The keywords of ``plan`` that let it make the most of ``budget`` calls."""
        return {"budget": budget} if "budget" in self.takes else {}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the method's own parameters."""
        return tuple(entry.name for entry in fields(self))

    def with_options(self, options: dict[str, Any]) -> Self:
        """The same method with some parameters replaced."""
        unknown_names = sorted(set(options) - set(self.parameters))
        if unknown_names:
            known_names = ", ".join(self.parameters)
            parameter_text = (
                f"it has {known_names}"
                if known_names
                else "it has none; name a method (method=)"
            )
            raise InvalidInput(
                f"{self.name} has no parameter {unknown_names[0]!r}; {parameter_text}."
            )
        return replace(self, **options)

    def __str__(self) -> str:
        return self.name


# --- sessions -----------------------------------------------------------------


@dataclass
class Session:
    """The memory of an agent between decisions. This one plans every decision afresh.

    ``query`` holds the problem, the limits and the agent's seed; a decision's own
    seed comes from the stream (PLANS, decision).
    """

    method: Any  # a Method
    query: Query
    decisions: int = field(default=0, init=False)
    # whether one memory, and so one delta, serves all decisions
    shared: ClassVar[bool] = False
    ponders: ClassVar[bool] = False  # whether it can think while the other moves

    def decide(self, state: Any, *, remaining: int | None = None) -> Estimate:
        """The Estimate at ``state``, with ``remaining`` steps left of a horizon."""
        seed = np.random.SeedSequence(
            self.query.seed, spawn_key=(Key.PLANS, self.decisions)
        ).generate_state(1)[0]
        estimate = self.answer_query(self._at(state, int(seed), remaining))
        self.decisions += 1
        return estimate

    def decide_fresh(self, state: Any) -> Estimate:
        """The Estimate at ``state`` that depends on nothing that was decided before."""
        query = replace(self._at(state, self.query.seed, None), progress=None)
        return prepare_answer(self.method, query).answer()

    def review(self, estimate: Estimate, deadline: float) -> Estimate:
        """An earlier answer, improved by later samples; by default unchanged.

        After ``deadline``, a time of ``time.perf_counter``, nothing is computed for it.
        """
        return estimate

    def note_action(self, action: int) -> None:
        """Note the action that was taken."""

    def ponder(self) -> None:
        """Think on in a thread, until ``wake``; nothing where it cannot."""

    def wake(self) -> None:
        """Stop thinking: the next decision is due. Errors of the thread are raised."""

    def close(self) -> None:
        """Release workers and memory."""

    def answer_query(self, query: Query) -> Estimate:
        """The Estimate of a decision: the query at its state, with its seed."""
        return prepare_answer(self.method, query).answer()

    def _at(self, state: Any, seed: int, remaining: int | None) -> Query:
        query, problem = self.query, self.query.problem
        if remaining is not None and problem.horizon is not None:
            query = query.on(replace(problem, horizon=remaining))
        return query.at(state, seed)


# --- one place that refuses ---------------------------------------------------


def prepare_answer(method: Method, query: Query) -> Prepared:
    """The prepared answer, or one sentence on an option that the method cannot use."""
    if query.compute.executor is not None:
        from smoothcruiser.engines.registry import find_executor

        find_executor(query.compute.executor)  # refuses an unknown executor
    if not query.given <= method.takes:
        refuse_unused(method.name, query, method.takes, method.because)
    if not method.sums_totals:
        refuse_undiscounted(query.problem, method.name)
    if not method.samples_actions:
        refuse_sampled(query.problem, f"method={method.name!r}")
    if query.state is not None and query.problem.is_terminal(query.state):
        return _prepare_terminal(method, query)
    if Phases(query.progress).begin("preparing"):
        return _prepare_refused(method, query)
    is_unnamed = query.promise.delta is None
    query = with_delta(method, query) if is_unnamed else query
    ready = method.prepare(query)
    if not isinstance(ready, Prepared):
        raise TypeError(
            f"{method.name}.prepare must return a Prepared, got {ready!r}."
        )
    delta = query.promise.delta
    if (
        not is_unnamed
        or delta is None
        or getattr(ready.explanation, "delta", 0.0) != delta
    ):
        return ready
    return replace(ready, notes=(*ready.notes, default_delta_note(delta)))


def default_delta_note(delta: float) -> str:
    """The note on a default delta."""
    return (
        f"No delta was named: {delta:g}, a chance of {1.0 - delta:.0%} that all holds."
    )


def with_delta(method: Method, query: Query) -> Query:
    """The query with the method's own delta, where it has one and none was named."""
    if query.promise.delta is not None or method.default_delta is None:
        return query
    return replace(query, promise=replace(query.promise, delta=method.default_delta))


def run_request(method: Method, query: Query) -> Estimate:
    """The Estimate of a request, also where Ctrl-C comes before its first sample."""
    with show_bar(query.progress):
        try:
            return prepare_answer(method, query).run()
        except KeyboardInterrupt as stop:
            return unstarted_estimate(method, query, stop)


def unstarted_estimate(
    method: Method, query: Query, stop: KeyboardInterrupt
) -> Estimate:
    """The answer without a sample, where ``stop`` came before the first one.

    A method that promises nothing raises ``stop``. A run keeps its own samples: this
    is for the seconds in which a schedule is computed, or a module loaded.
    """
    if not method.promises:
        raise stop
    count_stop(stop)
    stop_reason = f"{BY_HAND} before the first sample"
    estimate = unsampled_estimate(
        query.problem, query.place, method.name, stop_reason, query.seed
    )
    return replace(estimate, num_calls=query.ledger.total)


def refuse_unused(
    verb: str, query: Query, takes: frozenset[str], because: str = ""
) -> None:
    """Refuse in one sentence the named options that have no effect here."""
    unused_names = unused_options(query, takes)
    if unused_names:
        raise InvalidInput(
            f"{verb} does not use {list_arguments(unused_names)}{because}; drop "
            f"{'it' if len(unused_names) == 1 else 'them'}. It takes "
            f"{', '.join(name for name in KEYWORDS if name in takes)}."
        )


def unused_options(query: Query, takes: frozenset[str]) -> list[str]:
    """The options that were named and that are not among ``takes``."""
    return [name for name in KEYWORDS if name in query.given - takes]


def list_arguments(names: Iterable[str]) -> str:
    """Arguments in words; the command line spells them as options (``cli.exit_codes``)."""
    *first_words, last_word = [f"{name}=" for name in names]
    return f"{', '.join(first_words)} and {last_word}" if first_words else last_word


@dataclass(frozen=True, kw_only=True)
class UnstartedAnswer(Prepared):
    """The answer where a stop came before the first sample."""

    why: str = f"{BY_HAND} before the first sample"

    def answer(self) -> Estimate:
        """The answer without a sample."""
        estimate = self.unsampled_answer(self.query.place)
        return self.annotated(replace(estimate, num_calls=self.looked))

    def unsampled_answer(self, state: Any) -> Estimate:
        """The answer without a sample at any state, without the calls."""
        query = self.query
        return unsampled_estimate(
            query.problem, state, self.method.name, self.why, query.seed
        )


def _prepare_refused(method: Method, query: Query) -> Prepared:
    """The answer where the progress function returned False before all else."""
    if query.state is None or is_undiscounted(query.problem):
        raise Interrupted(f"{SAID_STOP}, and nothing is known yet.")
    forecast = Forecast(method.name, 0, f"{SAID_STOP} before it was decided.")
    stop_reason = f"{SAID_STOP} before the first sample"
    return UnstartedAnswer(
        method=method, query=query, explanation=forecast, why=stop_reason
    )


def last_report(estimate: Estimate) -> dict[str, Any]:
    """The fields of the last report: the calls that were made, and their interval."""
    return {
        "calls": estimate.calls_spent or estimate.num_calls,
        "price": estimate.price,
        "seconds": estimate.seconds,
        "interval": estimate.interval,
    }


def _prepare_terminal(method: Method, query: Query) -> Prepared:
    """The answer at a terminal state, with the explanation of the method elsewhere."""
    explanation: Any = Forecast(
        method.name,
        0,
        "0 calls: the state is terminal, and its "
        f"{choose_word('value', query.problem.minimizes)} is 0 by definition.",
        epsilon=0.0,
        delta=0.0,
    )
    with suppress(SmoothcruiserError):  # a promise that is missing or cannot be paid
        explanation = method.prepare(query).explanation
    return TerminalAnswer(method=method, query=query, explanation=explanation)


class TerminalAnswer(Prepared):
    """The answer at a terminal state."""

    def answer(self) -> Estimate:
        """Zero, for sure."""
        return terminal_estimate(
            self.query.problem, self.query.place, self.method.name
        )
