"""The progress of a query of certified search: its position, and how its interval narrowed.

A query can be left where the memory is whole: between two sweeps, between two slices of
a round, and at the end. Its position (``QueryProgress``) says where that was, and the
search goes on from there as if it had never stopped. So a stop that the clock decides
saves the search first, and then does the work that only its answer needs.

The history is a bounded record of (calls, interval). A search adds a point after each
round; it has about log(calls)/log(1.25) rounds. Where points become too many, every
second one is dropped, so that those left are spread as evenly as before. Only
``Certified.plot`` reads the record: it changes no bit of a search, and a store does not
keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from smoothcruiser.certified.query_limits import Target
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.estimate import Interval
from smoothcruiser.problem.model.tabular import Ints

# in the place of a number of sweeps: no further one is due, or only ``Region.close``
SETTLED, CLOSING = -1, -2


def no_jobs() -> Ints:
    """An empty list of pairs or counts."""
    return np.zeros(0, dtype=np.int64)


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
    pairs: Ints = field(default_factory=no_jobs)
    counts: Ints = field(default_factory=no_jobs)

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
        self.pairs, self.counts = no_jobs(), no_jobs()


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
