"""The vocabulary of a run: jobs, engines, workers and executors.

A ``Job`` is the work to do. An ``Engine`` runs one shard of it, ``Workers`` run
many shards, and an ``Executor`` is the meaning of a name on the command line.

An engine is a way to compute: line by line, in Python functions, in machine code,
in arrays. A pool is a place: this thread, threads, processes, a cluster. An
executor joins the two under a name; ``engines.registry`` has the table.

Versions and source hashes that the bits of a run depend on.

Numba, LLVM, NumPy and the C library decide how numbers are rounded, Python decides
a step's bytecode, and the source files of this package decide everything else. Runs are
continued (``store``) and shared (``engines.pools.dask``) only among processes that
have the same ones.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smoothcruiser.engines.pools.base import Build, Pool
from smoothcruiser.engines.root_scores import NO_SCORE, Score
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.errors import BrokenPromise
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Compute
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.states.state_copies import Guard

if TYPE_CHECKING:
    from smoothcruiser.engines.inspection import Looks
    from smoothcruiser.schedule.schedule import Kind, Schedule


# Called with every finished shard, and with the first samples of one that goes on;
# True means that no more shards are needed.
Report = Callable[[Shard, Partial], bool]


@dataclass(frozen=True)
class Job:
    """The work to do: a schedule of a problem, at a state."""

    problem: Problem
    schedule: Schedule
    state: Any
    center: float = 0.0  # sums are of distances to this number
    score: Score = NO_SCORE  # added up beside the sums


class Engine(Protocol):
    """The code that runs one shard after another of a job."""

    name: str
    kinds: frozenset[Kind]  # the kinds of levels that it can run
    parallel: bool  # whether it runs shards in several threads at once
    python: bool  # whether it calls the step from Python, one state at a time
    job: Job
    compile_seconds: float
    # Calls of the shard under way. It is 0 where several shards run at once:
    # their errors carry counts of their own.
    calls: int

    def __init__(self, job: Job) -> None: ...

    @property
    def guard(self) -> Guard | None:
        """The watch over the step while shards run; None where there is none."""

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard.

        An engine that can also run it in pieces has ``run_piece`` (``python``).
        """

    def stop(self) -> None:
        """Ask running shards to end: they raise ``Interrupted``.

        Its ``piece`` holds the samples that were completed, where the engine knows.
        """


class Workers(Protocol):
    """Everything that runs the shards of one job."""

    name: str  # the executor's name
    compile_seconds: float
    left: Sequence[Piece]  # finished pieces of the shards that a stop cut short
    unfinished: int  # calls counted in samples that were not finished
    looked: Looks | None  # pairs inspected before the run, here or elsewhere
    abreast: int  # number of actions that take turns, where shards run in pieces

    @property
    def stuck(self) -> int:
        """Shards that did not end when they were asked to, and were left behind."""

    def inspect(
        self, seed: int, ledger: CallLedger, seconds: float | None = None
    ) -> int:
        """The calls of an inspection, which are entered on ``ledger``.

        The step is inspected where it runs (``engines.inspection``): the first
        time before the run, the second time after it. After ``seconds`` no further
        pair is inspected.
        """

    def seen(self, asked: int) -> str:
        """The findings about the step; ``asked`` calls of it followed the run."""

    def map(self, source: Iterator[Shard], seed: int, report: Report) -> None:
        """Run the shards of ``source`` until it ends or ``report`` returns True.

        A shard is pulled only when a worker is free. Each shard is reported, from
        this thread, in any order: once when it is finished, and before that as
        often as a part of it is. The first error ends the rest and is raised.
        """

    def stop(self) -> None:
        """Ask running shards to end; ``map`` then raises ``Interrupted``.

        It may be called from another thread.
        """

    def close(self) -> None:
        """Release threads, processes and connections."""


def not_run(engine: str, kind: IntEnum) -> BrokenPromise:
    """The error for an engine that lists a kind and has no code for it."""
    return BrokenPromise(f"engine {engine} lists kind {kind.name} and does not run it")


def nothing_refused(job: Job) -> str | None:
    """None: the answer of executors that run every job."""
    return None


def never(problem: Problem) -> bool:
    """False: the answer of executors that run only if they are named."""
    return False


@dataclass(frozen=True)
class Executor:
    """A row of the table: an engine, a place, and when to use them."""

    name: str
    same_bits: bool  # whether its bits are those of ``reference``, where both run
    engine: Callable[[Problem], type[Engine]]  # the engine that runs a shard, wherever
    open: Callable[[Job, Compute], Workers]
    # Why it cannot run a job, in one sentence that ends with a remedy; None if
    # it can.
    refuses: Callable[[Job], str | None] = nothing_refused
    # Whether it runs a problem for which no executor was named; later rows win.
    default_for: Callable[[Problem], bool] = never
    # Workers for tasks other than shards; None if it has none outside this
    # process.
    pool: Callable[[Build, Compute], Pool] | None = None
    scheduler: bool = False  # whether it takes the address of a cluster


PACKAGE = Path(__file__).parents[1]  # the folder of smoothcruiser


def versions() -> dict[str, str]:
    """The versions of this process, besides this package's own.

    The C library is part of it, because it computes exp and log.
    """
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": np.__version__,
        "Numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "platform": " ".join(
            (platform.system(), platform.machine(), *platform.libc_ver())
        ).strip(),
    }


def source_hashes() -> dict[str, str]:
    """The hash of each source file of this package, by its path in the package."""
    file_hashes = {}
    for folder, _, names in os.walk(PACKAGE):
        inner_folder = folder[len(str(PACKAGE)) + 1 :].replace(os.sep, "/")
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    file_hash = hashlib.sha256(file.read()).hexdigest()
                file_hashes[f"{inner_folder}/{name}" if inner_folder else name] = (
                    file_hash
                )
    return dict(sorted(file_hashes.items()))


def sources_hash() -> str:
    """One hash over all source files, 32 hex digits."""
    hash_text = repr(sorted(source_hashes().items()))
    return hashlib.sha256(hash_text.encode()).hexdigest()[:32]
