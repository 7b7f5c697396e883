"""The runs of a store on a terminal."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console
from rich.table import Table

from smoothcruiser.errors import printable
from smoothcruiser.display.console import indented, put, title
from smoothcruiser.schedule.numbers import compact

# (heading, whether its cells are numbers)
COLUMNS = (
    ("run", True),
    ("problem", False),
    ("method", False),
    ("epsilon", True),
    ("delta", True),
    ("calls", True),
    ("price", True),
    ("status", False),
)


def show_runs(out: Console, store: str, runs: list[Any]) -> None:
    """The runs of a store, one line each."""
    title(out, "smoothcruiser runs", store)
    if not runs:
        out.print("  none yet: smoothcruiser plan … --store FILE keeps one")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for heading, is_number in COLUMNS:
        justify: Any = "right" if is_number else "left"
        # Only the problem's name, which the user chose, may be folded.
        unfolded = heading != "problem"
        table.add_column(heading, justify=justify, no_wrap=unfolded, overflow="fold")
    rows = [run.to_dict() for run in runs]
    whole = [row for row in rows if row["status"] != "damaged"]
    for row in whole:
        table.add_row(
            str(row["run"]),
            printable(row["problem"], keep=""),
            row["method"],
            _number(row["epsilon"], ".3g"),
            _number(row["delta"], "g"),
            compact(row["calls_done"]),
            _price(row),
            row["status"],
        )
    put(out, indented(table))
    for row in rows:
        if row["status"] == "damaged":
            out.print(f"  {row['why']}", soft_wrap=True, markup=False)
    unfinished = [row["run"] for row in whole if row["status"] == "unfinished"]
    if unfinished:
        out.print(
            "\nResume an unfinished run: smoothcruiser plan --resume "
            f"{unfinished[-1]} --store {shlex.quote(store)}",
            soft_wrap=True,
        )


def _number(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def _price(row: dict[str, Any]) -> str:
    if row["log10_calls"] is None:
        return ""
    if row["num_calls"] is None:
        return f"10^{row['log10_calls']:.0f}"
    return compact(row["num_calls"])
