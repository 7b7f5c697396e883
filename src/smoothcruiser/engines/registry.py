"""The table of executors: names, engines, places, and reasons to refuse a job.

A row is an engine and a place (``engines.base``). All other code asks this
table; none of it compares names. Engines are imported when a row is used, so
that reading the names loads no Numba. ``register`` adds a row from another
package. The errors of a row reach only its own users.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smoothcruiser.engines.base import Engine, Executor, Job, Workers
from smoothcruiser.engines.compiled.schedule_table import table_salt
from smoothcruiser.engines.pools.base import Build, Pool, check_workers
from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error
from smoothcruiser.jit.forms import PER_ELEMENT, KernelFamily
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Compute
from smoothcruiser.run_control.stop_requests import unbroken

if TYPE_CHECKING:
    from smoothcruiser.engines.first_shard import FirstShard
    from smoothcruiser.schedule.kinds import Kinds
    from smoothcruiser.schedule.schedule import Level

# --- engines ------------------------------------------------------------------


def _reference_engine(problem: Problem) -> type[Engine]:
    from smoothcruiser.engines.interpreted.reference import ReferenceEngine

    return ReferenceEngine


def _python_engine(problem: Problem) -> type[Engine]:
    from smoothcruiser.engines.interpreted.python import PythonEngine

    return PythonEngine


def _compiled_engine(problem: Problem) -> type[Engine]:
    from smoothcruiser.engines.compiled.engine import CompiledEngine

    return CompiledEngine


def _batched_engine(problem: Problem) -> type[Engine]:
    from smoothcruiser.engines.interpreted.batched import BatchedEngine

    return BatchedEngine


def _default_engine(problem: Problem) -> type[Engine]:
    return EXECUTORS[default_executor(problem)].engine(problem)


# --- places -------------------------------------------------------------------


def _open_here(
    engine: Callable[[Problem], type[Engine]],
) -> Callable[[Job, Compute], Workers]:
    """A function that opens workers in this process."""

    def open_here(job: Job, compute: Compute) -> Workers:
        from smoothcruiser.engines.workers import local_workers

        return local_workers(engine(job.problem)(job), compute.workers)

    return open_here


def _open_compiled(job: Job, compute: Compute) -> Workers:
    """Workers for machine code, or for its source, interpreted, where that is sooner.

    Nobody waits for a compiler who did not name it.
    """
    is_named = compute.executor is not None
    interpreted = not is_named and _is_sooner_interpreted(job)
    return _open_here(_python_engine if interpreted else _compiled_engine)(
        job, compute
    )


SCHEDULES = KernelFamily(
    compiling=11.0
)  # the machine over tables, and Numba's own helpers
# seconds of a call of a table, interpreted (measured: garnet, 50 states, 3 actions)
INTERPRETED_CALL = 2.5e-6


def _is_sooner_interpreted(job: Job) -> bool:
    """Whether a table's schedule ends before its machine would be compiled or loaded.

    The schedules that this process has run so count, too.
    """
    from smoothcruiser.engines.compiled import kernel

    problem = job.problem
    # a step or an operator that its user compiled is compiled in any case
    if problem.tables is None or not problem.operator.built_in:
        return False
    seconds = job.schedule.num_calls * INTERPRETED_CALL
    if SCHEDULES.must_compile(
        kernel.run_shard, (), seconds / PER_ELEMENT, table_salt(problem)
    ):
        return False
    SCHEDULES.interpreted_seconds += seconds
    return True


def _in_processes(job: Job, compute: Compute) -> Workers:
    from smoothcruiser.engines.pools.processes import Processes
    from smoothcruiser.engines.workers import ShardWorkers

    build = _engine_build(PYTHON.name, job)
    return ShardWorkers(
        PROCESSES.name, Processes(check_workers(compute.workers), build)
    )


def _on_dask(job: Job, compute: Compute) -> Workers:
    with unbroken():
        from smoothcruiser.engines.pools.dask import Dask
    from smoothcruiser.engines.workers import ShardWorkers

    executor_name = default_executor(job.problem)
    first_shard = first_shard_of(job.problem, executor_name, job.schedule.levels)
    return ShardWorkers(
        DASK.name, Dask(compute, _engine_build(executor_name, job), first_shard)
    )


def _process_pool(build: Build, compute: Compute) -> Pool:
    from smoothcruiser.engines.pools.processes import Processes

    return Processes(check_workers(compute.workers), build, ahead=AHEAD)


def _dask_pool(build: Build, compute: Compute) -> Pool:
    with unbroken():
        from smoothcruiser.engines.pools.dask import Dask

    executor_name = default_executor(build.problem)
    return Dask(compute, build, first_shard_of(build.problem, executor_name))


def _engine_build(name: str, job: Job) -> Build:
    """The engine of executor ``name`` for a job, as something that workers build."""
    from smoothcruiser.engines.workers import job_parts

    return Build(job.problem, _build_engine, job_parts(job) | {"name": name})


def _build_engine(problem: Any, name: str, **job_fields: Any) -> Engine:
    return make_engine(name, Job(problem, **job_fields))


def first_shard_of(
    problem: Problem, executor: str, levels: tuple[Level, ...] | None = None
) -> FirstShard:
    """The piece that proves workers, for a problem that ``executor`` runs."""
    from smoothcruiser.engines.first_shard import EVERY_KIND, FirstShard

    facts = problem.facts
    parts = facts.operator, facts.num_actions, facts.game, levels or EVERY_KIND
    first_shard = FirstShard(make_engine, executor, *parts)
    if accepts(executor, first_shard.job()):
        return first_shard
    # an executor from another package, which runs nothing but its own worlds
    return FirstShard(make_engine, PYTHON.name, *parts)


AHEAD = 4  # tasks per process that wait in line: they are short and all are needed

# --- the table ----------------------------------------------------------------


def not_compiled(problem: Problem) -> str | None:
    """Why machine code cannot run a problem, or None if it can."""
    if problem.is_compiled:
        return None
    return (
        "The compiled executor needs a tabular problem, or step, legal, terminal and "
        "player that are numba.njit functions, and value_bounds that are numbers or "
        "such functions; decorate them, or use executor='reference'."
    )


def _not_batched(job: Job) -> str | None:
    if job.problem.tables is not None or isinstance(job.problem.oracle, Batched):
        return None
    return (
        "The batched executor needs a step over arrays, marked as batched(step), or a "
        "tabular problem; use executor='python' for a step of one state."
    )


REFERENCE = Executor(
    name="reference",
    same_bits=True,
    engine=_reference_engine,
    open=_open_here(_reference_engine),
)
PYTHON = Executor(
    name="python",
    same_bits=True,
    engine=_python_engine,
    open=_open_here(_python_engine),
    default_for=lambda problem: True,
)
COMPILED = Executor(
    name="compiled",
    same_bits=True,
    engine=_compiled_engine,
    open=_open_compiled,
    refuses=lambda job: not_compiled(job.problem),
    default_for=lambda problem: problem.is_compiled,
)
BATCHED = Executor(
    name="batched",
    same_bits=False,
    engine=_batched_engine,
    open=_open_here(_batched_engine),
    refuses=_not_batched,
    default_for=lambda problem: isinstance(problem.oracle, Batched),
)
PROCESSES = Executor(
    name="processes",
    same_bits=True,
    engine=_python_engine,
    open=_in_processes,
    pool=_process_pool,
)
DASK = Executor(
    name="dask",
    same_bits=True,
    engine=_default_engine,
    open=_on_dask,
    pool=_dask_pool,
    scheduler=True,
)
EXECUTORS: dict[str, Executor] = {
    row.name: row for row in (REFERENCE, PYTHON, COMPILED, BATCHED, PROCESSES, DASK)
}


def register(executor: Executor) -> Executor:
    """Put an executor into the table under its name, and return it.

    Args:
        executor: the row; its name must be free.
    """
    if not isinstance(executor, Executor):
        raise InvalidInput(
            f"register takes an engines.base.Executor, got {type(executor).__name__}."
        )
    name: Any = executor.name
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise InvalidInput(
            f"An executor's name is of letters, digits, - and _, got {name!r}."
        )
    if EXECUTORS.get(name, executor) is not executor:
        raise InvalidInput(
            f"An executor called {name!r} is registered already; choose another name."
        )
    EXECUTORS[name] = executor
    return executor


# --- queries ------------------------------------------------------------------


def find_executor(name: str) -> Executor:
    """The executor of a name; an unknown name raises one sentence with all names."""
    if name not in EXECUTORS:
        raise InvalidInput(
            f"Unknown executor {name!r}; choose one of {', '.join(EXECUTORS)}."
        )
    row = EXECUTORS[name]
    if row.name != name:
        raise InvalidInput(
            f"The executor {row.name!r} stands in the table as {name!r}; add it with "
            "engines.registry.register, which uses its own name."
        )
    return row


def default_executor(problem: Problem) -> str:
    """The name of the fastest executor that can run a problem.

    It is batched where the problem's functions are over arrays, compiled where
    all of them are compiled, and plain Python elsewhere.
    """
    return [row.name for row in EXECUTORS.values() if _volunteers(row, problem)][-1]


def _volunteers(row: Executor, problem: Problem) -> bool:
    """Whether a row offers itself for a problem; a failing ``default_for`` means no."""
    try:
        return bool(row.default_for(problem))
    except Exception:
        return False


def choose(problem: Problem, compute: Compute) -> Executor:
    """The executor that was named, or else the one that fits.

    An address of a cluster selects the cluster's executor; otherwise it is the
    fastest that can run the problem.
    """
    if compute.scheduler is None:
        if compute.tls is not None:
            raise InvalidInput(
                "tls= is for the cluster at a scheduler's address: give scheduler=, "
                "or drop tls=."
            )
        return find_executor(compute.executor or default_executor(problem))
    clusters = [row for row in EXECUTORS.values() if row.scheduler]
    chosen_executor = (
        clusters[0] if compute.executor is None else find_executor(compute.executor)
    )
    if not chosen_executor.scheduler:
        raise InvalidInput(
            f"A scheduler address belongs to executor {clusters[0].name!r}, got executor "
            f"{compute.executor!r}; drop scheduler= or use executor="
            f"{clusters[0].name!r}."
        )
    return chosen_executor


def open_workers(job: Job, compute: Compute) -> Workers:
    """Workers for a job, ready to run; close them after use."""
    chosen_executor = choose(job.problem, compute)
    _check_job(chosen_executor, job)
    workers = chosen_executor.open(job, compute)
    workers.name = chosen_executor.name  # an engine may serve several rows
    return workers


def make_engine(name: str, job: Job) -> Engine:
    """The engine of executor ``name``, in this process."""
    chosen_executor = find_executor(name)
    _check_job(chosen_executor, job)
    return chosen_executor.engine(job.problem)(job)


def _check_job(chosen: Executor, job: Job) -> None:
    """Refuse a job that the executor cannot run, before anything is built."""
    _check_refusal(chosen, job)
    unknown_kinds = _unknown_kinds(chosen, job)
    if unknown_kinds:
        kind_names = " and ".join(sorted(kind.name.lower() for kind in unknown_kinds))
        able_executors = [
            row.name for row in EXECUTORS.values() if _runs_job(row, job)
        ]
        raise InvalidInput(
            f"The executor {chosen.name!r} cannot run levels of kind {kind_names}; "
            f"executors that can: {', '.join(able_executors) or 'none'}."
        )


def accepts(name: str, job: Job) -> bool:
    """Whether executor ``name`` can run a job."""
    return _runs_job(find_executor(name), job)


def _runs_job(row: Executor, job: Job) -> bool:
    """Whether a row accepts a job and runs all of its kinds."""
    try:
        _check_refusal(row, job)
        return not _unknown_kinds(row, job)
    except SmoothcruiserError:
        return False


def _check_refusal(row: Executor, job: Job) -> None:
    """Raise the row's reason to refuse a job, if it has one."""
    try:
        refusal: Any = row.refuses(job)
    except SmoothcruiserError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The executor {row.name!r} cannot say whether it runs this job "
            f"({describe_error(error)}); fix its refuses, or use another executor."
        ) from error
    if refusal is not None and not isinstance(refusal, str):
        raise InvalidInput(
            f"The refuses of executor {row.name!r} must return a sentence or None, got "
            f"{refusal!r}; fix it, or use another executor."
        )
    if refusal is not None:
        raise InvalidInput(refusal)


def _unknown_kinds(row: Executor, job: Job) -> Kinds:
    """The kinds of a job's levels that the engine of a row does not run."""
    try:
        engine_kinds = row.engine(job.problem).kinds
    except SmoothcruiserError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The engine of executor {row.name!r} cannot be loaded: {describe_error(error)}; "
            "install what it needs, or use another executor."
        ) from error
    return frozenset(level.kind for level in job.schedule.levels) - engine_kinds


def machine_code(executor: str | None, user: str) -> bool | None:
    """Whether ``user``, a method without workers, runs in machine code.

    False means plain Python. None means that the caller leaves it open.
    """
    if executor is None:
        return None
    if executor not in (COMPILED.name, REFERENCE.name):
        raise InvalidInput(
            f"{user} runs on executor {COMPILED.name!r} or {REFERENCE.name!r}, got "
            f"{executor!r}."
        )
    return executor == COMPILED.name
