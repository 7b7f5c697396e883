"""Which workers run a problem: those asked for, or the fastest that can."""

from __future__ import annotations

from typing import Any

from smoothcruiser.engines.pools.threads import LocalWorkers
from smoothcruiser.engines.run import Engine, Workers
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.schedule import Schedule

EXECUTORS = ("reference", "python", "compiled", "batched", "processes", "dask")


def default_executor(problem: Problem) -> str:
    """Compiled where every function of the problem can be, batched where they
    are over arrays, plain Python elsewhere.
    """
    if isinstance(problem.oracle, Batched):
        return "batched"
    return "compiled" if problem.is_compiled else "python"


def make_engine(
    name: str, problem: Problem, schedule: Schedule, state: Any, *, center: float
) -> Engine:
    """The engine called ``name``."""
    if name == "compiled":
        from smoothcruiser.engines.compiled.engine import CompiledEngine

        return CompiledEngine(problem, schedule, state, center=center)
    if name == "python":
        from smoothcruiser.engines.python import PythonEngine

        return PythonEngine(problem, schedule, state, center=center)
    if name == "batched":
        from smoothcruiser.engines.batched import BatchedEngine

        return BatchedEngine(problem, schedule, state, center=center)
    if name == "reference":
        from smoothcruiser.engines.reference import ReferenceEngine

        return ReferenceEngine(problem, schedule, state, center=center)
    raise InvalidInput(
        f"Unknown executor {name!r}; choose one of {', '.join(EXECUTORS)}."
    )


def make_workers(
    name: str | None,
    problem: Problem,
    schedule: Schedule,
    state: Any,
    *,
    center: float,
    workers: int | None = None,
    scheduler: str | None = None,
) -> Workers:
    """The workers of executor ``name``, ready to run; close them after use."""
    if name == "dask" or (name is None and scheduler is not None):
        from smoothcruiser.engines.pools.dask import DaskWorkers

        engine = default_executor(problem)
        return DaskWorkers(
            engine,
            problem,
            schedule,
            state,
            center=center,
            workers=workers,
            scheduler=scheduler,
        )
    if scheduler is not None:
        raise InvalidInput(
            "A scheduler address belongs to executor 'dask', got executor "
            f"{name!r}; drop --scheduler or use --executor dask."
        )
    if name == "processes":
        from smoothcruiser.engines.pools.processes import ProcessWorkers

        return ProcessWorkers(problem, schedule, state, center=center, workers=workers)
    made = make_engine(
        name or default_executor(problem), problem, schedule, state, center=center
    )
    return LocalWorkers(made, workers, (problem, state))
