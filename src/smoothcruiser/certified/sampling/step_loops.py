"""Loops that sample a compiled step, and threads that share their work.

They are machine code once that pays. Until then a table's loop is interpreted, and a
compiled step is called from Python; streams and their order of numbers are the same.

Tables have one loop, with the tables as its data. For a user's step there are two,
which return the same bits: one for all users, from the disk, which calls the step by
address, and one with the step in it, which replaces it in a search of many calls
(``engines.compiled.tiers``). On several threads, jobs are split into contiguous parts of
about the same number of samples, each with its streams and buffers, so that the bits are
those of one thread.

The stream of a table's pair needs no memory: samples take one number each, so where it
is follows from its first words and the samples that the pair has (``advance_streams``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import STREAM_BYTES
from smoothcruiser.certified.sampling import draw_kernel
from smoothcruiser.engines.compiled.tiers import (
    ADDRESS,
    AUTO,
    INLINED,
    Handover,
    compile_user_step,
    tier_choice,
)
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.jit import by_address
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.forms import KernelFamily, bind_parts
from smoothcruiser.jit.library import shared_machine
from smoothcruiser.jit.oracle import next_state_type, step_part
from smoothcruiser.jit.random.streams import Stream
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.states.codec import StateCodec

_loops: dict[Any, StepLoop | None] = {}  # of users' steps


# about the CPU seconds of compiling the loop of tables with its jumps, and a loop by address
TABLE_LOOPS, STEP_LOOPS = KernelFamily(compiling=3.0), KernelFamily(compiling=1.0)
# about the least of a sample without machine code
TABLE_SECONDS, STEP_SECONDS = 1.5e-6, 4e-6


def must_load(
    problem: Problem, kernel: Any, num_samples: int, *, has_address: bool = True
) -> bool:
    """Whether so many samples are worth machine code, those before them included.

    ``has_address``: whether the step can be called by its address.
    """
    if problem.tables is not None:
        return TABLE_LOOPS.must_load(kernel, num_samples * TABLE_SECONDS)
    salt = by_address.name_parts() if has_address else "inlined"
    seconds = num_samples * STEP_SECONDS
    return tier_choice() != AUTO or STEP_LOOPS.must_load(kernel, seconds, salt)


def count_interpreted(problem: Problem, seconds: float) -> None:
    """Count the seconds of samples that took no machine code."""
    family = STEP_LOOPS if problem.tables is None else TABLE_LOOPS
    family.interpreted_seconds += seconds


class InterpretedLoop:
    """``draw_numbers`` in Python: of a table, or around calls of a compiled step."""

    def __init__(self, problem: Problem) -> None:
        self.streams: list[Stream] = []  # of the jobs under way
        parts: dict[str, Any] = {"stream_at": self._stream_at}
        self.data: Any = ()
        if problem.tables is None:
            parts["STEP"] = _plain_step(problem.oracle)
        else:
            self.data = problem.tables.views
        self.kernel = bind_parts(draw_kernel.draw_numbers, parts)

    def _stream_at(self, offset: int) -> Stream:
        return self.streams[offset // STREAM_BYTES]

    def run(
        self,
        streams: list[Stream],
        jobs: tuple[Ints, Ints, Ints],
        buffers: tuple[Ints, Floats, Ints],
        limits: tuple[float, float, bool],
    ) -> int:
        """The status of the jobs (states, actions, counts), each with its stream."""
        self.streams = streams
        columns = (column.tolist() for column in jobs)
        raws, rewards, fault = (buffer.data for buffer in buffers)
        return int(self.kernel(self.data, *columns, 0, raws, rewards, *limits, fault))


def _plain_step(oracle: Any) -> Callable[..., tuple[float, Any, bool]]:
    """A user's step as ``draw_numbers`` calls it."""

    def step(data: Any, state: int, action: int, rng: Stream) -> Any:
        reward, next_state, *end_flag = oracle(state, action, rng)
        return float(reward), next_state, bool(end_flag and end_flag[0])

    return step


@dataclass(frozen=True)
class StepLoop:
    """A loop and its data."""

    kernel: Any
    codec: StateCodec | None = None
    fixed: Any = ()  # the data of a loop that calls nothing by address
    user_step: Any = None  # the user's functions that it calls by address
    later: Handover | None = None

    def data(self) -> tuple[Any, Any]:
        """(data of its step, objects to keep alive as long); threads share nothing."""
        if self.user_step is None:
            return self.fixed, None
        buffers = self.user_step.buffer(), np.zeros(1, dtype=np.int64)
        addresses = (int(buffer.ctypes.data) for buffer in buffers)
        return (self.user_step.address, *addresses), buffers

    def after(self, calls: int) -> StepLoop:
        """The loop to continue with, after so many more calls."""
        inlined_kernel = None if self.later is None else self.later.after(calls)
        if inlined_kernel is None:
            return self
        return StepLoop(inlined_kernel, self.codec)


