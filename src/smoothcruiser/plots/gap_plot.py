"""A Gap: rows with V, the value of the policy, and the values of the actions.

line with caps   an interval; all of them hold together
dot, diamond     the estimate; the diamond is V
shaded           the regret at most: from the policy's lower end up
grey             an action that is excluded as the best one
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.duality.gap_result import Gap
from smoothcruiser.estimate import Interval
from smoothcruiser.plots.style import (
    BLUE,
    GREY,
    LIGHT,
    ORANGE,
    axes_of,
    frame,
    shorten_name,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40  # actions; a longer list is not read
LONGEST_LABEL = 24  # letters
ROW, EDGES, TALLEST = 0.45, 1.6, 14.0  # inches: of a row, around all rows, at most


def draw(gap: Gap, ax: Axes | None) -> Axes:
    """Draw the intervals, V first, and return the Axes."""
    rows = _rows(gap)
    ax = axes_of(ax, 6.4, min(TALLEST, EDGES + ROW * len(rows)))
    ends = [
        end for _, _, interval, _ in rows for end in interval if math.isfinite(end)
    ]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    margin = 0.06 * (high - low) or 0.05 * max(1.0, abs(low))
    for position, (_, value, interval, colour) in enumerate(rows):
        _draw_row(ax, position, value, interval, colour, (low - margin, high + margin))
    if math.isfinite(gap.regret):
        is_max = gap.policy_interval[0] + gap.regret <= gap.interval[1] + margin
        start = gap.policy_interval[0] if is_max else gap.policy_interval[1]
        end = start + gap.regret if is_max else start - gap.regret
        ax.axvspan(min(start, end), max(start, end), color=LIGHT, alpha=0.5, zorder=0)
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(len(rows) - 0.5, -0.5)  # the first row above
    ax.set_yticks(range(len(rows)), [row[0] for row in rows], parse_math=False)
    ax.set_xlabel("value, in units of reward")
    promise_text = f"all of it with probability {gap.certificate.confidence:g}"
    title(
        ax,
        f"{shorten_name(gap.problem)}, state {shorten_name(gap.state)}",
        f"{gap.sentence}",
        f"{gap.num_calls:,} calls; {promise_text}",
    )
    frame(ax)
    return ax


def _rows(gap: Gap) -> list[tuple[str, float, Interval, str]]:
    """(name, estimate, interval, colour) of each row."""
    rows = [("optimal", gap.value, gap.interval, BLUE)]
    if not math.isnan(gap.policy_value):
        rows.append(("policy", gap.policy_value, gap.policy_interval, ORANGE))
    for row in gap.records()[:MOST_ROWS]:
        if math.isnan(row["value"]):
            continue
        colour = GREY if row["excluded"] else "black"
        name = shorten_name(row["label"], LONGEST_LABEL)
        rows.append((name, row["value"], (row["low"], row["high"]), colour))
    return rows


def _draw_row(
    ax: Axes,
    position: int,
    value: float,
    interval: Interval,
    colour: str,
    axis_range: Interval,
) -> None:
    visible_ends = max(interval[0], axis_range[0]), min(interval[1], axis_range[1])
    style: dict[str, Any] = {"color": colour, "zorder": 3}
    ax.plot(visible_ends, (position, position), linewidth=2.2, **style)
    for end, cap, arrow in zip(interval, visible_ends, "<>", strict=True):
        marker = "|" if math.isfinite(end) else arrow
        ax.plot([cap], [position], marker=marker, markersize=9, **style)
    is_optimal = position == 0
    ax.plot(
        [value],
        [position],
        marker="D" if is_optimal else "o",
        markersize=8 if is_optimal else 6,
        linestyle="none",
        gid=f"row {position}",
        **style,
    )
