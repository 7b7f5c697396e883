"""The decision of ``auto`` about a simulator: prices, a look, and the choice.

The least price of any schedule is known first (``theory.least_price``), then the price
of the best one, then the result of a look (``engines.pilot``). With ``seconds=`` each
step has a share of the time. Rules and reasons: ``methods.auto``, docs/auto.md.

The choice of ``auto`` for a model that ``outcomes=`` gives.

States are listed from the requested one. A model that is listed within its limits is
solved; a larger one is searched, and read as far as the answer needs it. Neither
samples, so delta is 0.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.methods.advice import (
    call_ratio,
    least_of_search,
    no_schedule,
    seconds_of,
    steps_that_matter,
    suggestion,
    worth_a_try,
)
from smoothcruiser.methods.base import DEFAULT_BUDGET, Method, Prepared
from smoothcruiser.methods.certified_search import CertifiedSearch, cannot_search
from smoothcruiser.methods.portfolio import ChosenMethod, Decision, Option, Race
from smoothcruiser.methods.schedules.scheduled import PreparedSchedule, SmoothCruiser
from smoothcruiser.problem.declaration_checks import is_undiscounted, refuse_unbounded
from smoothcruiser.problem.model.known_outcomes import BadRow, NoRow
from smoothcruiser.query import Query
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.clock import Clock, pause_clock
from smoothcruiser.run_control.control import Limits
from smoothcruiser.schedule.compiler.optimizer import LARGEST_EXACT
from smoothcruiser.schedule.number_text import power_of_ten, short
from smoothcruiser.schedule.reach import MOST_ROWS, USEFUL, patience
from smoothcruiser.schedule.schedule import Level
from smoothcruiser.theory.least_price import least_price

if TYPE_CHECKING:
    from smoothcruiser.engines.pilot import Pilot


# calls of the walks of a pilot: a hundredth of the schedule's price, within these
FEWEST, MOST = 32, 64
PILOT_SHARE = 100
# of seconds=, at the most, and in seconds at the least: a shorter look shows nothing
PILOT_SECONDS, LEAST_PILOT = 0.02, 0.01
# Of seconds=, at the most: until the price of a schedule is known, until all is decided,
# and until there is a schedule where nothing else will do.
PRICED, DECIDED, LATE = 0.03, 0.05, 0.15
PILOT_BUDGET = 8  # a budget of fewer times the look's calls is not spent on a look
# of the schedule's price, for the search, since schedules often end early
SHARE = 0.75
# of delta, for the search of a race; its schedule has the other part. The sentences on a
# race say half.
SEARCH_SHARE = 0.5
CHEAP = 2  # times the least price of a search: such a schedule is just run
LISTING = 0.25  # of seconds=, at the most, to list them
TOTALS = "no schedule has discount 1 without a horizon, and the total is bounded"


class AutoChoice:
    """One decision about a simulator."""

    def __init__(self, auto: Method, query: Query) -> None:
        self.auto, self.query = auto, query
        self.watch = Clock()
        self.problem, self.promise = query.problem, query.promise
        self.limits = query.limits
        self.pilot: Pilot | None = None
        self.choice_share = DECIDED  # of seconds=, at the most, to find a schedule

    @property
    def _elapsed_seconds(self) -> float:
        """Seconds since the beginning, without compiling."""
        return self.watch.elapsed()

    def choose(self) -> Prepared:
        """The method to run, prepared."""
        if self.problem.outcomes is not None and self.query.state is not None:
            listing_seconds = None
            if self.limits.seconds is not None:
                listing_seconds = LISTING * self.limits.seconds
            is_useful = self.promise.asked or self._has_limits
            try:
                known_answer = known_model_answer(
                    self.query, listing_seconds, searched=is_useful
                )
            except NoRow as error:
                note = f"auto did not choose exact: {error.where}."
                return self._simulate().with_notes(note)
            if known_answer is not None:
                return known_answer
        return self._simulate()

    def _simulate(self) -> Prepared:
        """The method to run where the model is not known, or not all of it."""
        refuse_unbounded(self.problem, "auto, where the model is not listed,")
        if not self.promise.asked and not self._has_limits:
            raise InvalidInput(
                "auto needs epsilon, the half-width of the promised interval "
                "(epsilon='5%'), or a limit to do its best within: budget= "
                "or seconds=."
            )
        search_obstacle = cannot_search(self.query)
        if is_undiscounted(self.problem):
            return self._search_totals(search_obstacle)
        if search_obstacle is not None:
            self.choice_share = math.inf
            return self._choose_schedule(
                f"auto chose smoothcruiser: {search_obstacle}."
            )
        if self.promise.epsilon is not None:
            return self._keep_promise()
        if self.promise.relative is not None:
            return self._choose_search(
                "auto chose certified search: what a share of the value is, only a "
                "search finds out."
            )
        return self._within_limits()

    def _search_totals(self, search_obstacle: str | None) -> Prepared:
        """Certified search, where totals are bounded and no schedule exists."""
        if search_obstacle is not None:
            raise InvalidInput(
                "At discount 1 without a horizon auto has certified search alone, and "
                f"{search_obstacle}; change that, or give horizon= or a smaller discount."
            )
        return self._choose_search(f"auto chose certified search: {TOTALS}.")

    @property
    def _has_limits(self) -> bool:
        return self.limits.calls is not None or self.limits.seconds is not None

    # --- a promise ------------------------------------------------------------

    def _keep_promise(self) -> Prepared:
        price, refusal = self._schedule_price()
        if price is None:
            return self._without_schedule(refusal)
        look_calls = self._pilot_calls(price) + self.problem.inspection_calls
        if price <= CHEAP * least_of_search(self.problem, self.promise) + look_calls:
            return self._schedule_or_search(
                "auto chose smoothcruiser: its schedule keeps the promise for "
                f"{price:,} calls, and no search needs much less."
            )
        if look_calls > self._calls_left - price:
            return self._schedule_or_search(
                "auto chose smoothcruiser: its schedule keeps the promise for "
                f"{price:,} calls, and the budget leaves too few for a look."
            )
        if not self._comes_back(price):
            in_time = "" if self.limits.seconds is None else ", if there is time"
            return self._schedule_or_search(
                "auto chose smoothcruiser: states hardly come back, and its schedule "
                f"keeps the promise for {price:,} calls{in_time}."
            )
        if self.query.compute.store is not None:
            return self._choose_search(
                f"auto chose certified search: {self._returning}, and a store keeps the "
                "run of one method.",
                price,
            )
        return self._race(price)

    def _race(self, price: int) -> Prepared:
        """Certified search for the time of the schedule, then the schedule."""
        try:
            return self._prepare_race(price)
        except (InvalidInput, Unpayable) as error:
            return self._choose_search(
                f"auto chose certified search: {no_schedule(error)}, and "
                f"{self._returning}.",
                price,
            )

    def _prepare_race(self, price: int) -> Prepared:
        half_schedule = self._prepare_schedule(1.0 - SEARCH_SHARE, Limits())
        half_price = (
            half_schedule.explanation.num_calls + self.problem.inspection_calls
        )
        min_search_calls = least_of_search(self.problem, self.promise)
        if self._calls_left - half_price < min_search_calls:
            return self._choose_schedule(
                "auto chose smoothcruiser: its schedule keeps the promise for "
                f"{price:,} calls, and the budget leaves too few for a search."
            )
        if self.limits.seconds is not None:
            limits = self._limits_left(0.5)
            if limits.calls is not None:  # measuring may take the rest of both
                limits = replace(limits, calls=self._calls_left - min_search_calls)
            half_schedule = self._prepare_schedule(1.0 - SEARCH_SHARE, limits)
        if half_schedule.explanation.epsilon != self.promise.epsilon:
            return self._choose_search(
                f"auto chose certified search: the sharp schedule, {price:,} calls, "
                f"would not end within half of the {self.limits.seconds:g} s, and "
                f"{self._returning}.",
                price,
            )
        search_calls = max(
            int(SHARE * half_price / call_ratio(self.problem)),
            min(half_price, worth_a_try(self.problem)),
        )
        search_calls = min(search_calls, self._calls_left - half_price)
        return self._make_race(
            search_calls,
            f"auto runs certified search first, since {self._returning}, and the "
            f"schedule only if the search will not do with {short(search_calls)} calls; "
            "each has half of delta.",
            half_schedule,
        )

    def _without_schedule(self, why: str) -> Prepared:
        """Certified search, if it has any hope, where no schedule can be paid."""
        if not self._comes_back(self.limits.calls):
            return self._schedule_or_search(
                f"auto chose smoothcruiser: {why}, and states hardly come back, so "
                "a search would not do better."
            )
        return self._choose_search(
            f"auto chose certified search: {why}, and {self._returning}."
        )

    def _within_limits(self) -> Prepared:
        """No epsilon: the best that the limits allow."""
        if not self._comes_back(self.limits.calls):
            return self._schedule_or_search(
                "auto chose smoothcruiser: states hardly come back, so the limit buys "
                "the best schedule."
            )
        try:
            if not self._is_in_reach(0.5):
                raise Unpayable("No schedule within the limit.")
            half_schedule = self._prepare_schedule(
                1.0 - SEARCH_SHARE, self._limits_left(0.5)
            )
        except (InvalidInput, Unpayable):
            half_schedule = None
        if (
            half_schedule is None
            or not self._is_useful(half_schedule)
            or self.query.compute.store
        ):
            return self._choose_search(
                f"auto chose certified search: {self._returning}, and it narrows its "
                "intervals until the limit."
            )
        search_calls = None if self.limits.calls is None else self._calls_left // 2
        return self._make_race(
            search_calls,
            f"auto runs certified search first, since {self._returning}, for half of "
            f"the limit; if it has not reached ±{half_schedule.explanation.epsilon:.3g} "
            "by then, the other half goes to a schedule that does. Each has half of delta.",
            half_schedule,
        )

    # --- prices ---------------------------------------------------------------

    @property
    def _calls_left(self) -> int:
        """Calls left of the budget, after the look."""
        return (self.limits.calls or DEFAULT_BUDGET) - self.query.ledger.total

    @property
    def _value_span(self) -> float:
        return self.problem.facts.value_span()

    def _is_useful(self, ready: PreparedSchedule) -> bool:
        """Whether a schedule's promise is below the useful width, or as requested."""
        epsilon: float = ready.explanation.epsilon
        return epsilon < USEFUL * self._value_span or epsilon == self.promise.epsilon

    def _is_in_reach(self, share: float) -> bool:
        """Whether a useful schedule may cost less than a share of the budget.

        A lower bound on every price is known before any schedule is computed.
        """
        price_floor = least_price(
            self.problem.facts,
            USEFUL * self._value_span or 1.0,
            share * self.promise.failure(),
            self.promise.target,
        )
        log_budget = math.log(max(1.0, share * self._calls_left))
        return price_floor.log_calls <= log_budget and price_floor.depth <= MOST_ROWS

    def _patience(self, share: float) -> AbstractContextManager[None]:
        """The limit on computing schedules: a share of ``seconds=``."""
        if self.limits.seconds is None:
            return nullcontext()
        return patience(share * self.limits.seconds, self.watch.elapsed)

    def _schedule_price(self) -> tuple[int | None, str]:
        """(calls of the schedule, "") or (None, why it cannot be paid)."""
        facts, epsilon = self.problem.facts, self.promise.half_width()
        log_floor = least_price(
            facts, epsilon, self.promise.failure(), self.promise.target
        ).log_calls
        if log_floor > math.log(max(1, self._calls_left)):
            cost_text = power_of_ten(log_floor)
            return None, f"the sharp schedule would cost at least {cost_text} calls"
        try:
            with self._patience(PRICED):
                schedule = self._prepare_schedule(1.0, Limits()).explanation
        except (InvalidInput, Unpayable) as error:
            return None, no_schedule(error)
        price: int = schedule.num_calls + self.problem.inspection_calls
        refusal = f"the sharp schedule would cost {short(price)} calls"
        return (price, "") if price <= self._calls_left else (None, refusal)

    def _pilot_calls(self, price: int | None) -> int:
        """Calls of the pilot's walks, where that many are to be paid."""
        return MOST if price is None else min(MOST, max(FEWEST, price // PILOT_SHARE))

    def _comes_back(self, price: int | None) -> bool:
        """Whether states come back, by a look where the budget allows one."""
        walk_calls = self._pilot_calls(price)
        if (
            PILOT_BUDGET * (walk_calls + self.problem.inspection_calls)
            > self._calls_left
        ):
            return True  # so few calls that none can be spared
        pilot_seconds = longest_wait = math.inf
        if self.limits.seconds is not None:
            pilot_seconds = max(LEAST_PILOT, PILOT_SECONDS * self.limits.seconds)
            longest_wait = self.limits.seconds - self._elapsed_seconds
        with pause_clock():
            from smoothcruiser.engines.pilot import STEPS, run_pilot
        self.pilot = run_pilot(
            self.query,
            calls=walk_calls,
            steps=steps_that_matter(self.problem, self.promise, STEPS),
            seconds=pilot_seconds,
            patience=longest_wait,
        )
        return self.pilot.comes_back or self.problem.deterministic

    @property
    def _returning(self) -> str:
        """Why a search has hope, in words."""
        if self.pilot is None:  # the budget left no calls to see it
            return "states may come back"
        if not self.pilot.comes_back:
            return "chance plays no part"
        return self.pilot.returning

    # --- choices -------------------------------------------------------------

    def _part_query(self, share: float, limits: Limits) -> Query:
        """The query with a share of delta, within other limits, on a ledger of its own."""
        promise = replace(self.promise, delta=share * self.promise.failure())
        return replace(self.query, promise=promise, limits=limits, ledger=CallLedger())

    def _prepare_schedule(self, share: float, limits: Limits) -> PreparedSchedule:
        """A schedule; raises where there is none, or none in time, or too fine a one."""
        part_query = self._part_query(share, limits)
        try:
            with self._patience(self.choice_share):
                scheduling = SmoothCruiser().prepare(part_query)
        finally:  # the simulator may have been timed
            part_query.ledger.move_to(self.query.ledger)
        assert scheduling.fitted is not None
        # the time that this took is counted here, with that of the look
        if scheduling.fitted.pressed:
            raise KeyboardInterrupt
        self._check_rounding(scheduling)
        return replace(scheduling, fitted=scheduling.fitted.again())

    def _check_rounding(self, ready: PreparedSchedule) -> None:
        """Refuse a promise that is too fine for floating point, before it is run."""
        if self.query.state is None or ready.explanation.num_calls > LARGEST_EXACT:
            return
        with pause_clock():
            from smoothcruiser.engines.stopping_rule import stopping_rule
        shards = ready.query.compute.shards
        mover = self.problem.mover(self.query.state)
        stopping_rule(ready.explanation, shards, mover)

    def _limits_left(self, share: float = 1.0) -> Limits:
        """A share of the limits, after the look."""
        num_calls = self.limits.calls
        if num_calls is not None:
            num_calls = max(1, int(share * self._calls_left))
        seconds_left = self.limits.seconds
        if seconds_left is not None:
            seconds_left = max(1e-3, share * (seconds_left - self._elapsed_seconds))
        return replace(self.limits, calls=num_calls, seconds=seconds_left)

    def _schedule_or_search(self, reason: str) -> Prepared:
        """The schedule; within limits a search where there is none."""
        if not self._has_limits:
            return self._choose_schedule(reason)
        try:
            return self._choose_schedule(reason)
        except (InvalidInput, Unpayable) as error:
            return self._choose_search(
                f"auto chose certified search: {no_schedule(error)}, and a search uses "
                "the limit to its end."
            )

    def _choose_schedule(self, reason: str) -> Prepared:
        self.choice_share = max(self.choice_share, LATE)
        inner = self._prepare_schedule(1.0, self._limits_left())
        schedule, delta = inner.explanation, self.promise.delta
        price = schedule.num_calls + self.problem.inspection_calls
        options = (
            self._make_option("smoothcruiser", price, delta),
            self._make_option(
                "certified", None, delta, "instead; its price is not known before"
            ),
        )
        return self._make_choice(reason, inner, options, schedule.levels)

    def _choose_search(self, reason: str, price: int | None = None) -> Prepared:
        inner = CertifiedSearch().prepare(self._part_query(1.0, self._limits_left()))
        delta = self.promise.delta
        options = [self._make_option("certified", None, delta)]
        if price is not None:
            options += [self._make_option("smoothcruiser", price, delta, "instead")]
        return self._make_choice(reason, inner, tuple(options))

    def _make_choice(
        self,
        reason: str,
        inner: Prepared,
        options: tuple[Option, ...],
        levels: tuple[Level, ...] = (),
    ) -> Prepared:
        return ChosenMethod(
            method=inner.method,
            inner=replace(inner, notes=()),
            **self._decide(reason, options, 1, levels, inner.notes),
        )

    def _make_race(
        self, calls: int | None, reason: str, schedule: PreparedSchedule
    ) -> Prepared:
        limits = replace(self.limits, calls=calls)
        search = CertifiedSearch().prepare(self._part_query(SEARCH_SHARE, limits))
        price = schedule.explanation.num_calls + self.problem.inspection_calls
        delta, half = self.promise.failure(), "with half of delta"
        schedule_delta = (1.0 - SEARCH_SHARE) * delta
        options = (
            self._make_option(
                "certified", calls, SEARCH_SHARE * delta, f"first, {half}"
            ),
            self._make_option("smoothcruiser", price, schedule_delta, f"then, {half}"),
        )
        return Race(
            method=self.auto,
            search=search,
            schedule=replace(schedule, notes=()),
            **self._decide(reason, options, 2, schedule.explanation.levels),
        )

    def _decide(
        self,
        reason: str,
        options: tuple[Option, ...],
        num_run: int,
        levels: tuple[Level, ...],
        notes: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """The fields of a choice and of a race: the decision, its notes, its time."""
        decision = Decision(
            reason=reason,
            options=options,
            num_run=num_run,
            epsilon=self.promise.epsilon,
            delta=self.promise.delta,
            pilot=self.pilot,
            calls_before=self.query.ledger.total,
            levels=levels,
        )
        advised = suggestion(self.problem, self.promise, self.pilot)
        return {
            "query": self.query,
            "explanation": decision,
            "notes": (reason, *advised, *notes),
            "spent": self._elapsed_seconds,
            "compiling": self.watch.compile_seconds(),
        }

    def _make_option(
        self, method: str, calls: int | None, delta: float | None, role: str = ""
    ) -> Option:
        seconds = None
        if calls is not None:
            seconds = seconds_of(self.problem, self.pilot, method, calls)
        return Option(
            method=method, num_calls=calls, delta=delta, role=role, seconds=seconds
        )


LISTED = 20_000  # states of outcomes= that are solved: about a second of Python


def known_model_answer(
    query: Query, seconds: float | None, *, searched: bool
) -> Prepared | None:
    """The solution of ``outcomes``, or a search in it; None if neither can be.

    Raises ``NoRow`` where a pair has no row: then there is a simulator to sample.

    Args:
        query: about a problem with ``outcomes``, at a state.
        seconds: for listing states.
        searched: whether a search would know when to end.
    """
    from smoothcruiser.exact.model import Watch
    from smoothcruiser.exact.reachable import TooLarge, explore

    rooted_problem = replace(query.problem, initial_state=query.state)
    try:
        listed_model = explore(
            rooted_problem, most_states=LISTED, watch=Watch(seconds=seconds)
        )
    except TooLarge:
        refuse_unbounded(
            query.problem, f"auto, beyond {LISTED:,} states or the time to list them,"
        )
        if not searched:
            return None
        return (
            CertifiedSearch()
            .prepare(query)
            .with_notes(
                "auto chose certified search: the model is known by outcomes=, with "
                f"more states than {LISTED:,} or than there is time to list, so it is "
                "read as far as the answer needs it; delta is 0."
            )
        )
    except (BadRow, NoRow):
        raise
    except InvalidInput:  # states that are not told apart, ends that only step knows
        return None
    from smoothcruiser.methods.exact_method import Exact

    return replace(Exact().prepare(query), listed_model=listed_model).with_notes(
        "auto chose exact: the model is known by outcomes=, so no sampling is needed "
        "and delta is 0."
    )
