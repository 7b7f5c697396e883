"""An Estimate: a row per action with its value, its interval and its share of the policy.

line with caps   the interval of the certificate; an arrow where it has no end
dot              the estimate of the action's value
diamond          the same, of the recommended action
grey             an action that the certificate excludes as the best one
pale bar         the policy, on the axis above
blue band        the interval of V, with a dashed line at its estimate
thin blue bar    the estimate of V and its usual error to either side, not promised
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smoothcruiser.estimate import Estimate, Interval, likeliest
from smoothcruiser.plots.style import (
    BLUE,
    GREY,
    LIGHT,
    ORANGE,
    SMALL,
    axes_of,
    legend_below,
    shorten_name,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40  # actions; a longer list is not read
LONGEST_LABEL = 24  # letters
ROW, EDGES, TALLEST = 0.45, 1.9, 14.0  # inches: of a row, around all rows, at most
BESIDE = 0.08  # of the range of values, free on either side


def draw(estimate: Estimate, ax: Axes | None) -> Axes:
    """Draw it, and return the Axes; the policy is on an axis of its own above."""
    all_records = estimate.records()
    shown_rows = [all_records[a] for a in likeliest(estimate, MOST_ROWS)]
    num_omitted = len(all_records) - len(shown_rows)
    num_rows = max(1, len(shown_rows))
    ax = axes_of(ax, 6.4, min(TALLEST, EDGES + ROW * num_rows))
    axis_start, axis_end = _range(estimate, shown_rows)
    _value(ax, estimate, axis_start, axis_end)
    _usual_error(ax, estimate, num_rows - 0.64 if shown_rows else 0.0)
    for row_index, row in enumerate(shown_rows):
        _action(ax, estimate, row_index, row, (axis_start, axis_end))
    ax.set_xlim(axis_start, axis_end)
    ax.set_ylim(num_rows - 0.5, -0.5)  # the first action above
    action_names = [_name(estimate, row) for row in shown_rows]
    # "$" is no formula
    ax.set_yticks(range(len(shown_rows)), action_names, parse_math=False)
    ax.set_xlabel("cost" if estimate.minimize else "value, in units of reward")
    if shown_rows:
        omission_text = (
            f"; {num_omitted:,} more are illegal or less likely" if num_omitted else ""
        )
        ax.set_ylabel(f"action{omission_text}")
        _policy(ax, shown_rows)
    certificate = estimate.certificate
    promise_text = (
        "no promise"
        if certificate is None
        else f"intervals hold with probability {certificate.confidence:g}"
    )
    title(
        ax,
        f"{shorten_name(estimate.problem)}, state {shorten_name(estimate.state)}",
        f"{estimate.method}: {estimate.num_calls:,} calls, {promise_text}",
    )
    legend_below(ax, _legend(estimate, shown_rows), columns=3)
    return ax


def _name(estimate: Estimate, row: dict[str, Any]) -> str:
    name = shorten_name(row["label"], LONGEST_LABEL)
    if math.isnan(row["value"]):
        return f"{name} (illegal)"
    return f"{name} ◂ best" if row["action"] == estimate.action else name


def _range(estimate: Estimate, rows: list[dict[str, Any]]) -> Interval:
    """The values that are shown: all that are finite, with room beside them."""
    usual_error = estimate.standard_error or 0.0
    numbers = [estimate.value, *(estimate.interval or ())]
    numbers += [estimate.value - usual_error, estimate.value + usual_error]
    numbers += [row[name] for row in rows for name in ("value", "low", "high")]
    finite_numbers = [x for x in numbers if math.isfinite(x)] or [0.0]
    lowest_number, highest_number = min(finite_numbers), max(finite_numbers)
    free_margin = BESIDE * (highest_number - lowest_number) or 0.05 * max(
        1.0, abs(lowest_number)
    )
    return lowest_number - free_margin, highest_number + free_margin


def _value(ax: Axes, estimate: Estimate, low: float, high: float) -> None:
    """The interval of V behind everything."""
    if estimate.interval is not None:
        visible_ends = max(low, estimate.interval[0]), min(high, estimate.interval[1])
        if (
            visible_ends[0] <= visible_ends[1]
        ):  # an end at infinity is that of the axis
            ax.axvspan(*visible_ends, color=BLUE, alpha=0.12, linewidth=0, zorder=0)
    if math.isfinite(estimate.value):
        ax.axvline(estimate.value, color=BLUE, linestyle="--", linewidth=1.2, zorder=1)


def _usual_error(ax: Axes, estimate: Estimate, height: float) -> None:
    """The usual error of V as a thin bar, at a height below the actions."""
    if not estimate.standard_error or not math.isfinite(estimate.value):
        return
    ax.errorbar(
        [estimate.value],
        [height],
        xerr=[estimate.standard_error],
        color=BLUE,
        marker="|",
        markersize=7,
        elinewidth=1.0,
        capsize=3,
        zorder=5,
        gid="usual error",
    )


def _action(
    ax: Axes,
    estimate: Estimate,
    row_index: int,
    row: dict[str, Any],
    axis_range: Interval,
) -> None:
    if math.isnan(row["value"]):
        return
    is_best = row["action"] == estimate.action
    colour = ORANGE if is_best else (GREY if row["excluded"] else "black")
    lower_bound, upper_bound = row["low"], row["high"]
    if not math.isnan(lower_bound):
        visible_ends = max(lower_bound, axis_range[0]), min(upper_bound, axis_range[1])
        ax.plot(
            visible_ends, (row_index, row_index), color=colour, linewidth=2.2, zorder=3
        )
        for interval_end, arrow_marker, cap_position in (
            (lower_bound, "<", visible_ends[0]),
            (upper_bound, ">", visible_ends[1]),
        ):
            marker_shape = "|" if math.isfinite(interval_end) else arrow_marker
            ax.plot(
                [cap_position],
                [row_index],
                marker=marker_shape,
                color=colour,
                markersize=9,
                zorder=3,
            )
    ax.plot(
        [row["value"]],
        [row_index],
        marker="D" if is_best else "o",
        color=colour,
        markeredgecolor="black",
        markersize=8 if is_best else 6,
        linestyle="none",
        zorder=4,
        gid=f"action {row['action']}",
    )


def _policy(ax: Axes, rows: list[dict[str, Any]]) -> None:
    """The shares of the policy as pale bars, on an axis above."""
    above = ax.twiny()
    above.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)
    above.barh(
        range(len(rows)),
        [row["policy"] for row in rows],
        height=0.62,
        color=LIGHT,
        gid="policy",
    )
    above.set_xlim(0.0, 1.0)
    above.set_xlabel("policy: probability of the action", fontsize=SMALL)
    above.tick_params(axis="x", labelsize=SMALL)


def _legend(estimate: Estimate, rows: list[dict[str, Any]]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    legend_handles: list[Any] = []
    line_style: dict[str, Any] = {"markeredgecolor": "black", "linewidth": 2.2}
    other_rows = [row for row in rows if row["action"] != estimate.action]
    if any(not row["excluded"] and not math.isnan(row["value"]) for row in other_rows):
        legend_handles.append(
            Line2D([], [], color="black", marker="o", label="action", **line_style)
        )
    if estimate.action is not None and rows:
        legend_handles.append(
            Line2D([], [], color=ORANGE, marker="D", label="recommended", **line_style)
        )
    if any(row["excluded"] and not math.isnan(row["value"]) for row in other_rows):
        legend_handles.append(
            Line2D(
                [], [], color=GREY, marker="o", label="excluded as best", **line_style
            )
        )
    legend_handles.append(
        Line2D([], [], color=BLUE, linestyle="--", label="estimate of V")
    )
    if estimate.standard_error:
        usual_error_label = "usual error of V, not promised"
        legend_handles.append(
            Line2D(
                [], [], color=BLUE, marker="|", linewidth=1.0, label=usual_error_label
            )
        )
    if estimate.interval is not None:
        legend_handles.append(
            Patch(color=BLUE, alpha=0.12, label="interval of V, the promise")
        )
    if rows:
        legend_handles.append(Patch(color=LIGHT, label="policy (axis above)"))
    return legend_handles
