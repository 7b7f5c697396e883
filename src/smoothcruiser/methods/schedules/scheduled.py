"""Methods that follow a schedule: ``smoothcruiser``, ``sparse-sampling``, ``paper``;
and ``run``, which takes a schedule.

A run is (problem, schedule, state, seed, shards): everything else (executor, workers,
progress, store, time) changes its speed and the parts that are kept, never a bit of the
result.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.methods.base import (
    DEFAULT_BUDGET,
    Method,
    Prepared,
    Session,
    last_report,
    prepare_answer,
)
from smoothcruiser.methods.schedules.schedule_run import start_run
from smoothcruiser.methods.schedules.schedule_within_limits import (
    COARSEST,
    FittedSchedule,
    fit_schedule,
)
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import finish, show_bar
from smoothcruiser.query import Compute, PlanKeywords, Query
from smoothcruiser.run_control.clock import Clock, pause_clock
from smoothcruiser.schedule.number_text import short
from smoothcruiser.schedule.reach import OutOfReach
from smoothcruiser.schedule.schedule import Schedule

if TYPE_CHECKING:
    from smoothcruiser.engines.base import Job, Workers
    from smoothcruiser.engines.worker_reuse import WorkerReuse
    from smoothcruiser.schedule.kinds import Kinds
    from smoothcruiser.store import StoredRun

    Open = Callable[[Job, Compute], Workers]

__all__ = [
    "FittedSchedule",
    "Paper",
    "PreparedSchedule",
    "ScheduleSession",
    "Scheduled",
    "SmoothCruiser",
    "SparseSampling",
    "fit_schedule",
    "run",
]

# keywords of ``plan`` that running a schedule takes, whatever its promise
RESUMES = frozenset({"executor", "workers", "scheduler", "tls", "seconds", "progress"})
HOW = RESUMES | {"seed", "shards", "store"}


@dataclass(frozen=True, kw_only=True)
class Scheduled(Method):
    """The base of the methods that follow a schedule."""

    because = ": it runs the samples of a schedule"
    resumes = RESUMES
    takes = HOW | {"epsilon", "delta", "target", "budget"}

    @abstractmethod
    def schedule(self, query: Query) -> Schedule:
        """The cheapest schedule of this kind that keeps the promise."""

    def needs_promise(self, problem: Problem) -> bool:  # noqa: D102
        return True

    def payable(self, query: Query, calls: int, quick: bool) -> Schedule:
        """The schedule of the smallest epsilon found that costs at most ``calls``.

        This one halves the interval of epsilons, in logarithms.
        """
        from smoothcruiser.schedule.alternatives import FINEST

        value_span = query.problem.facts.value_span()
        lower_epsilon, upper_epsilon = FINEST * value_span, COARSEST * value_span

        def at(epsilon: float) -> Schedule:
            promise = replace(query.promise, epsilon=epsilon)
            return self.schedule(replace(query, promise=promise))

        schedule = at(upper_epsilon)
        if schedule.num_calls > calls:
            raise Unpayable(f"No schedule costs at most {calls:,} calls.")
        while upper_epsilon > 1.02 * lower_epsilon:
            middle_epsilon = math.sqrt(lower_epsilon * upper_epsilon)
            finer_schedule = at(middle_epsilon)
            if finer_schedule.num_calls <= calls:
                schedule, upper_epsilon = finer_schedule, middle_epsilon
            else:
                lower_epsilon = middle_epsilon
        return schedule

    def spending(self, problem: Problem, budget: int, delta: float) -> dict[str, Any]:
        """The narrowest promise that the sharp schedule keeps for the budget."""
        from smoothcruiser.schedule.alternatives import payable_epsilon

        epsilon = payable_epsilon(problem.facts, delta, "q_values", budget)
        half_span = COARSEST * problem.facts.value_span()
        if epsilon > half_span:
            raise InvalidInput(
                f"no promise below half of the value span ({half_span:.3g}) can be paid "
                f"with {budget:,} calls"
            )
        return {"epsilon": epsilon, "delta": delta, "budget": budget}

    def prepare(self, query: Query) -> PreparedSchedule:
        """The schedule that fits the limits of the request."""
        try:
            fitted_schedule = fit_schedule(self, query)
        except OutOfReach as error:
            raise self._refusal(query, error) from None
        compute = replace(
            query.compute, shards=fitted_schedule.shards or query.compute.shards
        )
        schedule = fitted_schedule.schedule
        # the printed price holds all calls
        calls_beside = query.ledger.total + fitted_schedule.inspection_calls(
            query.problem
        )
        schedule = replace(schedule, calls_beside=calls_beside)
        return PreparedSchedule(
            method=self,
            query=replace(query, compute=compute),
            explanation=schedule,
            notes=fitted_schedule.notes,
            fitted=fitted_schedule,
        )

    def _refusal(self, query: Query, error: OutOfReach) -> Unpayable:
        """The error where no schedule is computed."""
        from smoothcruiser.schedule.alternatives import PromiseRequest, out_of_reach

        promise, problem = query.promise, query.problem
        if promise.epsilon is None:
            return error
        wish = PromiseRequest(
            self.name, promise.epsilon, promise.failure(), promise.target
        )
        budget = query.limits.calls or DEFAULT_BUDGET
        return out_of_reach(
            problem.facts, wish, error, budget, problem.inspection_calls
        )

    def session(self, query: Query) -> Session:
        """One schedule for all decisions."""
        return ScheduleSession(self, query)

    def together(self, query: Query, ready: Prepared) -> Session:
        """One schedule for all states, on workers that are opened once."""
        return SharedScheduleSession(self, query, ready)

    def pick_up(self, stored: StoredRun, query: Query) -> PreparedSchedule:
        """The stored run, resumed, whichever method made its schedule."""
        from smoothcruiser.store.record_checks import schedule_from

        schedule = schedule_from(stored.plan, query.problem.facts)
        if schedule.method != stored.method:
            raise InvalidInput(
                f"Run {stored.id} is of method {stored.method!r}, and its schedule of "
                f"{schedule.method!r}; start it anew."
            )
        _check_family(query, stored.executor, stored.id)
        return PreparedSchedule(
            method=self, query=query, explanation=schedule, stored=stored
        )


@dataclass(frozen=True, kw_only=True)
class SmoothCruiser(Scheduled):
    """The sharp schedule: the paper's algorithm with our constants, optimized.

    With ``relax``, a name such as "entropy", the promise is about the unregularized
    value, whatever the problem's operator: the operators of that name are tried at
    temperatures that epsilon allows, plain max among them, and the cheapest runs.
    """

    relax: str | None = None
    name = "smoothcruiser"

    def __post_init__(self) -> None:
        if self.relax is not None:
            from smoothcruiser.schedule.relaxation import family_of

            family_of(self.relax)  # refuses an unknown name

    def prepare(self, query: Query) -> PreparedSchedule:  # noqa: D102
        if self.relax is None:
            return super().prepare(query)
        from smoothcruiser.methods.schedules.relaxing import prepare_relaxed

        return prepare_relaxed(self, query, self.relax)

    def schedule(self, query: Query) -> Schedule:  # noqa: D102
        from smoothcruiser.schedule.compiler.optimizer import compile_schedule

        kinds = _runnable_kinds(query)
        return compile_schedule(
            query.problem.facts, kinds=kinds, **_promise_keywords(query)
        )

    def payable(self, query: Query, calls: int, quick: bool) -> Schedule:
        """By the compiler's inverse."""
        return _invert_price(self, query, calls, quick, _runnable_kinds(query))


