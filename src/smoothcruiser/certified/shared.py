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

    It has the first of them, the place of its first sample, and the arguments of
    what runs it (``sampling.CompiledSampler``).
    """

    first: int
    low: int
    jobs: tuple[Any, ...]


def make_threads(size: int, run: Callable[..., int]) -> Threads:
    """Threads that sample with ``run``."""
    return Threads(size, run, _nothing)


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
    """What the samples report, as if one thread had taken them."""
    ends, number = np.cumsum(counts), pool.size
    cuts = [
        0,
        *(
            int(np.searchsorted(ends, ends[-1] * part / number)) + 1
            for part in range(1, number)
        ),
        len(counts),
    ]
    cuts = sorted({min(cut, len(counts)) for cut in cuts})
    parts = []
    for first, last in itertools.pairwise(cuts):
        low, high = int(ends[first] - counts[first]), int(ends[last - 1])
        jobs = (
            states[first:last],
            actions[first:last],
            counts[first:last],
            words[first:last],
            raws[low:high],
            rewards[low:high],
            np.zeros(2, dtype=np.int64),
        )
        parts.append(_Part(first, low, jobs))
    found: dict[int, int | BaseException] = {}

    def report(part: _Part, ended: int | BaseException) -> bool:
        found[part.first] = ended
        return False

    pool.map(_run_part, iter(parts), report)
    status = 0
    for part in parts:  # the first fault in the order of the jobs is reported
        ended, wrong = found[part.first], part.jobs[-1]
        fault[0], fault[1] = part.first + wrong[0], part.low + wrong[1]
        if isinstance(ended, BaseException):
            raise ended
        status = ended
        if status:
            break
    return status


def _run_part(run: Callable[..., int], part: _Part) -> int | BaseException:
    """Return how a part ended, or what it raised.

    The sampler decides which fault comes first.
    """
    try:
        return run(*part.jobs)
    except BaseException as error:
        return error


def _nothing() -> None:
    """Do nothing: samples of a slice take milliseconds and cannot be interrupted."""
