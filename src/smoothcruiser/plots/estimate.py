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
    shortened,
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
    every = estimate.records()
    rows = [every[a] for a in likeliest(estimate, MOST_ROWS)]
    left = len(every) - len(rows)
    count = max(1, len(rows))
    ax = axes_of(ax, 6.4, min(TALLEST, EDGES + ROW * count))
    low, high = _range(estimate, rows)
    _value(ax, estimate, low, high)
    _usual_error(ax, estimate, count - 0.64 if rows else 0.0)
    for place, row in enumerate(rows):
        _action(ax, estimate, place, row, (low, high))
    ax.set_xlim(low, high)
    ax.set_ylim(count - 0.5, -0.5)  # the first action above
    names = [_name(estimate, row) for row in rows]
    ax.set_yticks(range(len(rows)), names, parse_math=False)  # "$" is no formula
    ax.set_xlabel("value, in units of reward")
    if rows:
        more = f"; {left:,} more are illegal or less likely" if left else ""
        ax.set_ylabel(f"action{more}")
        _policy(ax, rows)
    sure = estimate.certificate
    promise = (
        "no promise"
        if sure is None
        else f"intervals hold with probability {sure.confidence:g}"
    )
    title(
        ax,
        f"{shortened(estimate.problem)}, state {shortened(estimate.state)}",
        f"{estimate.method}: {estimate.num_calls:,} calls, {promise}",
    )
    legend_below(ax, _legend(estimate, rows), columns=3)
    return ax


def _name(estimate: Estimate, row: dict[str, Any]) -> str:
    name = shortened(row["label"], LONGEST_LABEL)
    if math.isnan(row["value"]):
        return f"{name} (illegal)"
    return f"{name} ◂ best" if row["action"] == estimate.action else name


def _range(estimate: Estimate, rows: list[dict[str, Any]]) -> Interval:
    """The values that are shown: all that are finite, with room beside them."""
    error = estimate.standard_error or 0.0
    numbers = [estimate.value, *(estimate.interval or ())]
    numbers += [estimate.value - error, estimate.value + error]
    numbers += [row[name] for row in rows for name in ("value", "low", "high")]
    finite = [x for x in numbers if math.isfinite(x)] or [0.0]
    low, high = min(finite), max(finite)
    beside = BESIDE * (high - low) or 0.05 * max(1.0, abs(low))
    return low - beside, high + beside


def _value(ax: Axes, estimate: Estimate, low: float, high: float) -> None:
    """The interval of V behind everything."""
    if estimate.interval is not None:
        ends = max(low, estimate.interval[0]), min(high, estimate.interval[1])
        if ends[0] <= ends[1]:  # an end at infinity is that of the axis
            ax.axvspan(*ends, color=BLUE, alpha=0.12, linewidth=0, zorder=0)
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
    ax: Axes, estimate: Estimate, place: int, row: dict[str, Any], shown: Interval
) -> None:
    if math.isnan(row["value"]):
        return
    best = row["action"] == estimate.action
    colour = ORANGE if best else (GREY if row["excluded"] else "black")
    low, high = row["low"], row["high"]
    if not math.isnan(low):
        ends = max(low, shown[0]), min(high, shown[1])
        ax.plot(ends, (place, place), color=colour, linewidth=2.2, zorder=3)
        for end, mark, cap in ((low, "<", ends[0]), (high, ">", ends[1])):
            shape = "|" if math.isfinite(end) else mark
            ax.plot([cap], [place], marker=shape, color=colour, markersize=9, zorder=3)
    ax.plot(
        [row["value"]],
        [place],
        marker="D" if best else "o",
        color=colour,
        markeredgecolor="black",
        markersize=8 if best else 6,
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

    found: list[Any] = []
    edge: dict[str, Any] = {"markeredgecolor": "black", "linewidth": 2.2}
    plain = [row for row in rows if row["action"] != estimate.action]
    if any(not row["excluded"] and not math.isnan(row["value"]) for row in plain):
        found.append(Line2D([], [], color="black", marker="o", label="action", **edge))
    if estimate.action is not None and rows:
        found.append(
            Line2D([], [], color=ORANGE, marker="D", label="recommended", **edge)
        )
    if any(row["excluded"] and not math.isnan(row["value"]) for row in plain):
        found.append(
            Line2D([], [], color=GREY, marker="o", label="excluded as best", **edge)
        )
    found.append(Line2D([], [], color=BLUE, linestyle="--", label="estimate of V"))
    if estimate.standard_error:
        usual = "usual error of V, not promised"
        found.append(Line2D([], [], color=BLUE, marker="|", linewidth=1.0, label=usual))
    if estimate.interval is not None:
        found.append(Patch(color=BLUE, alpha=0.12, label="interval of V, the promise"))
    if rows:
        found.append(Patch(color=LIGHT, label="policy (axis above)"))
    return found
