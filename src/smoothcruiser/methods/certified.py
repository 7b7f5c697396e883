"""``certified``: intervals on every state met, narrowed until the promise is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothcruiser.certified.bounds import DEFAULT, bound_of
from smoothcruiser.certified.explain import CertifiedForecast
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods.base import DEFAULT_BUDGET, Method, Prepared, Session
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Query

if TYPE_CHECKING:
    from smoothcruiser.certified.search import Certified


@dataclass(frozen=True, kw_only=True)
class CertifiedSearch(Method):
    """Search with bounds that hold at any time, for states that come back.

    ``bound`` is a word of ``certified.bounds.BOUNDS``; the certificate names it.
    """

    bound: str = DEFAULT
    name = "certified"
    because = ": it keeps bounds on states in memory, not parts of a schedule"

    def __post_init__(self) -> None:
        bound_of(self.bound)  # refuses what is no bound

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        promise = {"epsilon", "delta", "target", "budget", "seconds", "seed"}
        return frozenset(
            promise | {"executor", "workers", "scheduler", "tls", "progress"}
        )

    def prepare(self, query: Query) -> Searching:  # noqa: D102
        epsilon, delta = query.promise.epsilon, query.promise.failure()
        limits = query.limits
        if epsilon is None and limits.calls is None and limits.seconds is None:
            raise InvalidInput(
                "certified search needs epsilon to stop at a promise, or budget or "
                "seconds to stop at a price."
            )
        problem, executor = query.problem, query.compute.executor
        if executor is not None:
            from smoothcruiser.engines.registry import named

            if not named(executor).same_bits:
                raise InvalidInput(
                    f"certified search does not run on executor {executor!r}; drop it, "
                    "or spread its samples with 'processes' or 'dask'."
                )
        forecast = CertifiedForecast(
            problem.facts, epsilon, delta, problem.inspection_calls
        )
        return Searching(method=self, query=query, explanation=forecast)

    def spending(self, problem: Problem, budget: int, delta: float) -> dict[str, Any]:
        """It runs to the end of the budget."""
        return {"budget": budget, "delta": delta}

    def session(self, query: Query) -> Session:
        """One memory, and one delta, for all decisions."""
        return Remembering(self, query)


class Searching(Prepared):
    """A certified search about to begin."""

    method: CertifiedSearch

    def run(self) -> Estimate:
        """The Estimate of one query on a memory of its own."""
        memory = _memory(self.query, self.method.bound)
        try:
            return self.annotated(_ask(memory, self.query, DEFAULT_BUDGET))
        finally:
            memory.close()


class Remembering(Session):
    """Decisions that share a memory of certified search, and so its delta."""

    _memory: Any = None

    def _decide(self, query: Query) -> Estimate:
        if query.problem is not self.query.problem:  # another number of steps left
            return super()._decide(query)
        if self._memory is None:
            self._memory = _memory(self.query, self.method.bound)
        return _ask(self._memory, query, None)

    def close(self) -> None:  # noqa: D102
        if self._memory is not None:
            self._memory.close()


def _memory(query: Query, bound: str) -> Certified:
    from smoothcruiser.certified.search import Certified

    compute = query.compute
    return Certified(
        query.problem,
        delta=query.promise.failure(),
        seed=query.seed,
        bound=bound,
        executor=compute.executor,
        workers=compute.workers,
        scheduler=compute.scheduler,
        tls=compute.tls,
    )


def _ask(memory: Certified, query: Query, budget: int | None) -> Estimate:
    limits = query.limits
    return memory.query(
        query.place,
        epsilon=query.promise.epsilon,
        budget=budget if limits.calls is None else limits.calls,
        seconds=limits.seconds,
        target=query.promise.target,
        callback=query.progress,
    )
