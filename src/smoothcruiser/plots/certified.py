"""A memory of certified search: how the interval of a state narrowed with its calls."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.certified.history import Point
from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.table import node_of, queried
from smoothcruiser.errors import InvalidInput
from smoothcruiser.plots.style import (
    BLUE,
    axes_of,
    frame,
    legend_below,
    shortened,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(search: Certified, ax: Axes | None, state: Any) -> Axes:
    """Draw the interval against the calls of the memory, and return the Axes."""
    node, points = _points(search, state)
    ax = axes_of(ax)
    calls = [point.calls for point in points]
    lows, highs = [point.low for point in points], [point.high for point in points]
    ax.fill_between(
        calls, lows, highs, step="post", color=BLUE, alpha=0.18, linewidth=0
    )
    edge: dict[str, Any] = {"color": BLUE, "where": "post", "linewidth": 1.4}
    mark: dict[str, Any] = {"marker": "o", "markersize": 3}
    ax.step(calls, highs, label="interval of V, the promise", **edge, **mark)
    ax.step(calls, lows, **edge, **mark)
    _estimate(ax, search, node, calls[-1])
    first = next((count for count in calls if count > 0), 1)
    if calls[-1] > 20 * first:
        ax.set_xscale("symlog", linthresh=first, linscale=0.4)
        ax.set_xlim(left=0)
        powers = range(math.ceil(math.log10(first)), len(str(calls[-1])))
        ax.set_xticks([0, *(10**k for k in powers)])
    ax.set_xlabel("oracle calls of the memory")
    ax.set_ylabel("V, in units of reward")
    sure = 1.0 if search.exact else 1.0 - search.delta
    found = points[-1]
    title(
        ax,
        f"{shortened(search.problem.name)}, state "
        f"{shortened(search.memory.states[node])}",
        f"[{found.low:.4g}, {found.high:.4g}] after {found.calls:,} calls, with "
        f"probability {sure:g}",
    )
    frame(ax)
    legend_below(ax)
    return ax


def _estimate(ax: Axes, search: Certified, node: int, calls: int) -> None:
    """Mark the estimate of V and its usual error at the last calls."""
    answers = queried(search)
    found = next((x for x in answers if node_of(search.memory, x.state) == node), None)
    if found is None:
        return
    usual = found.standard_error
    ax.errorbar(
        [calls],
        [found.value],
        yerr=[usual] if usual else None,
        color="black",
        marker="D",
        markersize=5,
        elinewidth=1.0,
        capsize=3,
        linestyle="none",
        label="estimate" + (" and usual error, not promised" if usual else ""),
    )


def _points(search: Certified, state: Any) -> tuple[int, tuple[Point, ...]]:
    """The node and the history of a state, by default the one asked about last."""
    kept = search.history.points
    if not kept:
        raise InvalidInput(
            "This memory has no history of intervals; ask a query first (a store does "
            "not keep it)."
        )
    if state is None:
        node = next(reversed(kept))
        return node, search.history.of(node)
    place = search.problem.start(state)
    found = node_of(search.memory, place)
    if found is None or found not in kept:
        raise InvalidInput(
            f"The history of state {place!r:.60} is not known; ask a query about it "
            "first."
        )
    return found, search.history.of(found)
