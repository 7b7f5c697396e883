"""Executor ``processes``: shards in a pool of spawned Python processes, for
simulators that are slow or hold the interpreter's lock.

Every process rebuilds the problem once, from its spec (the text that ``make``
was given: zoo, adapter or module:attribute) where it has one and that gives the
same facts, and from its pickle otherwise. A shard's stream depends on the seed,
the action and the shard alone and a process runs it with the executor
``python``: the result has the bits of ``reference`` for any number of workers.

Spawned, not forked: a fork copies the locks of threads that do not exist in the
child (NumPy, JAX and simulators start threads). A script that plans with
processes therefore needs the usual ``if __name__ == "__main__":`` guard.

A worker that dies (killed, out of memory, a crash in native code) ends the run
with an error that says so; shards finished before are in the run's hands
already. If none ever began, the error names the guard, because a script without
one is what usually ends them. What this file leaves out: other machines
(``distributed``).
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from smoothcruiser.engines.inspection import Looks, look, sendable
from smoothcruiser.engines.pools.threads import POLL_SECONDS, Pool, check_workers
from smoothcruiser.engines.python import PythonEngine
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
)
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.spec import from_spec
from smoothcruiser.schedule.schedule import Schedule

Answer = Future[Partial | SmoothcruiserError]


class SpawnedPool(ProcessPoolExecutor):
    """Processes that each run ``begin(*arguments)`` once; tasks call
    ``check_begun`` first, which raises what went wrong there.
    """

    def __init__(self, size: int, begin: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        # set by the first process that has imported the main script
        self.began = context.Event()
        super().__init__(
            size,
            mp_context=context,
            initializer=_begin,
            initargs=(self.began, begin, arguments),
        )

    def death(self) -> SmoothcruiserError:
        """What to raise where a process has died: while it ran the oracle, or
        before it ever came to that.
        """
        if self.began.is_set():
            return OracleError(
                "A worker process died while it ran the oracle (killed, out of "
                "memory, or a crash in native code); check the simulator with "
                "executor='reference', or use fewer workers."
            )
        return InvalidInput(
            "The worker processes ended while they were starting, before they made a "
            "call. Each imports the script that starts them, so "
            'the script\'s own calls must stand under if __name__ == "__main__":. If '
            "they do, what a worker printed above says why it "
            "ended; executor='python' needs no workers."
        )


_failure: SmoothcruiserError | None = None  # what this process's beginning raised


def _begin(began: Any, begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Begin; an error is kept for the first task, since an initializer cannot
    report it.
    """
    global _failure
    began.set()
    try:
        begin(*arguments)
    except SmoothcruiserError as error:
        _failure = error
    except Exception as error:
        _failure = InvalidInput(
            "The problem could not be rebuilt in a worker process "
            f"({type(error).__name__}: {error})."
        )


def check_begun() -> None:
    """Raise what this process's beginning raised, if it did."""
    if _failure is not None:
        raise _failure


