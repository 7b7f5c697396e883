"""The times at which a search is saved, and the size of its slices of samples.

The clock decides both, and neither changes a bit of the result: a snapshot is
taken between two slices (``intake``), and a slice ends where one likes.

A snapshot holds the whole search, so that a large one takes its time. Between two of
them lies at least ``LEAST_SECONDS``, and ``RARELY`` times the duration of the last one.
So saving takes at most 3% of the time, and a kill costs at most that interval and one
slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from smoothcruiser.certified.spelling import Unspelled

LEAST_SECONDS = 10.0
RARELY = 32
# of a slice: Ctrl-C and time limits are seen between two of them
SLICE_SECONDS = 0.1
POOL_SECONDS = 1.0  # of a slice that workers share
MOST_GROWTH = 16  # of a slice against the one before


class Autosave:
    """Writes snapshots of one search, neither too often nor too rarely."""

    def __init__(self, write: Callable[[bytes, int], None]) -> None:
        """``write`` takes a snapshot and the calls that it stands for."""
        self.write = write
        self.unkept: str | None = None  # why nothing is saved any more
        self._next = 0.0  # when the next one is due: the first at once

    @property
    def due(self) -> bool:
        """Whether it is time for another snapshot."""
        return time.perf_counter() >= self._next

    def save(self, snapshot: Callable[[], bytes], calls: int) -> None:
        """Take a snapshot and write it."""
        if self.unkept is not None:
            return
        start_time = time.perf_counter()
        try:
            self.write(snapshot(), calls)
        except Unspelled as error:  # the answer is worth more than the store
            self.unkept = str(error)
        now = time.perf_counter()
        self._next = now + max(LEAST_SECONDS, RARELY * (now - start_time))


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
        return (
            max_samples
            if sample_seconds <= 0.0
            else max(1, min(max_samples, int(seconds / sample_seconds)))
        )

    def learn(self, samples: int, seconds: float) -> None:
        """Learn from a slice."""
        if samples:
            self.last_samples, self.sample_seconds = samples, seconds / samples
