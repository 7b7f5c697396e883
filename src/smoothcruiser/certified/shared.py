"""A slice of samples in machine code, on several threads.

Jobs are split into contiguous parts of about the same number of samples, each with
its streams and buffers, so that the bits are those of one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.problem.tabular import Floats, Ints


class _Part(NamedTuple):
    """Jobs for one thread.

    It has the first of them, the place of its first sample, and the arguments of the
    loop that runs it (``sampling.CompiledSampler``).
    """

    first: int
    low: int
    jobs: tuple[Any, ...]


def make_threads(num_threads: int, run: Callable[..., int]) -> Threads:
    """Threads that sample with ``run``."""
    return Threads(num_threads, run, _nothing)


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
    cut_places = [
        0,
        *(
            int(np.searchsorted(job_ends, job_ends[-1] * part / num_parts)) + 1
            for part in range(1, num_parts)
        ),
        len(counts),
    ]
    cut_places = sorted({min(cut_place, len(counts)) for cut_place in cut_places})
    parts = []
    for first_job, end_job in itertools.pairwise(cut_places):
        first_sample, end_sample = (
            int(job_ends[first_job] - counts[first_job]),
            int(job_ends[end_job - 1]),
        )
        jobs = (
            states[first_job:end_job],
            actions[first_job:end_job],
            counts[first_job:end_job],
            words[first_job:end_job],
            raws[first_sample:end_sample],
            rewards[first_sample:end_sample],
            np.zeros(2, dtype=np.int64),
        )
        parts.append(_Part(first_job, first_sample, jobs))
    part_results: dict[int, int | BaseException] = {}

    def report(part: _Part, ended: int | BaseException) -> bool:
        part_results[part.first] = ended
        return False

    pool.map(_run_part, iter(parts), report)
    status = 0
    for part in parts:  # the first fault in the order of the jobs is reported
        part_result, part_fault = part_results[part.first], part.jobs[-1]
        fault[0], fault[1] = part.first + part_fault[0], part.low + part_fault[1]
        if isinstance(part_result, BaseException):
            raise part_result
        status = part_result
        if status:
            break
    return status


def _run_part(run: Callable[..., int], part: _Part) -> int | BaseException:
    """Return how a part ended, or its error.

    The sampler decides which fault comes first.
    """
    try:
        return run(*part.jobs)
    except BaseException as error:
        return error


def _nothing() -> None:
    """Do nothing: samples of a slice take milliseconds and cannot be interrupted."""
