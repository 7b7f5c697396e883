"""Methods that follow a schedule: ``smoothcruiser``, ``sparse-sampling``, ``paper``;
and ``run`` and ``resume``, which take a schedule or a stored run.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.errors import Interrupted, InvalidInput, Unpayable
from smoothcruiser.estimate import Estimate, terminal_estimate
from smoothcruiser.jit.interrupts import stoppable, tell_at_the_end
from smoothcruiser.methods.base import DEFAULT_BUDGET, Method, Prepared
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import shaped
from smoothcruiser.query import Asked, Query
from smoothcruiser.schedule.numbers import short
from smoothcruiser.schedule.schedule import Schedule

if TYPE_CHECKING:
    from smoothcruiser.engines.store import Store

COARSEST = 0.5  # of the value span: a wider promise says nothing
# what running a schedule takes of the keywords of ``plan``, whatever its promise
RESUMES = ("executor", "workers", "scheduler", "seconds", "progress")
HOW = frozenset((*RESUMES, "seed", "shards", "store"))


@dataclass(frozen=True, kw_only=True)
class Scheduled(Method):
    """What the methods that follow a schedule share."""

    because = ": it runs the samples of a schedule"

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        return HOW | {"epsilon", "delta", "target", "budget"}

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


@dataclass(frozen=True, kw_only=True)
class SmoothCruiser(Scheduled):
    """The sharp schedule: the paper's algorithm with our constants, optimized."""

    name = "smoothcruiser"

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


class Scheduling(Prepared):
    """A schedule about to run."""

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
        self.check()
        return self.annotated(_started(self.query, self.explanation))


def run(
    problem: Problem, schedule: Schedule, state: Any = None, **asked: Unpack[Asked]
) -> Estimate:
    """The Estimate of one run of a schedule that ``explain`` returned.

    Args:
        problem: the problem that the schedule was made for.
        schedule: what to run; any price is paid.
        state: where; by default the problem's initial state.
        **asked: ``seed``, ``executor``, ``workers``, ``scheduler``, ``shards``,
            ``seconds``, ``progress`` and ``store``, as in ``plan``. With ``store``
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


def resume(
    number: int,
    store: str | Path,
    problem: Problem | None = None,
    *,
    state: Any = None,
    **asked: Any,
) -> Estimate:
    """The Estimate of a stored run, its finished shards reused.

    The bits are those of a run that was never stopped.

    Args:
        number: the run's number in the store (``smoothcruiser runs`` lists them).
        store: the file that the run was started with.
        problem: the same problem again, where ``make`` did not build it.
        state: the same state again, where the store cannot hold it.
        **asked: ``executor``, ``workers``, ``scheduler``, ``seconds`` and
            ``progress``, as in ``plan``.
    """
    from smoothcruiser.engines.store import Store, schedule_from

    check_keywords("resume", asked, RESUMES)
    if not Path(store).exists():
        raise InvalidInput(
            f"The store {store} does not exist; give the file that the run was started "
            "with."
        )
    with Store(store) as opened:
        stored = opened.get(number)
        problem = _same_problem(stored, number, problem)
        schedule = schedule_from(stored.schedule, problem)
        where = shaped(stored.state, problem.initial_state) if state is None else state
        if asked.get("executor") is None and asked.get("scheduler") is None:
            asked["executor"] = stored.executor
        query = Query.of(problem, where, **asked)
        _check_family(query, stored.executor, number)
        compute = replace(query.compute, shards=stored.shards)
        query = replace(query, seed=stored.seed, compute=compute)
        return _run(query, schedule, (opened, number))


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


def _same_problem(stored: Any, number: int, given: Problem | None) -> Problem:
    """The problem of a stored run: built from its spec or given again.

    Its fingerprint must be the stored one.
    """
    from smoothcruiser.engines.store import fingerprint
    from smoothcruiser.problem.spec import from_spec

    if given is None:
        if stored.spec is None:
            raise InvalidInput(
                f"Run {number} is of a problem made in Python ({stored.problem}); pass "
                "the same problem to resume()."
            )
        given = from_spec(stored.spec)
    found = fingerprint(given)
    if found != stored.fingerprint:
        raise InvalidInput(
            f"Run {number} was made for another problem than this one (fingerprints "
            f"{stored.fingerprint} and {found}); pass the problem it was started with, "
            "or start a new run."
        )
    return given


def _started(query: Query, schedule: Schedule) -> Estimate:
    """A run of its own, in a store if one was named."""
    query = replace(query, state=query.place)
    if query.compute.store is None:
        return _run(query, schedule, None)
    from smoothcruiser.engines.registry import choose
    from smoothcruiser.engines.store import Store

    problem, compute = query.problem, query.compute
    with Store(query.compute.store) as opened:
        number = opened.begin(
            problem,
            schedule,
            query.state,
            query.seed,
            compute.shards,
            choose(problem, compute).name,
        )
        return _run(query, schedule, (opened, number))


@stoppable()
def _run(
    query: Query, schedule: Schedule, keeper: tuple[Store, int] | None
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
        store, number = keeper
        keep, known = partial(store.keep, number), store.parts(number)
        hint = f"Finished shards are kept: go on with --resume {number} --store {store.path}."
    tell_at_the_end(hint)
    segments = cut(schedule, shards=compute.shards)
    pool = open_workers(Job(problem, schedule, state, rule.center), compute)
    try:
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
        what = str(error) or "The run was stopped while the step was looked at."
        raise Interrupted(f"{what} {hint}", calls=getattr(error, "calls", 0)) from error
    finally:
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