class ProcessWorkers(Pool):
    """A pool of processes that run shards of one (problem, schedule, state)."""

    name = "processes"

    def __init__(
        self,
        problem: Problem,
        schedule: Schedule,
        state: Any,
        *,
        center: float,
        workers: int | None = None,
    ) -> None:
        self.size = check_workers(workers)
        pickled = _pickled(schedule, "The schedule"), _pickled(state, "The asked state")
        self.task = (_make_engine, recipe_of(problem), *pickled, center)
        self.pool = SpawnedPool(self.size, *self.task)
        # whether its processes were ended in the middle of shards that nobody needs
        self.gone = False

    def look(self, seed: int, looked: Looks | None) -> tuple[int, Looks]:
        """Look in a worker: a simulator that crashes must not take this process
        with it.
        """
        if self.stopped:  # there is no time to look
            return 0, looked or ()
        if self.gone:
            self.pool, self.gone = SpawnedPool(1, *self.task), False
        try:
            future: Any = self.pool.submit(_look, seed, looked)
        except BrokenProcessPool as error:
            raise self.pool.death() from error
        while not self.finished([future]):
            if self.stopped:
                raise Interrupted(
                    "The run was stopped before its first shard was finished."
                )
        found: Any = self.result(future)
        return found  # type: ignore[no-any-return]

    def window(self) -> int:  # noqa: D102
        return self.size

    def submit(self, shard: Shard, seed: int) -> Answer:  # noqa: D102
        try:
            return self.pool.submit(_run, shard, seed)
        except BrokenProcessPool as error:
            raise self.pool.death() from error

    def finished(self, futures: list[Answer]) -> Iterable[Answer]:  # noqa: D102
        return wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done

    def result(self, future: Answer) -> Partial:  # noqa: D102
        try:
            answer = future.result()
        except BrokenProcessPool as error:
            raise self.pool.death() from error
        if isinstance(answer, SmoothcruiserError):
            raise answer
        return answer

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def abandon(self, futures: list[Answer]) -> None:
        """End processes in the middle of a shard: a simulator may take a minute
        a call, and nobody waits for it.
        """
        self.gone = True
        processes = list((getattr(self.pool, "_processes", None) or {}).values())
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


Recipe = tuple[dict[str, Any] | None, bytes | None, Facts]


def recipe_of(problem: Problem) -> Recipe:
    """What a process rebuilds the problem from: its spec, its pickle, and the
    facts it must come out with.
    """
    try:
        pickled = pickle.dumps(problem)
    except Exception as error:
        if problem.spec is None:
            raise InvalidInput(
                "The problem cannot be sent to another process "
                f"({type(error).__name__}: {error}); define step, legal, terminal and "
                "player at the top of a module, or name the problem as "
                "module:attribute (make)."
            ) from error
        pickled = None
    return problem.spec, pickled, problem.facts


def _pickled(thing: Any, name: str) -> bytes:
    try:
        return pickle.dumps(thing)
    except Exception as error:
        raise InvalidInput(
            f"{name} cannot be sent to another process ({type(error).__name__}: "
            f"{error}); use executor='python', or a state of plain data."
        ) from error


def rebuilt(recipe: Recipe) -> Problem:
    """The problem of a recipe; refuses one that came out different."""
    spec, pickled, facts = recipe
    why = "it has no spec"
    if spec is not None:
        try:
            problem = from_spec(spec)
            if problem.facts == facts:
                return problem
            why = (
                f"its spec {spec} gives other facts (an operator's prior or a "
                "changed field is not part of the spec)"
            )
        except SmoothcruiserError as error:
            why = f"its spec {spec} failed: {error}"
    if pickled is None:
        raise InvalidInput(
            f"The problem could not be rebuilt in a worker process: {why}, and it "
            "cannot be pickled; use executor='python'."
        )
    problem = pickle.loads(pickled)
    assert isinstance(problem, Problem)
    return problem


_engine: PythonEngine | None = None  # this process's own, made once when it begins


def _make_engine(recipe: Recipe, schedule: bytes, state: bytes, center: float) -> None:
    global _engine
    _engine = PythonEngine(
        rebuilt(recipe), pickle.loads(schedule), pickle.loads(state), center=center
    )


def _look(seed: int, looked: Looks | None) -> tuple[int, Looks] | SmoothcruiserError:
    """The look at the step, in this process, or the error to raise in the parent."""
    try:
        check_begun()
        assert _engine is not None
        calls, found = look(_engine.problem, _engine.state, seed, looked)
    except SmoothcruiserError as error:
        return type(error)(str(error))
    return calls, sendable(found)


def _run(shard: Shard, seed: int) -> Partial | SmoothcruiserError:
    """The sums of one shard, or the error to raise in the parent."""
    try:
        check_begun()
        assert _engine is not None
        return _engine.run_shard(shard, seed)
    except SmoothcruiserError as error:
        return type(error)(str(error))  # without its cause, which may not pickle
