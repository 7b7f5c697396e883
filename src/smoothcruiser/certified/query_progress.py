"""The progress of a query: its position, how its interval narrowed, when it is saved.

A query can be left where the memory is whole: between two sweeps, between two slices of
a round, and at the end. Its position (``QueryProgress``) says where that was, and the
search goes on from there as if it had never stopped. So a stop that the clock decides
saves the search first, and then does the work that only its answer needs.

The history is a bounded record of (calls, interval). A search adds a point after each
round; it has about log(calls)/log(1.25) rounds. Where points become too many, every
second one is dropped, so that those left are spread as evenly as before. Only
``Certified.plot`` reads the record: it changes no bit of a search, and a store does not
keep it.

The clock decides when a search is saved while it runs, and that changes no bit of the
result: a snapshot is taken between two slices of samples. A snapshot holds the whole
search, so that a large one takes its time. Between two of them lies at least
``LEAST_SAVE_SECONDS``, and ``RARELY`` times the duration of the last one. So saving takes
at most 3% of the time, and a kill costs at most that interval and one slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from smoothcruiser.certified.query_limits import QueryLimits, Target
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.estimate import Estimate, Interval
from smoothcruiser.problem.model.tabular import Ints

if TYPE_CHECKING:
    from smoothcruiser.certified.sweeps.counted_model import Guess

# in the place of a number of sweeps: no further one is due, or only ``Region.close``
SETTLED, CLOSING = -1, -2


NO_JOBS: Ints = np.zeros(0, dtype=np.int64)  # an empty list of pairs or counts


@dataclass
class QueryProgress:
    """A query that is under way."""

    root: int  # the node of the requested state
    first_call: int  # calls of the memory before the query
    epsilon: float | None
    target: Target
    relative: float | None = None
    first_row: int = 0  # of these calls, rows that were read
    swept: int = 0  # sweeps since the last round
    ended: str | None = None  # why there is nothing more to sample
    sampling: bool = False  # whether a round is under way
    # the jobs of the round that are in no batch yet
    pairs: Ints = field(default_factory=lambda: NO_JOBS)
    counts: Ints = field(default_factory=lambda: NO_JOBS)

    def begin_round(self, pairs: Ints, counts: Ints) -> None:
        """Keep the jobs of a round."""
        self.sampling, self.pairs, self.counts = True, pairs, counts

    def num_waiting(self, batch: Batch | None) -> int:
        """The samples of the round that are still to be taken."""
        if not self.sampling:
            return 0
        batch_left = 0 if batch is None else batch.size - batch.drawn
        return int(self.counts.sum()) + batch_left

    def end_round(self) -> None:
        """Forget the jobs, done or not."""
        self.sampling, self.swept = False, 0
        self.pairs, self.counts = NO_JOBS, NO_JOBS


class PathHelper(Protocol):
    """Paths that bound V at the requested state beside the search.

    They share its calls, its limits and its store. Their bounds are entered in
    ``Memory.other_ends``, never in the graph.
    """

    def take_turn(
        self, position: QueryProgress, limits: QueryLimits, calls_left: int
    ) -> tuple[str | None, int]:
        """Play paths if that is worth more than the search; (why to stop, calls)."""

    def most_calls(self, position: QueryProgress, limits: QueryLimits) -> int:
        """The calls of the search's next round at the most."""

    def improve(self, guess: Guess) -> Guess:
        """The estimate of V with the mean of the paths, where that is better."""

    def annotate(self, estimate: Estimate, root: int) -> Estimate:
        """The answer with the promise of both, and notes on who gave which end."""

    def sections(self) -> dict[str, Any]:
        """The sections of a snapshot."""

    def read_sections(
        self, sections: dict[str, Any], require: Callable[[bool, str], None]
    ) -> None:
        """Restore the sections."""

    def close(self) -> None:
        """Release threads."""


MOST_POINTS = 512  # of one state
MOST_STATES = 64  # the oldest is forgotten


class Point(NamedTuple):
    """An interval and the calls of the memory by then."""

    calls: int
    low: float
    high: float


@dataclass
class History:
    """Points of the states that were queried last, by their node."""

    points: dict[int, list[Point]] = field(default_factory=dict)

    def add(self, node: int, calls: int, interval: Interval) -> None:
        """Keep a point of a node; one with equal calls replaces it."""
        node_points = self.points.pop(node, [])  # the node comes last again
        self.points[node] = node_points
        if len(self.points) > MOST_STATES:
            del self.points[next(iter(self.points))]
        if node_points and node_points[-1].calls == calls:
            node_points.pop()
        if len(node_points) >= MOST_POINTS:
            node_points[:] = node_points[::2]
        node_points.append(Point(calls, *map(float, interval)))

    def of(self, node: int) -> tuple[Point, ...]:
        """The points of a node, in order."""
        return tuple(self.points.get(node, ()))


LEAST_SAVE_SECONDS = 10.0
RARELY = 32


class Autosave:
    """Writes snapshots of one search, neither too often nor too rarely."""

    def __init__(self, write_snapshot: Callable[[], None]) -> None:
        """``write_snapshot`` takes a snapshot of the search and writes it."""
        self.write_snapshot = write_snapshot
        self.unkept: str | None = None  # why nothing is saved any more
        self._next = 0.0  # when the next one is due: the first at once

    @property
    def due(self) -> bool:
        """Whether it is time for another snapshot."""
        return time.perf_counter() >= self._next

    def save(self) -> None:
        """Take a snapshot and write it."""
        if self.unkept is not None:
            return
        from smoothcruiser.states.state_json import UnwritableState

        start_time = time.perf_counter()
        try:
            self.write_snapshot()
        except UnwritableState as error:  # the answer is worth more than the store
            self.unkept = str(error)
        now = time.perf_counter()
        self._next = now + max(LEAST_SAVE_SECONDS, RARELY * (now - start_time))
