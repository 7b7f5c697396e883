"""A Schedule: its calls by level, and its price at other accuracies.

Prices may be whole numbers of any size, so they are drawn as log10 or as shares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    SMALL,
    axes_of,
    frame,
    legend_below,
    log10,
    powers_of_ten,
    title,
)
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, sparse_sampling
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.number_text import compact, short
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.schedule.prices import root_visits
from smoothcruiser.schedule.schedule import Schedule, own_calls

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 24  # levels that are shown; the cheaper ones are added up
FACTORS = tuple(2.0 ** (k / 2.0) for k in range(-4, 5))  # of epsilon: 1/4 to 4


def draw(schedule: Schedule, ax: Axes | None, against: str) -> Axes:
    """Draw the price by level, or against epsilon; return the Axes."""
    drawings: dict[str, Callable[[Schedule, Axes | None], Axes]] = {
        "level": by_level,
        "epsilon": against_epsilon,
    }
    if against not in drawings:
        raise InvalidInput(f"against is 'level' or 'epsilon', got {against!r}.")
    return drawings[against](schedule, ax)


def _promise(schedule: Schedule) -> str:
    is_exact = schedule.price_is_exact and not schedule.root.looks
    bound_words = "" if is_exact else "at most "
    return (
        f"{schedule.method}: {bound_words}{short(schedule.num_calls)} calls for "
        f"±{schedule.epsilon:g} with probability {max(0.0, 1.0 - schedule.delta):g}"
    )


# --- by level -----------------------------------------------------------------


def by_level(schedule: Schedule, ax: Axes | None) -> Axes:
    """A bar per level: its share of the oracle calls, with their number."""
    level_rows = _rows(schedule)
    ax = axes_of(ax, 6.4, 1.6 + 0.3 * len(level_rows))
    total_calls = max(1, sum(calls for _, calls in level_rows))
    shares = [100.0 * (calls / total_calls) for _, calls in level_rows]
    bars = ax.barh(range(len(level_rows)), shares, color=BLUE, height=0.7)
    ax.bar_label(
        bars,
        labels=[compact(calls) for _, calls in level_rows],
        padding=4,
        fontsize=SMALL,
        color=GREY,
    )
    ax.set_yticks(range(len(level_rows)), [name for name, _ in level_rows])
    ax.invert_yaxis()
    ax.set_xlim(0.0, 1.18 * max(shares, default=1.0) or 1.0)  # room for the labels
    ax.set_xlabel("share of the oracle calls, in %; the number beside is the calls")
    title(ax, _promise(schedule))
    frame(ax)
    ax.grid(visible=False, axis="y")
    return ax


def _rows(schedule: Schedule) -> list[tuple[str, int]]:
    """Names and calls of the root and of the levels that make some, the root first."""
    num_actions, root = schedule.facts.num_actions, schedule.root
    calls_by_level = own_calls(schedule.levels, root, num_actions)
    root_calls = root_visits(root, num_actions) if root.target == "q_values" else 0
    level_rows = [(f"root ×{compact(root.samples)}", root_calls)]
    levels = list(enumerate(zip(schedule.levels, calls_by_level, strict=True)))
    for i, (level, calls) in reversed(levels):
        if calls:
            kind = estimator_of(level.kind).word
            samples_text = f" ×{compact(level.samples)}" if level.samples else ""
            level_rows.append((f"{i} {kind}{samples_text}", calls))
    if len(level_rows) <= MOST_ROWS:
        return level_rows
    largest_rows = set(
        sorted(range(1, len(level_rows)), key=lambda i: -level_rows[i][1])[
            : MOST_ROWS - 2
        ]
    )
    small_calls = [
        level_rows[i][1] for i in range(1, len(level_rows)) if i not in largest_rows
    ]
    shown_rows = [
        row for i, row in enumerate(level_rows) if i == 0 or i in largest_rows
    ]
    return [*shown_rows, (f"{len(small_calls)} others", sum(small_calls))]


# --- against epsilon ----------------------------------------------------------


def _smoothcruiser_schedule(schedule: Schedule, epsilon: float) -> Schedule:
    promise: Any = {"delta": schedule.delta, "target": schedule.root.target}
    return compile_schedule(schedule.facts, epsilon=epsilon, **promise)


def _sparse_schedule(schedule: Schedule, epsilon: float) -> Schedule:
    promise: Any = {"delta": schedule.delta, "target": schedule.root.target}
    return sparse_sampling(schedule.facts, epsilon=epsilon, **promise)


def _paper_schedule(schedule: Schedule, epsilon: float) -> Schedule:
    if schedule.delta < 1.0:
        return paper_schedule(schedule.facts, epsilon=epsilon, delta=schedule.delta)
    delta_prime = schedule.delta_prime
    return paper_schedule(schedule.facts, epsilon=epsilon, delta_prime=delta_prime)


COMPILERS = {
    "smoothcruiser": _smoothcruiser_schedule,
    "sparse-sampling": _sparse_schedule,
    "paper": _paper_schedule,
}


def against_epsilon(schedule: Schedule, ax: Axes | None) -> Axes:
    """The price of the same method at other accuracies, compiled anew."""
    make = COMPILERS.get(schedule.method)
    if make is None:
        raise InvalidInput(
            "A price against epsilon is known for the methods "
            f"{', '.join(COMPILERS)}, got {schedule.method!r}; draw it by level."
        )
    points = {schedule.epsilon: schedule.num_calls}
    for factor in FACTORS:
        epsilon = factor * schedule.epsilon
        try:
            points.setdefault(epsilon, make(schedule, epsilon).num_calls)
        except SmoothcruiserError:  # too long a price, or nothing to sample
            continue
    ax = axes_of(ax)
    priced_points = sorted(points.items())
    ax.plot(
        [epsilon for epsilon, _ in priced_points],
        [log10(calls) for _, calls in priced_points],
        color=BLUE,
        marker="o",
        markersize=4,
        label=schedule.method,
    )
    ax.plot(
        [schedule.epsilon],
        [log10(schedule.num_calls)],
        color=ORANGE,
        marker="D",
        markeredgecolor="black",
        markersize=8,
        linestyle="none",
        label=f"this plan: ±{schedule.epsilon:g}, {compact(schedule.num_calls)} calls",
    )
    ax.set_xscale("log")
    _plain_ticks(ax, [epsilon for epsilon, _ in priced_points])
    powers_of_ten(ax.yaxis)
    ax.set_xlabel("accuracy ε, in units of reward")
    ax.set_ylabel("oracle calls")
    title(ax, _promise(schedule))
    frame(ax)
    legend_below(ax)
    return ax


def _plain_ticks(ax: Axes, places: list[float]) -> None:
    """Write a few accuracies as they are; a decade or less has no powers of ten."""
    from matplotlib.ticker import NullLocator

    tick_positions = places[:: max(1, math.ceil(len(places) / 6))]
    ax.set_xticks(tick_positions, [f"{x:.3g}" for x in tick_positions])
    ax.xaxis.set_minor_locator(NullLocator())
