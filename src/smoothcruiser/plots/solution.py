"""A Solution: values over a grid where there is one, else by state.

A cell of a grid has its value and the name of its most likely action. Colours are
matplotlib's viridis, whose lightness grows with the value: colour-blind readers and
printers see the same order. Values that are unknown are grey, infinite ones say so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput, described
from smoothcruiser.exact.solution import Solution
from smoothcruiser.plots.style import (
    BLUE,
    LIGHT,
    SMALL,
    axes_of,
    frame,
    shortened,
    title,
)
from smoothcruiser.schedule.numbers import up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from smoothcruiser.problem.tabular import Floats

MOST_TEXTS = 12  # rows and columns of a grid whose cells have texts
LONGEST_LABEL = 9  # letters of an action in a cell
MOST_NAMES = 24  # states that are named below the axis


def draw(solution: Solution, ax: Axes | None, shape: Any) -> Axes:
    """Draw the values and return the Axes."""
    cells = _cells(solution, shape)
    return _by_state(solution, ax) if cells is None else _grid(solution, ax, cells)


def _cells(solution: Solution, shape: Any) -> Any:
    """For each place of a grid the row of the solution there, -1 for none.

    None where there is no grid.
    """
    if shape is None and solution.grid is None and solution.states is not None:
        return _of_pairs(solution.states)
    shape = solution.grid if shape is None else shape
    if shape is None:
        return None
    try:
        rows, columns = map(int, shape)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"shape is (rows, columns), got {described(shape)}."
        ) from None
    if not (rows >= 1 and columns >= 1 and rows * columns <= len(solution.values)):
        raise InvalidInput(
            f"shape is (rows, columns) of at most {len(solution.values):,} states, got "
            f"{shape!r}."
        )
    return np.arange(rows * columns).reshape(rows, columns)


def _of_pairs(states: tuple[Any, ...]) -> Any:
    """A grid of states that are pairs of whole numbers, (row, column)."""
    whole = int | np.integer
    pairs = all(
        isinstance(state, tuple)
        and len(state) == 2
        and all(isinstance(x, whole) and not isinstance(x, bool) for x in state)
        for state in states
    )
    if not pairs or not states:
        return None
    places = np.array(states, dtype=np.int64)
    first, last = places.min(axis=0), places.max(axis=0)
    size = last - first + 1
    if size.prod() > 4 * len(states) + 16:  # mostly empty: no grid
        return None
    cells = np.full(tuple(size), -1)
    cells[tuple((places - first).T)] = np.arange(len(states))
    return cells


def _grid(solution: Solution, ax: Axes | None, cells: Any) -> Axes:
    from matplotlib import colormaps

    rows, columns = cells.shape
    ax = axes_of(ax, *_inches(rows, columns))
    values: Floats = np.where(cells >= 0, solution.values[cells], np.nan)
    shown = np.ma.masked_invalid(values)
    colours = colormaps["viridis"].with_extremes(bad=LIGHT)
    picture = ax.imshow(shown, cmap=colours)
    bar = ax.figure.colorbar(picture, ax=ax, shrink=0.85)
    bar.set_label("V, in units of reward")
    if max(rows, columns) <= MOST_TEXTS:
        _texts(ax, solution, cells, picture)
    ax.set_xticks(range(columns) if columns <= MOST_NAMES else [])
    ax.set_yticks(range(rows) if rows <= MOST_NAMES else [])
    ax.set_xlabel("column")
    ax.set_ylabel("row")
    ax.tick_params(length=0)
    below = "" if max(rows, columns) > MOST_TEXTS else "; below, the likeliest action"
    title(ax, shortened(solution.problem or "solution"), f"exact values{below}")
    return ax


def _inches(rows: int, columns: int) -> tuple[float, float]:
    cell = min(0.75, 8.0 / max(rows, columns))
    return max(4.2, cell * columns + 1.8), max(3.4, cell * rows + 1.2)


def _texts(ax: Axes, solution: Solution, cells: Any, picture: Any) -> None:
    """The value and the action of each cell, dark on light cells and light on dark."""
    policy = np.nan_to_num(solution.policy)
    for row, column in np.argwhere(cells >= 0):
        state = int(cells[row, column])
        value = float(solution.values[state])
        text = f"{value:.3g}" if not math.isinf(value) else ("∞" if value > 0 else "−∞")
        if math.isnan(value):
            text = "?"
        best = int(policy[state].argmax())
        name = shortened(solution.label(best), LONGEST_LABEL)
        action = f"\n{name}" if policy[state].any() else ""
        light = math.isfinite(value) and picture.norm(value) < 0.6
        ax.text(
            column,
            row,
            text + action,
            ha="center",
            va="center",
            fontsize=SMALL,
            color="white" if light else "black",
            parse_math=False,
        )


def _by_state(solution: Solution, ax: Axes | None) -> Axes:
    """A dot per state; a cross at the edge where the value is infinite."""
    values, count = solution.values, len(solution.values)
    ax = axes_of(ax)
    places = np.arange(count)
    finite = np.isfinite(values)
    few = count <= MOST_NAMES
    if few:
        ax.vlines(places[finite], 0.0, values[finite], color=LIGHT, linewidth=3)
    size = 6 if few else 3
    ax.plot(
        places[finite],
        values[finite],
        color=BLUE,
        marker="o",
        markersize=size,
        linestyle="none",
    )
    for place in places[~finite]:
        ax.annotate(
            "?" if math.isnan(values[place]) else ("∞" if values[place] > 0 else "−∞"),
            (place, 0.97 if values[place] > 0 else 0.03),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="center",
        )
    if few:
        states = range(count) if solution.states is None else solution.states
        names = [shortened(state) for state in states]
        long = max(map(len, names), default=0) > 3
        ax.set_xticks(places, names, rotation=90 if long else 0, parse_math=False)
    ax.set_xlim(-0.6, count - 0.4)
    ax.set_xlabel("state" if few or solution.states is None else "state, by its number")
    ax.set_ylabel("V, in units of reward")
    within = f"exact values, each within {up(solution.residual_bound, 1)}"
    title(ax, shortened(solution.problem or "solution"), within)
    frame(ax)
    ax.grid(visible=False, axis="x")
    return ax
