"""A pool of spawned Python processes.

It is for simulators that are slow or hold the interpreter's lock.

Every process rebuilds the problem once, from its spec (the text that ``make``
was given: zoo, adapter or module:attribute) where it has one and that gives the
same fingerprint, and from its pickle otherwise.

Spawned, not forked: a fork copies the locks of threads that do not exist in the
child (NumPy, JAX and simulators start threads). A script that plans with
processes therefore needs the usual ``if __name__ == "__main__":`` guard.

A worker that dies (killed, out of memory, ``os._exit``, a crash in native code)
ends the run with an error that says so; items finished before have been reported
already. If no worker ever began, the error names the guard, because a script
without one is the usual cause. Workers that are not needed any more are killed,
and they end by themselves when their driver does, killed or not (``parent``).
Left out: other machines (``dask``).

A worker process ends when the process that started it does.

A driver that is killed cannot end its workers, and a worker may be in the middle
of a call that never returns, perhaps in machine code that holds the interpreter's
lock. So no code of the worker takes part where the system can do it: multiprocessing
gives every child the reading end of a pipe, and only its parent holds the writing
end. When the parent is gone, for whatever reason, Linux signals the child that
the pipe has changed, and the signal asked for here is SIGKILL. (The other way,
``PR_SET_PDEATHSIG``, goes by the parent's thread, and a thread may end before its
process.) Elsewhere a thread waits for the same pipe; machine code that holds the
lock keeps that thread from running.

Worker processes that import nothing from the current folder.

A spawned process begins with ``python -c``, and Python then looks for modules in the
current folder first, before it has been told where its driver does: a file there that
is called like a module of the standard library (``pickle.py``) would be executed. The
variable PYTHONSAFEPATH keeps Python from that. It is set while processes are
started, and a worker forgets it as soon as it can: programs that a simulator starts
are to find their own files.

Left out: the lifetime of workers (``parent``).
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from smoothcruiser.engines.pools.base import (
    POLL_SECONDS,
    Build,
    Futures,
    Item,
    Result,
    Task,
)
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
    WorkersLost,
    describe_error,
)
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.make import from_spec
from smoothcruiser.problem.problem import Problem

log = logging.getLogger(__name__)

# A problem as it travels: its spec, its pickle, and the fingerprint it must have
# when rebuilt.
Recipe = tuple[dict[str, Any] | None, bytes | None, dict[str, str]]


END_SECONDS = 5.0  # for a process that has been told to end
CLOSE_SECONDS = 0.3  # for an idle one, before it is killed


class Processes(Futures):
    """A pool of processes that each build the same thing."""

    def __init__(self, size: int, build: Build, *, ahead: int = 1) -> None:
        """A pool of ``size`` processes, each with ``ahead`` items under way at once.

        More items keep a process busy; fewer are lost when the rest is not
        needed.
        """
        self.size, self.ahead = size, ahead
        pickled_arguments = {
            name: _pickle_argument(name, x) for name, x in build.arguments.items()
        }
        self.build_parts = (build.make, recipe_of(build.problem), pickled_arguments)
        self.pool = SpawnedPool(size, *self.build_parts)
        # Whether processes were ended in the middle of items that nobody needs.
        self.was_abandoned = False

    @property
    def reachable(self) -> bool:  # type: ignore[override]
        """False once the run was stopped.

        A stopped run does not wait for a slow simulator again.
        """
        return not self.stopped

    def ask(self, task: Task[Item, Result], item: Item) -> Result:
        """The result of one item, computed in a worker.

        A simulator that crashes must not end this process too.
        """
        future = self.submit(task, item)
        try:
            while not self.poll_finished([future]):
                if self.stopped:
                    raise Interrupted(
                        "The run was stopped before its first shard was finished."
                    )
        except BaseException:  # Ctrl-C too: nobody waits for the result any more
            self.abandon([future])
            raise
        answer: Result = self.result(future)
        return answer

    def window(self) -> int:  # noqa: D102
        return self.ahead * self.size

    def submit(self, task: Task[Item, Result], item: Item) -> Future[Any]:  # noqa: D102
        if self.was_abandoned:
            self.pool, self.was_abandoned = (
                SpawnedPool(self.size, *self.build_parts),
                False,
            )
        try:
            with outside_folder():  # it may start a process
                return self.pool.submit(_run_task, task, item)
        except BrokenProcessPool as error:
            raise self.pool.death() from error
        except OSError as error:  # too many of them, or a current folder that is gone
            raise WorkersLost(
                f"A worker process cannot be started ({describe_error(error)}); use fewer "
                "workers, or executor='python', and start in a folder that exists."
            ) from error

    def poll_finished(self, futures: list[Future[Any]]) -> Iterable[Future[Any]]:  # noqa: D102
        return wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done

    def result(self, future: Future[Any]) -> Any:  # noqa: D102
        try:
            answer = future.result()
        except BrokenProcessPool as error:
            raise self.pool.death() from error
        if isinstance(answer, SmoothcruiserError):
            raise answer
        return answer

    def leave(self, futures: list[Future[Any]]) -> None:
        """Wait for ``patience`` seconds before processes are ended: they start slowly."""
        under_way = [future for future in futures if not future.cancel()]
        if wait(under_way, timeout=self.patience).not_done:
            self.abandon(futures)

    def close(self) -> None:
        """End the processes; those that are only starting are not waited for."""
        processes = self.pool.processes()
        self.pool.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()

    def abandon(self, futures: list[Future[Any]]) -> None:
        """End processes in the middle of an item.

        A simulator may take a minute per call, and nobody waits for the result.
        """
        self.was_abandoned = True
        processes = self.pool.processes()
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()  # a simulator may take SIGTERM for its own ends


class SpawnedPool(ProcessPoolExecutor):
    """Processes that each call ``make`` once, when they begin."""

    def __init__(
        self,
        size: int,
        make: Callable[..., Any],
        recipe: Recipe,
        arguments: dict[str, bytes],
    ) -> None:
        context = multiprocessing.get_context("spawn")
        # Set by the first process that has imported the main script.
        safe_path_set = is_safe_path_set()
        with outside_folder():  # it starts a process that looks after semaphores
            self.began = context.Event()
        super().__init__(
            size,
            mp_context=context,
            initializer=_begin,
            initargs=(self.began, safe_path_set, make, recipe, arguments),
        )

    def death(self) -> SmoothcruiserError:
        """The error to raise where a process has died.

        It tells a death while the oracle ran from one before any process had
        begun.
        """
        log.warning("a worker process has died; the run ends")
        if self.began.is_set():
            return OracleError(
                f"A worker process died while it ran the oracle ({self.ending()}); "
                "check the simulator with executor='reference', or use fewer workers."
            )
        return InvalidInput(
            "The worker processes ended while they were starting, before they made a "
            "call. Each imports the script that starts them, so "
            'the script\'s own calls must stand under if __name__ == "__main__":. If '
            "they do, what a worker printed above says why it "
            "ended; executor='python' needs no workers."
        )

    def processes(self) -> list[Any]:
        """The processes that were started."""
        return list((getattr(self, "_processes", None) or {}).values())

    def ending(self) -> str:
        """How a process that died came to its end, in a few words."""
        # A broken pool ends them all, with SIGTERM, and waits for them in a thread of
        # its own. Until that thread has entered a code, nobody else can read it.
        exit_codes, deadline = [], time.monotonic() + END_SECONDS
        for process in self.processes():
            while process.exitcode is None and time.monotonic() < deadline:
                process.join(POLL_SECONDS)
                time.sleep(1e-3)
            exit_codes.append(process.exitcode)
        own_codes = [
            code for code in exit_codes if code not in (None, -signal.SIGTERM)
        ]
        if not own_codes or own_codes[0] == -signal.SIGKILL:
            return "killed, perhaps out of memory"
        if own_codes[0] >= 0:
            return f"exit code {own_codes[0]}: os._exit, or a library that ends its process"
        return f"signal {-own_codes[0]}: a crash in native code"


# --- in a worker --------------------------------------------------------------

_built: Any = None  # this process's own, made once when it begins
_failure: SmoothcruiserError | None = None  # raised while making it


def _begin(
    began: Any,
    safe_path_set: bool,
    make: Callable[..., Any],
    recipe: Recipe,
    arguments: dict[str, bytes],
) -> None:
    """Build this process's own thing.

    An initializer cannot report an error, so it is kept for the first task.
    """
    global _built, _failure
    end_with_parent()
    forget_safe_path(safe_path_set)
    # Ctrl-C in a terminal reaches every process; the driver decides which ones end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    began.set()
    try:
        build_arguments = {
            name: pickle.loads(pickled) for name, pickled in arguments.items()
        }
        _built = make(rebuild_problem(recipe), **build_arguments)
    except SmoothcruiserError as error:
        _failure = error
    except BaseException as error:
        _failure = InvalidInput(
            "The problem could not be rebuilt in a worker process "
            f"({type(error).__name__}: {error})."
        )


def _run_task(task: Task[Item, Result], item: Item) -> Result | SmoothcruiserError:
    """The result of one item, or the error to raise in the parent."""
    try:
        if _failure is not None:
            raise _failure
        return task(_built, item)
    except SmoothcruiserError as error:
        return type(error)(str(error))  # without its cause, which may not pickle


# --- how a problem travels ----------------------------------------------------


def recipe_of(problem: Problem) -> Recipe:
    """The recipe from which a process rebuilds the problem.

    It has the spec, the pickle, and the fingerprint that the rebuilt problem must
    have.
    """
    try:
        pickled = _by_value(problem)
    except InvalidInput:
        raise
    except Exception as error:
        if problem.spec is None:
            raise InvalidInput(
                "The problem cannot be sent to another process "
                f"({type(error).__name__}: {error}); define step, legal, terminal and "
                "player at the top of a module, or name the problem as "
                "module:attribute (make)."
            ) from error
        pickled = None
    return problem.spec, pickled, fingerprint(problem).parts


def _by_value(payload: Any) -> bytes:
    """The pickle of an object, together with the code of a notebook's cells.

    A process imports functions by the name of their module. Code that was typed into
    a cell, or at a prompt, is in no module that it could import; cloudpickle sends the
    code itself.
    """
    pickled = pickle.dumps(payload)
    main_module = sys.modules.get("__main__")
    is_importable = any(
        getattr(main_module, x, None) for x in ("__spec__", "__file__")
    )
    if is_importable or b"__main__" not in pickled:
        return pickled
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        raise InvalidInput(
            "Worker processes cannot see what is defined in a notebook's cell or at a "
            "prompt; install cloudpickle (pip install cloudpickle, or the extra "
            "'dask'), write the step into a module and import it (%%writefile), or use "
            "executor='python'."
        ) from None
    pickled_code: bytes = cloudpickle.dumps(payload)
    return pickled_code


def _pickle_argument(name: str, argument: Any) -> bytes:
    try:
        return _by_value(argument)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The {name} cannot be sent to another process ({type(error).__name__}: "
            f"{error}); use executor='python', or a state of plain data."
        ) from error


def rebuild_problem(recipe: Recipe) -> Problem:
    """The problem of a recipe; one that came out different is refused."""
    spec, pickled, fingerprint_parts = recipe
    refusal = "it has no spec"
    if spec is not None:
        try:
            problem = from_spec(spec)
            changed_parts = fingerprint(problem).changes(fingerprint_parts)
            if not changed_parts:
                return problem
            refusal = f"its spec {spec} gives another one ({changed_parts[0]} differs)"
        except SmoothcruiserError as error:
            refusal = f"its spec {spec} failed: {error}"
    if pickled is None:
        raise InvalidInput(
            f"The problem could not be rebuilt in a worker process: {refusal}, and it "
            "cannot be pickled; use executor='python'."
        )
    problem = pickle.loads(pickled)
    assert isinstance(problem, Problem)
    changed_parts = fingerprint(problem).changes(fingerprint_parts)
    if changed_parts:
        raise InvalidInput(
            "A worker process rebuilt another problem than this process has "
            f"({changed_parts[0]} differs); start again if a module was edited, and let "
            "what is pickled keep what the step reads, or use executor='python'."
        )
    return problem


GONE = 1  # the exit code of a worker that ends itself


def end_with_parent() -> None:
    """From now on, end this process as soon as its parent is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process that multiprocessing started"
    if sys.platform == "linux":
        import fcntl

        pipe = parent.sentinel
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)
        if multiprocessing.connection.wait([pipe], timeout=0):
            os._exit(GONE)  # it was gone before the signal was asked for
    else:
        threading.Thread(
            target=_wait_and_end, args=(parent.sentinel,), daemon=True
        ).start()


def _wait_and_end(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(GONE)


VARIABLE = "PYTHONSAFEPATH"
_lock = threading.Lock()
_under_way: list[None] = []  # one for each ``outside_folder`` that is open
_before: dict[str, str | None] = {}  # the variables as they were before the first


@contextmanager
def outside_folder(*other_variables: str) -> Iterator[None]:
    """Start processes in here that import nothing from the current folder.

    Afterwards that variable, and ``other_variables`` that were set meanwhile, are
    restored.
    Several may be open at once, in any order.
    """
    with _lock:
        _under_way.append(None)
        for name in (VARIABLE, *other_variables):
            _before.setdefault(name, os.environ.get(name))
        os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        with _lock:
            _under_way.pop()
            while _before and not _under_way:
                name, value = _before.popitem()
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def is_safe_path_set() -> bool:
    """Whether the user had set the variable for this process too."""
    return bool(sys.flags.safe_path and os.environ.get(VARIABLE))


def forget_safe_path(was_set: bool) -> None:
    """In a worker: let its programs search for modules as those of its driver do."""
    if not was_set:
        os.environ.pop(VARIABLE, None)