def table_loop(problem: Problem) -> StepLoop:
    """The loop of a table."""
    assert problem.tables is not None
    return StepLoop(
        _share_kernel(draw_kernel.draw_numbers), fixed=problem.tables.sampling
    )


def _share_kernel(kernel: Any) -> Any:
    return shared_machine(kernel, None, partial(compile_function, kernel, nogil=True))


def make_loop(
    problem: Problem,
    codec: StateCodec,
    kernel: Any,
    warm_up: Callable[[StepLoop], Any],
) -> StepLoop | None:
    """The loop ``kernel`` of a user's step; None where it changes the form of states.

    ``warm_up`` compiles a loop with the step in it.
    """
    oracle, tier = problem.oracle, tier_choice()
    loop_key = (oracle, kernel, codec, tier)
    if loop_key in _loops:
        return _loops[loop_key]
    is_row_kernel = kernel is draw_kernel.draw_rows

    def inline_step() -> StepLoop | None:
        parts = {"STEP": step_part(oracle, codec.kind)}
        if is_row_kernel:
            if next_state_type(oracle, codec.kind) != codec.kind:
                return None
            parts |= {"LOAD": codec.words.load, "STORE": codec.words.store}
        return StepLoop(compile_function(kernel, nogil=True, **parts), codec)

    def build() -> Any:
        inlined_loop = inline_step()
        if inlined_loop is not None:
            warm_up(inlined_loop)
        return None if inlined_loop is None else inlined_loop.kernel

    is_callable = tier != INLINED and codec.is_plain
    user_step = compile_user_step(problem, codec) if is_callable else None
    if user_step is None:
        loop = inline_step()
    else:
        parts = by_address.row_parts if is_row_kernel else by_address.number_parts

        def compile_loop() -> Any:
            return compile_function(kernel, nogil=True, **parts())

        shared_kernel = shared_machine(kernel, by_address.name_parts(), compile_loop)
        later = None if tier == ADDRESS else Handover(build)
        loop = StepLoop(shared_kernel, codec, user_step=user_step, later=later)
    _loops[loop_key] = loop
    return loop


@dataclass(frozen=True)
class JobPart:
    """Jobs for one thread."""

    first_job: int
    first_sample: int
    arguments: tuple[Any, ...]  # of the loop that runs it


def make_threads(num_threads: int, run: Callable[..., int]) -> Threads:
    """Threads that sample with ``run``; a slice takes milliseconds, so no stop."""
    return Threads(num_threads, run, lambda: None)


def run_shared(
    pool: Threads,
    states: Ints,
    actions: Ints,
    counts: Ints,
    words: Any,
    raws: Ints,
    rewards: Floats,
    fault: Ints,
) -> int:
    """The status of the samples, as if one thread had taken them."""
    job_ends, num_parts = np.cumsum(counts), pool.size
    shares = job_ends[-1] * np.arange(1, num_parts) / num_parts
    cut_places = np.minimum(np.searchsorted(job_ends, shares) + 1, len(counts))
    cut_places = np.unique([0, *cut_places, len(counts)])
    parts = []
    for first_job, end_job in itertools.pairwise(cut_places.tolist()):
        jobs = slice(first_job, end_job)
        samples = slice(
            int(job_ends[first_job] - counts[first_job]), int(job_ends[end_job - 1])
        )
        job_columns = (column[jobs] for column in (states, actions, counts, words))
        buffers = raws[samples], rewards[samples], np.zeros(2, dtype=np.int64)
        parts.append(JobPart(first_job, samples.start, (*job_columns, *buffers)))
    part_results: dict[int, int | BaseException] = {}

    def report(part: JobPart, ended: int | BaseException) -> bool:
        part_results[part.first_job] = ended
        return False

    pool.map(_run_part, iter(parts), report)
    status = 0
    for part in parts:  # the first fault in the order of the jobs is reported
        part_result, part_fault = part_results[part.first_job], part.arguments[-1]
        fault[:] = part.first_job + part_fault[0], part.first_sample + part_fault[1]
        if isinstance(part_result, BaseException):
            raise part_result
        status = part_result
        if status:
            break
    return status


def _run_part(run: Callable[..., int], part: JobPart) -> int | BaseException:
    """Return how a part ended, or its error: ``run_shared`` chooses the first fault."""
    try:
        return run(*part.arguments)
    except BaseException as error:
        return error


@cache
def _make_jumps() -> tuple[Any, Any]:
    """The loop that advances streams, and its matrices."""
    matrices = np.zeros((draw_kernel.STEPS, draw_kernel.BITS, 4), np.uint64)
    _share_kernel(draw_kernel.fill)(matrices)
    return _share_kernel(draw_kernel.advance), matrices


def advance_streams(words: Any, counts: Ints) -> None:
    """Advance streams, rows of four words, by ``counts`` numbers each, in place."""
    advance, matrices = _make_jumps()
    advance(words, counts, matrices, np.zeros(4, np.uint64))
