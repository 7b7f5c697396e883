"""Colours, figures and axes of large numbers, shared by all pictures.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; a shape, a dash
or a text repeats the message of every colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import printable, text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#222222"),
)
GREY, LIGHT = "#666666", "#d9d9d9"
CYCLE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)
MARKERS = "osD^vP*X"
DASHES = ("-", "--", "-.", ":")
LONGEST = 60  # characters of a name in a title
SMALL = 8  # points, of notes and legends
BELOW = -0.5  # inches from the axis to the legend: room for ticks and their label


def axes_of(ax: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """The caller's Axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    new_axes: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return new_axes


def units_of_value(minimize: bool) -> str:
    """The label of an axis of V, which is a cost where it is minimized."""
    return "V, the lowest cost" if minimize else "V, in units of reward"


def title(ax: Axes, *lines: str) -> None:
    """Put a title above, one line each; dollar signs are no formulas."""
    text = "\n".join(line for line in lines if line)
    ax.set_title(text, fontsize=10, loc="left", parse_math=False)


def shorten_name(name: Any, longest: int = LONGEST) -> str:
    """A name of the user's in a title: printable, and not too long."""
    text = printable(name if isinstance(name, str) else text_of(name), keep="")
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def legend_below(
    ax: Axes, handles: Iterable[Any] | None = None, columns: int = 4
) -> None:
    """Put the legend under the axes, where it covers nothing."""
    legend_options: dict[str, Any] = (
        {} if handles is None else {"handles": list(handles)}
    )
    legend_handles = (
        ax.get_legend_handles_labels()[0]
        if handles is None
        else legend_options["handles"]
    )
    if legend_handles:
        from matplotlib.transforms import ScaledTranslation

        inches = ax.figure.dpi_scale_trans
        ax.legend(
            **legend_options,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + ScaledTranslation(0.0, BELOW, inches),
            ncols=min(columns, len(legend_handles)),
            fontsize=SMALL,
            frameon=False,
        )


def powers_of_ten(axis: Any) -> None:
    """Label an axis of log10 values with the numbers themselves: 10^3."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=2))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"$10^{{{x:g}}}$"))


def log10(count: int) -> float:
    """The log10 of a whole number of any size; of 0, that of 1."""
    return math.log10(max(1, count))


def frame(ax: Axes) -> None:
    """Leave out the lines above and at the right, and show a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=LIGHT, linewidth=0.6)
    ax.set_axisbelow(True)
