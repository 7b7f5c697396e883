"""Methods that follow a schedule: ``smoothcruiser``, ``sparse-sampling``, ``paper``;
and ``run``, which takes a schedule.

A run is (problem, schedule, state, seed, shards): everything else (executor, workers,
progress, store, time) changes how fast it is done and what is kept of it, never a bit
of the result.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    StoreError,
    Unpayable,
    WorkersLost,
)
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.jit.interrupts import stoppable, tell_at_the_end
from smoothcruiser.methods.base import DEFAULT_BUDGET, Method, Prepared, Session
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Asked, Compute, Query
from smoothcruiser.schedule.numbers import short
from smoothcruiser.schedule.schedule import Schedule

if TYPE_CHECKING:
    from smoothcruiser.engines.base import Job, Workers
    from smoothcruiser.engines.lending import Lender
    from smoothcruiser.store import Record, Store, StoredRun

COARSEST = 0.5  # of the value span: a wider promise says nothing
# what running a schedule takes of the keywords of ``plan``, whatever its promise
RESUMES = frozenset({"executor", "workers", "scheduler", "tls", "seconds", "progress"})
HOW = RESUMES | {"seed", "shards", "store"}


@dataclass(frozen=True, kw_only=True)
class Scheduled(Method):
    """What the methods that follow a schedule share."""

    because = ": it runs the samples of a schedule"

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        return HOW | {"epsilon", "delta", "target", "budget"}

    @property
    def resumes(self) -> frozenset[str]:  # noqa: D102
        return RESUMES

    @abstractmethod
    def schedule(self, query: Query) -> Schedule:
        """The cheapest schedule of this kind that keeps the promise."""

    def needs_promise(self, problem: Problem) -> bool:  # noqa: D102
        return True

    def spending(self, problem: Problem, budget: int, delta: float) -> dict[str, Any]:
        """The narrowest promise that the sharp schedule keeps for the budget."""
        epsilon = payable_epsilon(problem.facts, budget, delta)
        return {"epsilon": epsilon, "delta": delta, "budget": budget}

    def prepare(self, query: Query) -> Scheduling:
        """The schedule; refused where a budget was set and is too small."""
        found = Scheduling(method=self, query=query, explanation=self.schedule(query))
        if query.limits.calls is not None:
            found.check()
        return found

    def together(self, query: Query) -> Session:
        """One schedule for all states, on workers that are opened once."""
        return Repeating(self, query)

    def pick_up(self, stored: StoredRun, query: Query) -> Scheduling:
        """The rest of a stored run, whoever made its schedule."""
        from smoothcruiser.store.checks import schedule_from

        schedule = schedule_from(stored.plan, query.problem.facts)
        if schedule.method != stored.method:
            raise InvalidInput(
                f"Run {stored.id} is of method {stored.method!r}, and its schedule of "
                f"{schedule.method!r}; start it anew."
            )
        _check_family(query, stored.executor, stored.id)
        return Scheduling(method=self, query=query, explanation=schedule, stored=stored)


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

            family_of(self.relax)  # refuses what is none

    def prepare(self, query: Query) -> Scheduling:  # noqa: D102
        if self.relax is None:
            return super().prepare(query)
        from smoothcruiser.methods.relaxing import prepare_relaxed

        return prepare_relaxed(self, query, self.relax)

    def schedule(self, query: Query) -> Schedule:  # noqa: D102
        from smoothcruiser.schedule.compiler.optimizer import compile_schedule

        return compile_schedule(query.problem.facts, **_promise(query))


@dataclass(frozen=True, kw_only=True)
class SparseSampling(Scheduled):
    """Plug-ins alone, as Kearns et al. have it, with the sharp analysis."""

    name = "sparse-sampling"
    compared = False

    def schedule(self, query: Query) -> Schedule:  # noqa: D102
        from smoothcruiser.schedule.compiler.optimizer import sparse_sampling

        return sparse_sampling(query.problem.facts, **_promise(query))


@dataclass(frozen=True, kw_only=True)
class Paper(Scheduled):
    """The printed algorithm with the printed constants.

    ``delta_prime`` is the paper's confidence per node, in place of ``delta``.
    """

    delta_prime: float | None = None
    name = "paper"
    compared = False

    @property
    def takes(self) -> frozenset[str]:
        """Every action value is always promised, so there is no target to choose."""
        return super().takes - {"target"}

    def schedule(self, query: Query) -> Schedule:  # noqa: D102
        from smoothcruiser.schedule.paper import paper_schedule

        delta = query.promise.delta
        if (delta is None) == (self.delta_prime is None):
            raise InvalidInput(
                "paper mode needs delta (--delta) or delta_prime (--delta-prime), one "
                "of the two."
            )
        return paper_schedule(
            query.problem.facts,
            epsilon=query.promise.half_width(),
            delta=delta,
            delta_prime=self.delta_prime,
        )


@cache
def payable_epsilon(facts: Facts, budget: int, delta: float) -> float:
    """The smallest epsilon whose sharp schedule costs at most ``budget``, within 2%."""
    from smoothcruiser.schedule.compiler.optimizer import compile_schedule

    span = facts.value_span()

    def price(epsilon: float) -> int:
        return compile_schedule(facts, epsilon=epsilon, delta=delta).num_calls

    if span <= 0.0 or price(COARSEST * span) > budget:
        raise InvalidInput(
            "no promise below half of the value span "
            f"({COARSEST * span:.3g}) can be paid with {budget:,} calls"
        )
    low, high = 1e-4 * span, COARSEST * span
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        if price(middle) <= budget:
            high = middle
        else:
            low = middle
    return high


def _promise(query: Query) -> dict[str, Any]:
    promise = query.promise
    return {
        "epsilon": promise.half_width(),
        "delta": promise.failure(),
        "target": promise.target,
    }


@dataclass(frozen=True, kw_only=True)
class Scheduling(Prepared):
    """A schedule about to run."""

    workers: Lender | None = None  # who opens them, where they serve several runs

    def check(self) -> None:
        """Refuse a price above the budget, with what can be paid instead."""
        problem, schedule = self.query.problem, self.explanation
        budget, looks = (
            self.query.limits.calls or DEFAULT_BUDGET,
            problem.inspection_calls,
        )
        if schedule.num_calls + looks <= budget:
            return
        from smoothcruiser.schedule.alternatives import offers

        choices = offers(problem.facts, schedule, max(1, budget - looks))
        lines = "".join(f"\n  - {offer}" for offer in choices)
        raise Unpayable(
            f"This promise costs {short(schedule.num_calls + looks)} oracle calls, "
            f"above the budget of {short(budget)} (--budget). What can be paid:{lines}"
        )

    def run(self) -> Estimate:
        """The Estimate of one run; with a store its finished shards are kept."""
        if self.stored is None:
            self.check()
        opened = None if self.workers is None else self.workers.open
        return self.annotated(
            _started(self.query, self.explanation, self.stored, opened)
        )


class Repeating(Session):
    """Decisions that follow one schedule: it depends on no state."""

    _ready: Any = None  # what prepared the first one

    def _decide(self, query: Query) -> Estimate:
        if self._ready is None:
            from smoothcruiser.engines.lending import Lender

            self._ready = replace(self.method.prepare(query), workers=Lender())
        moved = self._ready.query.at(query.state, query.seed)
        moved = replace(moved, limits=query.limits, progress=query.progress)
        found: Estimate = replace(self._ready, query=moved).run()
        return found

    def close(self) -> None:  # noqa: D102
        if self._ready is not None:
            self._ready.workers.close()


def run(
    problem: Problem, schedule: Schedule, state: Any = None, **asked: Unpack[Asked]
) -> Estimate:
    """The Estimate of one run of a schedule that ``explain`` returned.

    Args:
        problem: the problem that the schedule was made for.
        schedule: what to run; any price is paid.
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
    return _started(query, schedule)


