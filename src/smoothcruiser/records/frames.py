"""Objects that go to tables (``to_frame``) and to pictures (``plot``).

Both need packages that not everybody has: pandas, without which a table is a list of
dicts, and matplotlib (extra ``report``), without which there is no picture. They are
imported where they are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from smoothcruiser.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Framed(ABC):
    """An object that is a table: some rows, each with the same columns."""

    frame_columns: ClassVar[tuple[str, ...]]

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """The rows as dicts, in order; the keys are the columns."""

    def frame_attrs(self) -> dict[str, Any]:
        """Facts of the whole table: ``attrs`` of the DataFrame."""
        return {}

    def to_frame(self) -> Any:
        """A pandas DataFrame of the rows; ``records()`` where pandas is not installed."""
        record_rows = self.records()
        try:
            import pandas
        except ImportError:
            return record_rows
        column_names = list(record_rows[0]) if record_rows else list(self.frame_columns)
        frame = pandas.DataFrame.from_records(record_rows, columns=column_names)
        frame.attrs.update(self.frame_attrs())
        return frame


def draw_object(drawing: str, subject: Any, ax: Axes | None, **options: Any) -> Axes:
    """Draw an object by a module of ``smoothcruiser.plots``, and return the Axes.

    Args:
        drawing: the name of a module there; its function ``draw`` draws.
        subject: the object.
        ax: where to draw; by default a figure of its own.
        **options: options of the drawing.
    """
    try:
        from matplotlib import axes  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "plot needs matplotlib; install it with: "
            "pip install 'smoothcruiser[report]'."
        ) from None
    module = import_module(f"smoothcruiser.plots.{drawing}")
    drawn_axes: Axes = module.draw(subject, ax, **options)
    return drawn_axes
