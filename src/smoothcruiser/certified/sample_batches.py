"""Batches of samples on their way into the memory, which can wait.

A round is a list of jobs, (pair, number of samples). Its samples are taken in
batches of at most ``CHUNK``, and entered in the memory (``batch_entry``). A
batch may be sampled in slices of any size, because every pair has a stream of
its own. So the clock may decide where a slice ends, and a snapshot between two
slices loses nothing.

How many samples a slice has, its duration decides (``SlicePace``): the clock
may, since it changes no bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smoothcruiser.problem.model.tabular import Floats, Ints

CHUNK = 1 << 20  # samples held in buffers at a time: 16 MB


Jobs = tuple[Ints, Ints]  # pairs, and the samples of each


@dataclass
class Batch:
    """Samples on their way into the memory, job after job."""

    pairs: Ints  # (J,)
    counts: Ints  # (J,): samples of each
    raws: Ints = field(init=False)  # (size,): next states as whole numbers
    rewards: Floats = field(init=False)  # (size,)
    drawn: int = 0  # samples that are there
    entered: int = 0  # samples that are in the memory
    watched: bool = False  # whether the job that was begun is compared at its end

    def __post_init__(self) -> None:
        self.ends: Ints = np.cumsum(self.counts)
        self.size = int(self.ends[-1])  # samples when it is whole
        self.raws = np.empty(self.size, dtype=np.int64)
        self.rewards = np.empty(self.size)

    def next_samples(self, max_samples: int) -> tuple[int, Ints]:
        """Return the first job that is not done, and the samples to take next.

        There are at most ``max_samples`` of them, as counts of that job and of those
        that follow.
        """
        first_job = int(np.searchsorted(self.ends, self.drawn, side="right"))
        stop_sample = min(self.size, self.drawn + max_samples)
        return first_job, self.jobs_between(self.drawn, stop_sample)[1]

    def jobs_between(self, first_sample: int, end_sample: int) -> Jobs:
        """The pairs and counts of samples ``first_sample`` .. ``end_sample - 1``."""
        first_job = int(np.searchsorted(self.ends, first_sample, side="right"))
        last_job = int(np.searchsorted(self.ends, end_sample, side="left"))
        counts = self.counts[first_job : last_job + 1].copy()
        counts[-1] -= self.ends[last_job] - end_sample
        counts[0] -= first_sample - (self.ends[first_job] - self.counts[first_job])
        return self.pairs[first_job : last_job + 1], counts

    def truncate(self) -> None:
        """Drop the samples that were not taken."""
        last_job = int(np.searchsorted(self.ends, self.drawn, side="left"))
        num_jobs = last_job + 1 if self.drawn else 0
        self.pairs, self.counts = self.pairs[:num_jobs], self.counts[:num_jobs].copy()
        if num_jobs:
            self.counts[-1] -= self.ends[last_job] - self.drawn
        self.ends, self.size = np.cumsum(self.counts), self.drawn
        self.raws, self.rewards = self.raws[: self.drawn], self.rewards[: self.drawn]


MOST_GROWTH = 16  # of a slice against the one before


class SlicePace:
    """How many samples take how long."""

    def __init__(self) -> None:
        self.last_samples = 0  # samples of the last slice
        self.sample_seconds = 0.0  # seconds per sample there

    def samples_within(self, seconds: float, entry_seconds: float = 0.0) -> int:
        """The samples that take about so long, with ``entry_seconds`` for each.

        The first slice is one sample, and none is much larger than the one before.
        """
        max_samples = max(1, MOST_GROWTH * self.last_samples)
        sample_seconds = self.sample_seconds + entry_seconds
        if sample_seconds <= 0.0:
            return max_samples
        return max(1, min(max_samples, int(seconds / sample_seconds)))

    def learn(self, samples: int, seconds: float) -> None:
        """Learn from a slice."""
        if samples:
            self.last_samples, self.sample_seconds = samples, seconds / samples
