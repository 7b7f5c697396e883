"""A Comparison: a curve per planner against the calls that it made.

A point is the mean over seeds at one budget, the shade is the range over seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoothcruiser.comparison import Comparison, summaries
from smoothcruiser.errors import InvalidInput, choose_word
from smoothcruiser.plots.style import (
    CYCLE,
    DASHES,
    GREY,
    MARKERS,
    axes_of,
    frame,
    legend_below,
    shorten_name,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "error": "error |value − V|",
    "policy_regret": "regret of the policy",
    "action_regret": "regret of the action",
    "value": "value",
}
ORDERS = 30.0  # a larger ratio of errors is drawn on a logarithmic scale


def draw(comparison: Comparison, ax: Axes | None, of: str) -> Axes:
    """Draw the curves and return the Axes."""
    if of not in LABELS:
        raise InvalidInput(f"of is one of {', '.join(LABELS)}, got {of!r}.")
    means = [mean for mean in summaries(comparison.runs) if mean["runs"]]
    if of == "error" and comparison.truth is None:
        of = "value"
    ax = axes_of(ax)
    methods = list(dict.fromkeys(mean["method"] for mean in means))
    for number, method in enumerate(methods):
        points = [
            (mean["num_calls"], mean[of], mean[f"{of}_range"])
            for mean in means
            if mean["method"] == method and mean[of] is not None
        ]
        if points:
            _curve(ax, number, method, points)
    truth = comparison.truth
    if of == "value" and truth is not None:
        ax.axhline(
            truth.value,
            color=GREY,
            linestyle=":",
            label=f"exact {choose_word('value', comparison.minimize)}",
        )
    ax.set_xscale("log")
    if of != "value":
        _scale(ax, [mean[of] for mean in means if mean[of] is not None])
    ax.set_xlabel("oracle calls")
    label = LABELS[of]
    if comparison.minimize:
        label = label.replace("value", "cost")
    ax.set_ylabel(label if comparison.minimize else f"{label}, in units of reward")
    title(ax, shorten_name(comparison.problem))
    frame(ax)
    legend_below(ax)
    return ax


def _curve(ax: Axes, number: int, method: str, points: list[tuple[Any, ...]]) -> None:
    call_counts, mean_values, ranges = zip(*points, strict=True)
    # an exact answer makes no call
    call_counts = tuple(max(1.0, count) for count in call_counts)
    line_colour = CYCLE[number % len(CYCLE)]
    ax.plot(
        call_counts,
        mean_values,
        color=line_colour,
        linestyle=DASHES[number // len(CYCLE) % len(DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        label=method,
    )
    lower_ends, upper_ends = zip(*ranges, strict=True)
    if lower_ends != upper_ends:
        ax.fill_between(
            call_counts,
            lower_ends,
            upper_ends,
            color=line_colour,
            alpha=0.12,
            linewidth=0,
        )


def _scale(ax: Axes, errors: list[float]) -> None:
    """A logarithmic axis where errors differ by much, else one that begins at 0."""
    smallest_error = min(errors, default=0.0)
    if smallest_error > 0.0 and max(errors) > ORDERS * smallest_error:
        ax.set_yscale("log")
    elif smallest_error >= 0.0:
        ax.set_ylim(bottom=0.0)
