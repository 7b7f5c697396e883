"""``certified``: intervals on every state met, narrowed until the promise is kept."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from smoothcruiser.certified.bounds import bound_of, default_bound
from smoothcruiser.certified.price_forecast import CertifiedForecast, delta_in_order
from smoothcruiser.certified.query_limits import is_priced
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    SmoothcruiserError,
    StoreError,
    WorkersLost,
    choose_word,
)
from smoothcruiser.estimate import Estimate, unsampled_estimate
from smoothcruiser.methods.base import (
    DEFAULT_BUDGET,
    Forecast,
    Method,
    Prepared,
    Session,
    with_delta,
)
from smoothcruiser.problem.declaration_checks import refuse_unbounded
from smoothcruiser.problem.model.known_outcomes import check_ends, has_rows, known_row
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import skip_last_report
from smoothcruiser.query import DEFAULT_DELTA, Compute, Query
from smoothcruiser.run_control.stop_requests import stoppable_run
from smoothcruiser.states.identity import check_recognizable

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified
    from smoothcruiser.store import Record, Store, StoredRun

# Of delta, for paths beside the search: against a half it costs them log(3/2) of
# log(1/alpha), about 3.4, and the search, against all of delta, log(3/2) of about 13.
PATH_SHARE = 1.0 / 3.0
# Below ten steps the radii of a search add up over few steps, and paths hardly pay.
LEAST_DISCOUNT = 0.9
REPLAYED_CALLS = 1000  # of a stored search, when it is resumed
# the promise and the limits that a store keeps
PLAN = ("epsilon", "delta", "target", "budget", "max_states")
# keywords of ``plan`` that a search takes, whatever its promise
RESUMES = frozenset(
    ("executor", "workers", "scheduler", "tls", "progress", "budget", "seconds")
) | {"max_states"}
# ends after which a larger limit changes nothing
OVER = ("epsilon", "rounding", "exhausted")
# ends that no limit caused
LEFT = ("hand", "callback")


@dataclass(frozen=True, kw_only=True)
class CertifiedSearch(Method):
    """Search with bounds that hold at any time, for states that come back.

    ``bound`` is a word of ``certified.bounds.BOUNDS``; the certificate names it.
    """

    bound: str | None = None  # by default that which serves the problem best
    name = "certified"
    default_delta = DEFAULT_DELTA
    because = ": it keeps bounds on states in memory, not parts of a schedule"
    sums_totals = True  # those that are bounded; ``prepare`` refuses the others
    resumes = RESUMES
    takes = RESUMES | {"epsilon", "delta", "target", "seed", "store"}

    def __post_init__(self) -> None:
        if self.bound is not None:
            bound_of(self.bound)  # refuses an unknown bound

    def prepare(self, query: Query) -> PreparedSearch:  # noqa: D102
        promise, limits = query.promise, query.limits
        is_known = has_rows(query.problem)
        if not is_known:
            refuse_unbounded(query.problem, self.name)
        delta = 0.0 if is_known else promise.failure()
        if not promise.asked and limits.calls is None and limits.seconds is None:
            raise InvalidInput(
                "certified search needs epsilon to stop at a promise, or budget or "
                "seconds to stop at a price."
            )
        problem, executor = query.problem, query.compute.executor
        if executor is not None:
            from smoothcruiser.engines.registry import find_executor

            if not find_executor(executor).same_bits:
                raise InvalidInput(
                    f"certified search does not run on executor {executor!r}; drop it, "
                    "or spread its samples with 'processes' or 'dask'."
                )
        if is_known:
            check_ends(problem)
            return PreparedSearch(
                method=self, query=query, explanation=_forecast_reading(query)
            )
        has_paths = is_helped(query)
        search_part = 1.0 - PATH_SHARE if has_paths else 1.0
        forecast = CertifiedForecast(
            problem.facts,
            promise.epsilon if promise.relative is None else None,
            delta,
            problem.inspection_calls,
            relative=promise.relative,
            bound=self.bound or default_bound(problem),
            priced=is_priced(problem),
            part=delta_in_order(problem, search_part),
            has_paths=has_paths,
        )
        return PreparedSearch(method=self, query=query, explanation=forecast)

    def pick_up(self, stored: StoredRun, query: Query) -> PreparedSearch:
        """The stored search, resumed with its own promise and perhaps new limits."""
        stored_plan = stored.plan
        if stored_plan.get("saved"):
            raise InvalidInput(
                f"Run {stored.id} is a memory that Certified.save kept, without a "
                "query to go on with; load it with Certified.load."
            )
        try:
            stored_request = {name: stored_plan[name] for name in PLAN}
            stored_request["epsilon"] = (
                stored_plan.get("words") or stored_request["epsilon"]
            )
            stored_query = Query.of(query.problem, query.state, **stored_request)
            method = replace(self, bound=stored_plan["bound"])
        except (SmoothcruiserError, KeyError, TypeError, OverflowError) as error:
            raise InvalidInput(
                f"The promise of run {stored.id} is none ({error}); the store was left "
                "untouched: start the run anew."
            ) from error
        limits = replace(
            query.limits,
            calls=query.limits.calls or stored_query.limits.calls,
            max_states=query.limits.max_states or stored_query.limits.max_states,
        )
        query = replace(query, promise=stored_query.promise, limits=limits)
        return replace(method.prepare(query), stored=stored)

    def spending(self, problem: Problem, budget: int, delta: float) -> dict[str, Any]:
        """It runs to the end of the budget."""
        return {"budget": budget, "delta": delta}

    def session(self, query: Query) -> Session:
        """One memory, and one delta, for all decisions."""
        if query.compute.store is not None:
            raise InvalidInput(
                "An agent's memory is not kept in a store; drop store, or save a "
                "Certified."
            )
        return CertifiedSession(self, with_delta(self, query))


def is_helped(query: Query) -> bool:
    """Whether paths may help a search (``methods.paths``); fixed before its first call.

    A promise on all action values without a limit ends by the search alone. Games,
    horizons and discount 1 are left to the search.
    """
    problem, promise, limits = query.problem, query.promise, query.limits
    is_limited = limits.calls is not None or limits.seconds is not None
    return (
        not problem.is_game
        and problem.horizon is None
        and LEAST_DISCOUNT <= problem.discount < 1.0
        and not problem.deterministic
        and problem.operator.has_omega
        and not has_rows(problem)
        and (is_limited or promise.target == "value" or not promise.asked)
    )


class PreparedSearch(Prepared):
    """A certified search about to begin, or to go on."""

    method: CertifiedSearch

    @property
    def has_paths(self) -> bool:
        """Whether paths help; a stored search goes on as it began."""
        if self.stored is not None:
            return bool(self.stored.plan.get("has_paths"))
        return is_helped(self.query)

    def answer(self) -> Estimate:
        """The Estimate of one query on a memory of its own; a store keeps both."""
        query = replace(self.query, state=self.query.place)
        with (  # also while modules are imported and workers end
            stoppable_run(),
            closing(
                memory_of(query, self.method.bound, has_paths=self.has_paths)
            ) as memory,
        ):
            if query.compute.store is None:
                return self.annotated(ask(memory, query, DEFAULT_BUDGET))
            from smoothcruiser.store import Store

            with Store(query.compute.store) as open_store:
                estimate = _search_in_store(memory, query, open_store, self.stored)
            return self.annotated(estimate)


def cannot_search(query: Query) -> str | None:
    """Why certified search cannot answer, within a sentence; None if it can."""
    from smoothcruiser.engines.registry import choose

    problem = query.problem
    if query.state is None:
        return "no state was named, so states cannot be looked at"
    executor = choose(problem, query.compute)
    if not executor.same_bits:
        return f"certified search does not run on executor {executor.name!r}"
    if "shards" in query.given:
        return "shards belong to a schedule"
    try:
        check_recognizable(query.state, problem.key_of(query.state))
    except InvalidInput:
        return (
            "states cannot be told apart, so a search could not keep them "
            "(key= tells them apart)"
        )
    return None


def _forecast_reading(query: Query) -> Forecast:
    """The forecast of a search that reads rows instead of sampling."""
    epsilon = query.promise.epsilon
    accuracy_text = "" if epsilon is None else f" within ±{epsilon:g}"
    values_text = choose_word(
        "the value and every action value", query.problem.minimizes
    )
    action = _without_row(query)
    if action is not None:
        delta = 0.0 if query.problem.deterministic else query.promise.failure()
        sentence = (
            f"certified search: {values_text}{accuracy_text} with "
            f"probability {1 - delta:g}. outcomes= is the model where it has\n"
            "rows: they are read, without calls of the step and without a share of "
            f"delta. It has none for action {action} of this state;\n"
            "such pairs are sampled. How many there are, and what they cost, is not "
            "known before the run; budget counts calls and rows.\n"
        )
        return Forecast("certified", None, sentence, epsilon=epsilon, delta=delta)
    sentence = (
        f"certified search: {values_text}{accuracy_text}, with no chance "
        "in it (delta 0). It makes 0 calls of\n"
        "the step: outcomes= is the model, and it reads the rows that the answer needs, "
        "as many as budget allows. How many\n"
        "that are depends on the problem and is not known before the run. This holds if "
        "outcomes= has a row for every pair that\n"
        "the answer needs, as it has for those of this state: a pair without one is "
        "sampled, with a share of delta.\n"
    )
    return Forecast("certified", 0, sentence, epsilon=epsilon, delta=0.0)


def _without_row(query: Query) -> int | None:
    """The first action of the requested state for which there is no row, if any.

    The search itself reports other errors of the rows.
    """
    problem, state = query.problem, query.state
    try:
        if state is None or problem.is_terminal(state):
            return None
        for action in problem.legal_actions(state):
            if known_row(problem, state, action) is None:
                return int(action)
    except SmoothcruiserError:
        return None
    return None


def _search_in_store(
    memory: Certified, query: Query, store: Store, stored: StoredRun | None
) -> Estimate:
    """The answer of a search that a store keeps while it runs."""
    from smoothcruiser.certified.snapshots.store_io import take_up

    run_number = (
        store.begin(_store_record(query, memory)) if stored is None else stored.id
    )
    resume_hint = f"What was sampled is kept: go on with {store.way_back(run_number)}."
    memory.keep(partial(store.keep_memory, run_number))
    snapshot_bytes = None if stored is None else store.memory(run_number)
    try:
        if snapshot_bytes is None:
            estimate = ask(memory, query, DEFAULT_BUDGET)
        else:
            take_up(memory, snapshot_bytes, query.place, query.promise)
            _replay_samples(memory, query, run_number)
            limits = query.limits
            estimate = memory.go_on(
                budget=limits.calls or DEFAULT_BUDGET,
                seconds=limits.seconds,
                callback=query.progress,
            )
    except KeyboardInterrupt as error:  # before it was read back, or a second one
        raise Interrupted(f"The search was stopped. {resume_hint}") from error
    except (StoreError, WorkersLost) as error:
        raise type(error)(f"{error} {resume_hint}") from error
    estimate = replace(estimate, run=run_number)
    if memory.reason in OVER:
        store.finish(run_number, estimate)
        return estimate
    if memory.reason not in LEFT:
        resume_hint = (
            f"{resume_hint[:-1]} and a larger limit (budget=, seconds=, max_states=)."
        )
    if memory.keeper is not None and memory.keeper.unkept is not None:
        resume_hint = f"Not all that was sampled is kept: {memory.keeper.unkept}"
    return replace(estimate, notes=(*estimate.notes, resume_hint))


def _replay_samples(stored: Certified, query: Query, run: int) -> None:
    """Search anew for a moment, and refuse a run whose first samples were others."""
    from smoothcruiser.certified.snapshots.store_io import has_same_samples

    budget = min(int(stored.memory.num_calls), REPLAYED_CALLS)
    if budget == 0:
        return
    limits = replace(query.limits, calls=budget)
    query = replace(query, limits=limits, compute=Compute(), progress=None)
    has_paths = stored.helper is not None  # the samples depend on the shares
    replayed = memory_of(query, stored.bound.word, has_paths=has_paths)
    try:
        ask(replayed, query, budget)
        is_same = has_same_samples(stored, replayed, query.place)
    finally:
        replayed.close()
    if not is_same:
        raise InvalidInput(
            f"Run {run} was made for another problem than this one: its first samples, "
            "taken again, have other outcomes than the stored ones; pass the problem it "
            "was started with, or start a new run."
        )


def _store_record(query: Query, memory: Certified) -> Record:
    from smoothcruiser.engines.registry import choose
    from smoothcruiser.store import Record

    promise, limits = query.promise, query.limits
    return Record(
        problem=query.problem,
        method="certified",
        plan={
            "epsilon": promise.epsilon,
            "words": None if promise.relative is None else promise.words,
            "delta": promise.delta,
            "target": promise.target,
            "budget": limits.calls,
            "max_states": limits.max_states,
            "bound": memory.bound.word,
            "has_paths": memory.helper is not None,
        },
        state=query.place,
        seed=query.seed,
        executor=choose(query.problem, query.compute).name,
    )


class CertifiedSession(Session):
    """Decisions that share a memory of certified search, and so its delta."""

    shared = True
    _memory: Any = None

    def answer_query(self, query: Query) -> Estimate:  # noqa: D102
        if query.problem is not self.query.problem:  # another number of steps left
            return super().answer_query(query)
        if self._memory is None:
            self._memory = memory_of(self.query, self.method.bound)
        from smoothcruiser.certified.state_table import has_room

        refusal = None
        if self._memory.fault is not None:
            refusal = f"The memory takes no more samples: {self._memory.fault}"
        elif not has_room(self._memory, query.place):
            refusal = "The memory has no room for another state (max_states=)"
        if refusal is not None:
            return unsampled_estimate(
                query.problem, query.place, self.method.name, refusal, query.seed
            )
        return ask(self._memory, query, None)

    def review(self, estimate: Estimate, deadline: float) -> Estimate:
        """The answer with the bounds that the memory has by now."""
        if self._memory is None:
            return estimate
        from smoothcruiser.certified.state_table import review_estimate

        return review_estimate(self._memory, estimate, deadline)

    def close(self) -> None:  # noqa: D102
        if self._memory is not None:
            self._memory.close()


def memory_of(
    query: Query, bound: str | None, *, has_paths: bool = False
) -> Certified:
    """An empty memory for the query; where it ``has_paths``, with paths beside it."""
    from smoothcruiser.certified.search import Certified

    compute, delta = query.compute, query.promise.delta
    if has_paths:
        delta = (1.0 - PATH_SHARE) * query.promise.failure()
    search = Certified(
        query.problem,
        delta=delta,
        seed=query.seed,
        bound=bound,
        max_states=query.limits.max_states,
        executor=compute.executor,
        workers=compute.workers,
        scheduler=compute.scheduler,
        tls=compute.tls,
    )
    if has_paths:
        from smoothcruiser.methods.paths.search_with_paths import PathsBesideSearch

        search.helper = PathsBesideSearch(
            search, query, PATH_SHARE * query.promise.failure()
        )
    return search


def ask(memory: Certified, query: Query, budget: int | None) -> Estimate:
    """The memory's answer; ``budget`` counts where the query names none."""
    limits, promise = query.limits, query.promise
    return memory.query(
        query.place,
        epsilon=promise.epsilon if promise.relative is None else None,
        relative=promise.relative,
        budget=budget if limits.calls is None else limits.calls,
        seconds=limits.seconds,
        target=promise.target,
        progress=skip_last_report(query.progress),
    )
