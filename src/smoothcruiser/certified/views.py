"""The displays of a memory of certified search: as text, as a table, as a picture.

This file leaves out the table (``certified.table``), the record of intervals
(``certified.history``) and the drawing (``smoothcruiser.plots``).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from smoothcruiser.certified.history import History
from smoothcruiser.certified.memory import Memory
from smoothcruiser.certified.position import QueryProgress
from smoothcruiser.certified.table import Table, table_of
from smoothcruiser.problem.problem import Problem
from smoothcruiser.records.frames import Framed, draw_object
from smoothcruiser.shown import brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from smoothcruiser.certified.search import Certified


class MemoryDisplays(Framed):
    """The displays of a memory; ``Certified`` is one."""

    frame_columns = Table.frame_columns
    problem: Problem
    delta: float
    memory: Memory
    num_calls: int
    history: History  # how intervals narrowed; not kept in a store

    def __repr__(self) -> str:
        shown_fields = {"problem": self.problem.name, "delta": self.delta}
        return brief("Certified", **shown_fields, calls=self.num_calls)

    @abstractmethod
    def _check_whole(self) -> None:
        """Refuse to continue a memory that an error has left unfinished."""

    def table(self) -> Table:
        """All states seen so far, with bounds that hold together (``table``)."""
        self._check_whole()
        return table_of(cast("Certified", self))

    def records(self) -> list[dict[str, Any]]:
        """One row per state seen, with its bounds (``table``)."""
        return self.table().records()

    def plot(self, ax: Axes | None = None, state: Any = None) -> Axes:
        """Draw how the interval of a state narrowed with the calls; return the Axes.

        It needs matplotlib (extra ``report``). A store does not keep this history.

        Args:
            ax: where to draw; by default a figure of its own.
            state: one that was queried; by default the last one.
        """
        return draw_object("certified", self, ax, state=state)

    def _remember(self, position: QueryProgress) -> None:
        """Add the interval of the query under way to the history."""
        self.history.add(
            position.root, self.num_calls, self.memory.interval(position.root)
        )