def _runnable_kinds(query: Query) -> Kinds:
    """All kinds, but for randomized ones that the requested executor does not run.

    Whatever else it does not run, it refuses itself.
    """
    from smoothcruiser.engines.registry import EXECUTORS
    from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS
    from smoothcruiser.schedule.kinds import KINDS

    executor = EXECUTORS.get(query.compute.executor or "")
    try:
        runnable_kinds = (
            ALL_KINDS if executor is None else executor.engine(query.problem).kinds
        )
    except Exception:  # it will say so itself when it is opened
        runnable_kinds = ALL_KINDS
    return frozenset(
        kind
        for kind in ALL_KINDS
        if kind in runnable_kinds or not KINDS[kind].randomized
    )


@dataclass(frozen=True, kw_only=True)
class SparseSampling(Scheduled):
    """Plug-ins alone, as Kearns et al. have it, with the sharp analysis."""

    name = "sparse-sampling"
    compared = False

    def schedule(self, query: Query) -> Schedule:  # noqa: D102
        from smoothcruiser.schedule.compiler.optimizer import sparse_sampling

        return sparse_sampling(query.problem.facts, **_promise_keywords(query))

    def payable(self, query: Query, calls: int, quick: bool) -> Schedule:
        """By the compiler's inverse."""
        from smoothcruiser.schedule.compiler.optimizer import SPARSE_SAMPLING_KINDS

        return _invert_price(self, query, calls, quick, SPARSE_SAMPLING_KINDS)


