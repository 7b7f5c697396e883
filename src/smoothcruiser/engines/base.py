"""The nouns of a run: what is to be done (``Job``), what does a shard of it
(``Engine``), what runs many shards (``Workers``), and what a name on the command
line stands for (``Executor``).

An engine is a way to compute: line by line, in Python functions, in machine code,
in arrays. A pool is a place: this thread, threads, processes, a cluster. An
executor joins the two under a name; ``engines.registry`` has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from smoothcruiser.engines.pools.base import Build, Pool
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import BrokenPromise
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import Guard
from smoothcruiser.query import Compute
from smoothcruiser.schedule.schedule import Kind, Schedule

# called with every finished shard; True: nothing more is needed
Report = Callable[[Shard, Partial], bool]


@dataclass(frozen=True)
class Job:
    """What is to be run: a schedule of a problem, at a state."""

    problem: Problem
    schedule: Schedule
    state: Any
    center: float = 0.0  # sums are of distances to it


class Engine(Protocol):
    """What runs a shard."""

    name: str
    kinds: frozenset[Kind]  # of levels that it can run
    parallel: bool  # runs shards in several threads at once
    python: bool  # calls the step from Python, one state at a time
    job: Job
    compile_seconds: float
    # of the shard under way; 0 where several are, whose errors carry their own
    calls: int

    def __init__(self, job: Job) -> None: ...

    @property
    def guard(self) -> Guard | None:
        """What watches the step while shards run; None: nothing can."""

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard."""

    def stop(self) -> None:
        """Ask running shards to end: they raise ``Interrupted``."""


class Workers(Protocol):
    """What runs the shards of one job."""

    name: str  # of the executor
    compile_seconds: float
    unfinished: int  # calls counted in shards that were not finished

    def inspect(self, seed: int) -> tuple[int, int]:
        """Look at the step where it runs (``engines.inspection``): (calls made
        in all, those of this time).

        The first time before the run, the second time after it.
        """

    def seen(self, asked: int) -> str:
        """What was seen of the step, where ``asked`` calls were made after the run."""

    def map(self, source: Iterator[Shard], seed: int, report: Report) -> None:
        """Run what the source hands out, pulling a shard only when a worker is
        free, until it ends or ``report`` is True.

        Each shard is reported once, from this thread, in any order; the first
        error ends the rest and is raised.
        """

    def stop(self) -> None:
        """Ask running shards to end; ``map`` then raises ``Interrupted``. May
        be called from another thread.
        """

    def close(self) -> None:
        """Release threads, processes and connections."""


def not_run(engine: str, kind: IntEnum) -> BrokenPromise:
    """The error of an engine that meets a kind which it lists and has no code for."""
    return BrokenPromise(f"engine {engine} lists kind {kind.name} and does not run it")


def nothing_refused(job: Job) -> str | None:
    """For executors that run every job."""
    return None


def never(problem: Problem) -> bool:
    """For executors that run only if they are named."""
    return False


@dataclass(frozen=True)
class Executor:
    """A row of the table: an engine, a place, and when to use them."""

    name: str
    same_bits: bool  # those of ``reference``, where both run a problem
    engine: Callable[[Problem], type[Engine]]  # what runs a shard, wherever that is
    open: Callable[[Job, Compute], Workers]
    # why it cannot run a job, in one sentence that ends with a remedy; None: it can
    refuses: Callable[[Job], str | None] = nothing_refused
    # whether it runs a problem for which no executor was named; later rows win
    default_for: Callable[[Problem], bool] = never
    # workers for other tasks than shards; None: it has none outside this process
    pool: Callable[[Build, Compute], Pool] | None = None
    scheduler: bool = False  # takes the address of a cluster
