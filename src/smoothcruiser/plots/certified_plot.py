"""A memory of certified search: how the interval of a state narrowed with its calls."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.certified.query_progress import Point
from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.state_table import queried_estimates
from smoothcruiser.errors import InvalidInput
from smoothcruiser.plots.style import (
    BLUE,
    axes_of,
    frame,
    legend_below,
    shorten_name,
    title,
    units_of_value,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(search: Certified, ax: Axes | None, state: Any) -> Axes:
    """Draw the interval against the calls of the memory, and return the Axes."""
    node, points = _points(search, state)
    ax = axes_of(ax)
    call_counts = [point.calls for point in points]
    lower_bounds, upper_bounds = (
        [point.low for point in points],
        [point.high for point in points],
    )
    ax.fill_between(
        call_counts,
        lower_bounds,
        upper_bounds,
        step="post",
        color=BLUE,
        alpha=0.18,
        linewidth=0,
    )
    line_style: dict[str, Any] = {"color": BLUE, "where": "post", "linewidth": 1.4}
    marker_style: dict[str, Any] = {"marker": "o", "markersize": 3}
    ax.step(
        call_counts,
        upper_bounds,
        label="interval of V, the promise",
        **line_style,
        **marker_style,
    )
    ax.step(call_counts, lower_bounds, **line_style, **marker_style)
    _estimate(ax, search, node, call_counts[-1])
    first_calls = next((count for count in call_counts if count > 0), 1)
    if call_counts[-1] > 20 * first_calls:
        ax.set_xscale("symlog", linthresh=first_calls, linscale=0.4)
        ax.set_xlim(left=0)
        powers = range(math.ceil(math.log10(first_calls)), len(str(call_counts[-1])))
        ax.set_xticks([0, *(10**k for k in powers)])
    ax.set_xlabel("oracle calls of the memory")
    ax.set_ylabel(units_of_value(search.problem.minimizes))
    confidence = 1.0 if search.exact else 1.0 - search.delta
    last_point = points[-1]
    title(
        ax,
        f"{shorten_name(search.problem.name)}, state "
        f"{shorten_name(search.memory.states[node])}",
        f"[{last_point.low:.4g}, {last_point.high:.4g}] after {last_point.calls:,} "
        f"calls, with probability {confidence:g}",
    )
    frame(ax)
    legend_below(ax)
    return ax


def _estimate(ax: Axes, search: Certified, node: int, calls: int) -> None:
    """Mark the estimate of V and its usual error at the last calls."""
    answers = queried_estimates(search)
    answer = next(
        (x for x in answers if search.memory.find_node(x.state) == node), None
    )
    if answer is None:
        return
    usual_error = answer.standard_error
    ax.errorbar(
        [calls],
        [answer.value],
        yerr=[usual_error] if usual_error else None,
        color="black",
        marker="D",
        markersize=5,
        elinewidth=1.0,
        capsize=3,
        linestyle="none",
        label="estimate" + (" and usual error, not promised" if usual_error else ""),
    )


def _points(search: Certified, state: Any) -> tuple[int, tuple[Point, ...]]:
    """The node and the history of a state, by default the one asked about last."""
    point_lists = search.history.points
    if not point_lists:
        raise InvalidInput(
            "This memory has no history of intervals; ask a query first (a store does "
            "not keep it)."
        )
    if state is None:
        node = next(reversed(point_lists))
        return node, search.history.of(node)
    start_state = search.problem.start(state)
    state_node = search.memory.find_node(start_state)
    if state_node is None or state_node not in point_lists:
        raise InvalidInput(
            f"The history of state {start_state!r:.60} is not known; ask a query about "
            "it first."
        )
    return state_node, search.history.of(state_node)
