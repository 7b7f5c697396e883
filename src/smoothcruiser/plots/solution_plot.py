"""A Solution: values over a grid where there is one, else by state.

A cell of a grid has its value and the name of its most likely action. Colours are
matplotlib's viridis. Their lightness grows with the value: colour-blind readers and
printers see the same order. Values that are unknown are grey, infinite ones say so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_value
from smoothcruiser.exact.solution import Solution
from smoothcruiser.plots.style import (
    BLUE,
    LIGHT,
    SMALL,
    axes_of,
    frame,
    shorten_name,
    title,
    units_of_value,
)
from smoothcruiser.schedule.number_text import format_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from smoothcruiser.problem.model.tabular import Floats

MOST_TEXTS = 12  # rows and columns of a grid with texts in its cells
LONGEST_LABEL = 9  # letters of an action in a cell
MOST_NAMES = 24  # states that are named below the axis


def draw(solution: Solution, ax: Axes | None, shape: Any) -> Axes:
    """Draw the values and return the Axes."""
    cells = _cells(solution, shape)
    return _by_state(solution, ax) if cells is None else _grid(solution, ax, cells)


def _cells(solution: Solution, shape: Any) -> Any:
    """The row of the solution in each cell of a grid, -1 where there is none.

    None is returned where there is no grid.
    """
    if shape is None and solution.grid is None and solution.states is not None:
        return _of_pairs(solution.states)
    shape = solution.grid if shape is None else shape
    if shape is None:
        return None
    try:
        num_rows, num_columns = map(int, shape)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"shape is (rows, columns), got {describe_value(shape)}."
        ) from None
    if not (
        num_rows >= 1
        and num_columns >= 1
        and num_rows * num_columns <= len(solution.values)
    ):
        raise InvalidInput(
            f"shape is (rows, columns) of at most {len(solution.values):,} states, got "
            f"{shape!r}."
        )
    return np.arange(num_rows * num_columns).reshape(num_rows, num_columns)


def _of_pairs(states: tuple[Any, ...]) -> Any:
    """A grid of states that are pairs of whole numbers, (row, column)."""
    integer_types = int | np.integer
    are_pairs = all(
        isinstance(state, tuple)
        and len(state) == 2
        and all(
            isinstance(x, integer_types) and not isinstance(x, bool) for x in state
        )
        for state in states
    )
    if not are_pairs or not states:
        return None
    coordinates = np.array(states, dtype=np.int64)
    lowest_cell, highest_cell = coordinates.min(axis=0), coordinates.max(axis=0)
    grid_shape = highest_cell - lowest_cell + 1
    if grid_shape.prod() > 4 * len(states) + 16:  # mostly empty: no grid
        return None
    cells = np.full(tuple(grid_shape), -1)
    cells[tuple((coordinates - lowest_cell).T)] = np.arange(len(states))
    return cells


def _grid(solution: Solution, ax: Axes | None, cells: Any) -> Axes:
    from matplotlib import colormaps

    num_rows, num_columns = cells.shape
    ax = axes_of(ax, *_inches(num_rows, num_columns))
    cell_values: Floats = np.where(cells >= 0, solution.values[cells], np.nan)
    masked_values = np.ma.masked_invalid(cell_values)
    colours = colormaps["viridis"].with_extremes(bad=LIGHT)
    picture = ax.imshow(masked_values, cmap=colours)
    colour_bar = ax.figure.colorbar(picture, ax=ax, shrink=0.85)
    colour_bar.set_label(units_of_value(solution.minimize))
    if max(num_rows, num_columns) <= MOST_TEXTS:
        _texts(ax, solution, cells, picture)
    ax.set_xticks(range(num_columns) if num_columns <= MOST_NAMES else [])
    ax.set_yticks(range(num_rows) if num_rows <= MOST_NAMES else [])
    ax.set_xlabel("column")
    ax.set_ylabel("row")
    ax.tick_params(length=0)
    action_note = (
        ""
        if max(num_rows, num_columns) > MOST_TEXTS
        else "; below, the likeliest action"
    )
    title(
        ax, shorten_name(solution.problem or "solution"), f"exact values{action_note}"
    )
    return ax


def _inches(rows: int, columns: int) -> tuple[float, float]:
    cell_inches = min(0.75, 8.0 / max(rows, columns))
    return max(4.2, cell_inches * columns + 1.8), max(3.4, cell_inches * rows + 1.2)


def _texts(ax: Axes, solution: Solution, cells: Any, picture: Any) -> None:
    """The value and the action of each cell, dark on light cells and light on dark."""
    policy = np.nan_to_num(solution.policy)
    for row, column in np.argwhere(cells >= 0):
        state = int(cells[row, column])
        value = float(solution.values[state])
        text = (
            f"{value:.3g}" if not math.isinf(value) else ("∞" if value > 0 else "−∞")
        )
        if math.isnan(value):
            text = "?"
        best_action = int(policy[state].argmax())
        name = shorten_name(solution.label(best_action), LONGEST_LABEL)
        action_text = f"\n{name}" if policy[state].any() else ""
        is_dark_cell = math.isfinite(value) and picture.norm(value) < 0.6
        ax.text(
            column,
            row,
            text + action_text,
            ha="center",
            va="center",
            fontsize=SMALL,
            color="white" if is_dark_cell else "black",
            parse_math=False,
        )


def _by_state(solution: Solution, ax: Axes | None) -> Axes:
    """A dot per state; a cross at the edge where the value is infinite."""
    values, num_states = solution.values, len(solution.values)
    ax = axes_of(ax)
    state_positions = np.arange(num_states)
    finite = np.isfinite(values)
    has_few_states = num_states <= MOST_NAMES
    if has_few_states:
        ax.vlines(
            state_positions[finite], 0.0, values[finite], color=LIGHT, linewidth=3
        )
    marker_size = 6 if has_few_states else 3
    ax.plot(
        state_positions[finite],
        values[finite],
        color=BLUE,
        marker="o",
        markersize=marker_size,
        linestyle="none",
    )
    for position in state_positions[~finite]:
        ax.annotate(
            "?"
            if math.isnan(values[position])
            else ("∞" if values[position] > 0 else "−∞"),
            (position, 0.97 if values[position] > 0 else 0.03),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="center",
        )
    if has_few_states:
        states = range(num_states) if solution.states is None else solution.states
        state_names = [shorten_name(state) for state in states]
        has_long_names = max(map(len, state_names), default=0) > 3
        ax.set_xticks(
            state_positions,
            state_names,
            rotation=90 if has_long_names else 0,
            parse_math=False,
        )
    ax.set_xlim(-0.6, num_states - 0.4)
    ax.set_xlabel(
        "state"
        if has_few_states or solution.states is None
        else "state, by its number"
    )
    ax.set_ylabel(units_of_value(solution.minimize))
    accuracy_note = (
        f"exact values, each within {format_bound(solution.residual_bound, 1)}"
    )
    title(ax, shorten_name(solution.problem or "solution"), accuracy_note)
    frame(ax)
    ax.grid(visible=False, axis="x")
    return ax