@dataclass(frozen=True, kw_only=True)
class Paper(Scheduled):
    """The printed algorithm with the printed constants.

    ``delta_prime`` is the paper's confidence per node, in place of ``delta``.
    """

    delta_prime: float | None = None
    name = "paper"
    compared = False

    # every action value is always promised, so there is no target to choose
    takes = Scheduled.takes - {"target"}

    def schedule(self, query: Query) -> Schedule:  # noqa: D102
        from smoothcruiser.schedule.paper_schedule import paper_schedule

        delta = query.promise.delta
        if (delta is None) == (self.delta_prime is None):
            raise InvalidInput(
                "paper mode needs delta= or delta_prime=, one of the two."
            )
        return paper_schedule(
            query.problem.facts,
            epsilon=query.promise.half_width(),
            delta=delta,
            delta_prime=self.delta_prime,
        )


def _invert_price(
    method: Scheduled, query: Query, calls: int, quick: bool, kinds: Kinds
) -> Schedule:
    from smoothcruiser.schedule.alternatives import payable_schedule, quick_schedule

    find_schedule = quick_schedule if quick else payable_schedule
    delta, target = query.promise.failure(), query.promise.target
    return find_schedule(query.problem.facts, delta, target, calls, kinds, method.name)


def _promise_keywords(query: Query) -> dict[str, Any]:
    promise = query.promise
    return {
        "epsilon": promise.half_width(),
        "delta": promise.failure(),
        "target": promise.target,
    }


@dataclass(frozen=True, kw_only=True, repr=False)
class PreparedSchedule(Prepared):
    """A schedule about to run."""

    workers: WorkerReuse | None = None  # opens them, where they serve several runs
    fitted: FittedSchedule | None = None  # how it was chosen; None for a stored run

    def check(self) -> None:
        """Refuse a price above the default budget, where no limit was named."""
        problem, limits = self.query.problem, self.query.limits
        if limits.calls is not None or limits.seconds is not None:
            return
        if self.price <= DEFAULT_BUDGET:
            return
        from smoothcruiser.schedule.alternatives import PromiseRequest, refusal

        raise refusal(
            problem.facts,
            PromiseRequest.of(self.explanation),
            short(self.price),
            DEFAULT_BUDGET,
            problem.inspection_calls,
        )

    @property
    def price(self) -> int:
        """All calls at the most: of the schedule, and those that inspect and time the step."""
        return self.looked + self._chosen.most_calls(self.query.problem)

    @property
    def _chosen(self) -> FittedSchedule:
        return self.fitted or FittedSchedule(schedule=self.explanation)

    def with_pilot(self) -> Self:  # noqa: D102
        from smoothcruiser.engines.base import Job
        from smoothcruiser.engines.pilot import draw_first_samples
        from smoothcruiser.engines.registry import COMPILED, choose

        query, chosen = self.query, self.fitted
        if (
            chosen is None
            or chosen.begun is not None
            or not chosen.schedule.root.looks
        ):
            return self
        fits_budget = chosen.schedule.num_calls <= chosen.room
        is_elsewhere = choose(query.problem, query.compute).name != COMPILED.name
        is_kept = query.compute.store is not None or query.limits.seconds is not None
        if is_elsewhere or is_kept or not fits_budget:
            return self
        self.check()
        first_samples = draw_first_samples(
            Job(query.problem, chosen.schedule, query.place),
            query.seed,
            query.compute.shards,
            query.ledger,
            inspects=chosen.inspects,
        )
        explanation = replace(
            self.explanation, piloted_calls=first_samples.expected_calls
        )
        compile_seconds = chosen.compile_seconds + first_samples.compile_seconds
        chosen = replace(chosen, begun=first_samples, compile_seconds=compile_seconds)
        return replace(self, explanation=explanation, fitted=chosen)

    def answer(self) -> Estimate:
        """The Estimate of one run; with a store its finished shards are kept."""
        if self.stored is None:
            self.check()
        chosen = self._chosen
        lender = self.workers or chosen.workers
        open_workers = None if lender is None else lender.open
        return self.annotated(start_run(self.query, chosen, self.stored, open_workers))


# A schedule serves all time limits within this factor of the one it was chosen for. The
# clock ends a run that would take longer.
SIMILAR = 2.0