def _check_family(query: Query, stored: str, number: int) -> None:
    """Refuse to resume a run with an executor that samples from other streams."""
    from smoothcruiser.engines.registry import choose, named
    from smoothcruiser.problem.batched import Batched

    before, now = named(stored), choose(query.problem, query.compute)
    shared = before.same_bits and now.same_bits
    if before is now or (shared and not isinstance(query.problem.oracle, Batched)):
        return
    raise InvalidInput(
        f"Run {number} was started with executor {stored!r}, and {now.name!r} samples "
        f"from other streams; resume it with executor {stored!r} (--executor {stored})."
    )


def _started(
    query: Query,
    schedule: Schedule,
    stored: StoredRun | None = None,
    opened: Callable[[Job, Compute], Workers] | None = None,
) -> Estimate:
    """A run, in a store if one was named; one that is stored already goes on."""
    query = replace(query, state=query.place)
    if query.compute.store is None:
        return _run(query, schedule, None, opened)
    from smoothcruiser.store import Store

    with Store(query.compute.store) as store:
        number = store.begin(record(query, schedule)) if stored is None else stored.id
        return _run(query, schedule, (store, number))


def record(query: Query, schedule: Schedule) -> Record:
    """What a store keeps of a run that begins."""
    from smoothcruiser.engines.registry import choose
    from smoothcruiser.store import Record
    from smoothcruiser.store.checks import plain

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
def _run(
    query: Query,
    schedule: Schedule,
    keeper: tuple[Store, int] | None,
    opened: Callable[[Job, Compute], Workers] | None = None,
) -> Estimate:
    from smoothcruiser.engines.answer import assemble, interval_of
    from smoothcruiser.engines.base import Job
    from smoothcruiser.engines.registry import open_workers
    from smoothcruiser.engines.run import Ledger, Listener
    from smoothcruiser.engines.run import run as run_shards
    from smoothcruiser.engines.shards import cut
    from smoothcruiser.engines.stopping import stopping_rule

    problem, state, compute = query.problem, query.state, query.compute
    actions = (
        problem.legal_actions(state) if schedule.root.target == "q_values" else [0]
    )
    rule = stopping_rule(schedule, compute.shards)
    keep: Callable[..., None] | None = None
    known = None
    hint = "Nothing is kept: --store FILE keeps finished shards."
    if keeper is not None:
        from smoothcruiser.store.checks import check_parts

        store, number = keeper
        keep, known = partial(store.keep, number), store.parts(number)
        check_parts(rule, compute.shards, actions, known)
        hint = f"Finished shards are kept: go on with {store.way_back(number)}."
    tell_at_the_end(hint)
    segments = cut(schedule, shards=compute.shards)
    pool = None
    try:
        job = Job(problem, schedule, state, rule.center)
        pool = (opened or open_workers)(job, compute)
        pool.inspect(query.seed)
        outcome = run_shards(
            pool,
            schedule,
            Ledger(segments, actions, rule.enough, known),
            seed=query.seed,
            listener=Listener(query.progress, keep, interval_of(problem, state, rule)),
            seconds=query.limits.seconds,
        )
        looked_calls, repeated = pool.inspect(query.seed)
    except (Interrupted, KeyboardInterrupt) as error:
        what = str(error) or "The run was stopped before its first shard was finished."
        raise Interrupted(f"{what} {hint}", calls=getattr(error, "calls", 0)) from error
    except (StoreError, WorkersLost) as error:
        raise type(error)(f"{error} {hint}") from error
    finally:
        if pool is not None:
            pool.close()
    estimate = assemble(
        problem, state, rule, outcome, pool, seed=query.seed, looked=pool.seen(repeated)
    )
    estimate = replace(
        estimate,
        run=None if keeper is None else keeper[1],
        num_calls=estimate.num_calls + looked_calls,
        calls_spent=(estimate.calls_spent or 0) + looked_calls,
        price=schedule.num_calls + looked_calls,
    )
    if keeper is not None and outcome.finished:
        keeper[0].finish(keeper[1], estimate)
    elif keeper is not None:
        estimate = replace(estimate, notes=(*estimate.notes, hint))
    return estimate
