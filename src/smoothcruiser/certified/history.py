"""How the interval of a query narrowed: a bounded record of (calls, interval).

A search adds a point after each round; it has about log(calls)/log(1.25) rounds. Where
points become too many, every second one is dropped, so that those left are spread as
evenly as before. Only ``Certified.plot`` reads the record: it changes no bit of a
search, and a store does not keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from smoothcruiser.estimate import Interval

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