class ScheduleSession(Session):
    """Decisions that follow one schedule for each number of steps left.

    Preparing it takes longer than a short decision may: the simulator is timed, and the
    optimizer takes tenths of a second. It depends on no more of the state than how many
    steps are left of a horizon, so the answers are the same.
    """

    _schedules: Any = None  # by horizon: the preparation, and its seconds

    def keep(self, query: Query, ready: PreparedSchedule) -> None:
        """Follow a schedule that was prepared for ``query``."""
        fitted_once = None if ready.fitted is None else ready.fitted.again()
        self._schedules = self._schedules or {}
        time_limit = query.limits.seconds
        self._schedules[query.problem.horizon] = (
            replace(ready, fitted=fitted_once),
            time_limit,
        )

    def answer_query(self, query: Query) -> Estimate:  # noqa: D102
        ready = self._similar_schedule(query)
        if ready is None:
            watch = Clock()
            with pause_clock():
                preparation = prepare_answer(self.method, query)
            if not isinstance(preparation, PreparedSchedule):
                return preparation.answer()
            self.keep(query, ready := preparation)
            if ready.fitted is not None:
                compile_seconds = watch.compile_seconds()
                fitted = replace(ready.fitted, compile_seconds=compile_seconds)
                ready = replace(ready, fitted=fitted)
        state_query = ready.query.at(query.state, query.seed)
        state_query = replace(
            state_query,
            limits=query.limits,
            progress=query.progress,
            ledger=query.ledger,
        )
        return replace(ready, query=state_query).answer()

    def _similar_schedule(self, query: Query) -> PreparedSchedule | None:
        ready: PreparedSchedule | None
        ready, earlier_limit = (self._schedules or {}).get(
            query.problem.horizon, (None, None)
        )
        time_limit = query.limits.seconds
        if ready is None or earlier_limit == time_limit:
            return ready
        is_similar = earlier_limit is not None and time_limit is not None
        is_similar = (
            is_similar
            and earlier_limit / SIMILAR <= time_limit <= earlier_limit * SIMILAR
        )
        return ready if is_similar else None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_schedules": None}


class SharedScheduleSession(Session):
    """Decisions that follow one schedule: it depends on no state."""

    def __init__(self, method: Scheduled, query: Query, ready: Prepared) -> None:
        from smoothcruiser.engines.worker_reuse import WorkerReuse

        super().__init__(method, query)
        fitted = getattr(ready, "fitted", None)
        self._lender = WorkerReuse(None if fitted is None else fitted.workers)
        shared_fields: dict[str, Any] = {"workers": self._lender}
        if isinstance(ready, PreparedSchedule) and ready.fitted is not None:
            # the time of measuring is counted by the preparation
            shared_fields["fitted"] = replace(
                ready.fitted, compile_seconds=0.0, begun=None
            )
        self._ready: Any = replace(ready, **shared_fields)

    def answer_query(self, query: Query) -> Estimate:
        ready = self._ready
        state_query = ready.query.at(query.state, query.seed)
        state_query = replace(
            state_query, limits=query.limits, progress=query.progress
        )
        estimate: Estimate = replace(ready, query=state_query).answer()
        if ready.fitted is not None:  # measuring the simulator is paid for once
            self._ready = replace(ready, fitted=ready.fitted.again())
        return estimate

    def close(self) -> None:
        self._lender.close()


def run(
    problem: Problem,
    schedule: Schedule,
    state: Any = None,
    **asked: Unpack[PlanKeywords],
) -> Estimate:
    """The Estimate of one run of a schedule that ``explain`` returned.

    Args:
        problem: the problem that the schedule was made for.
        schedule: the schedule to run; any price is paid.
        state: where; by default the problem's initial state.
        **asked: ``seed``, ``executor``, ``workers``, ``scheduler``, ``tls``,
            ``shards``, ``seconds``, ``progress`` and ``store``, as in ``plan``. With ``store``
            every finished shard is kept in that file, and ``resume`` takes the run up
            after a kill.
    """
    check_keywords("run", asked, HOW)
    query = Query.of(problem, state, **asked)
    if schedule.facts != problem.facts:
        raise InvalidInput(
            "The schedule was made for a problem with other facts (actions, discount, "
            "operator, rewards); explain this one."
        )
    if problem.is_terminal(query.place):
        return terminal_estimate(problem, query.place, schedule.method)
    with show_bar(query.progress):
        estimate = start_run(query, FittedSchedule(schedule=schedule))
        finish(query.progress, **last_report(estimate))
    return estimate


def _check_family(query: Query, stored: str, number: int) -> None:
    """Refuse to resume a run with an executor that samples from other streams."""
    from smoothcruiser.engines.registry import choose, find_executor
    from smoothcruiser.problem.batched import Batched

    stored_executor = find_executor(stored)
    chosen_executor = choose(query.problem, query.compute)
    same_streams = stored_executor.same_bits and chosen_executor.same_bits
    if stored_executor is chosen_executor or (
        same_streams and not isinstance(query.problem.oracle, Batched)
    ):
        return
    raise InvalidInput(
        f"Run {number} was started with executor {stored!r}, and "
        f"{chosen_executor.name!r} samples from other streams; resume it with executor={stored!r}."
    )
