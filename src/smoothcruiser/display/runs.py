"""The page of a store: its runs, one line each."""

from __future__ import annotations

import shlex
from typing import Any

from smoothcruiser.display.document import Block, Column, Grid, Page, Verbatim
from smoothcruiser.schedule.numbers import compact

COLUMNS = (
    Column("run", right=True),
    Column("problem", fit="below"),  # the user chose its name, and may need all of it
    Column("method"),
    Column("epsilon", right=True),
    Column("delta", right=True),
    Column("calls", right=True),
    Column("price", right=True),
    Column("status"),
)


def runs_page(store: str, runs: list[Any]) -> Page:
    """The runs of a store."""
    title = ("smoothcruiser runs", store)
    if not runs:
        no_runs = "  none yet: smoothcruiser plan … --store FILE keeps one"
        return Page(title, (Verbatim((no_runs,)),))
    run_rows = [run.to_dict() for run in runs]
    readable_rows = [row for row in run_rows if row["status"] != "damaged"]
    blocks: list[Block] = [Grid(COLUMNS, tuple(_cells(row) for row in readable_rows))]
    damage_lines = [f"  {row['why']}" for row in run_rows if row["status"] == "damaged"]
    if damage_lines:
        blocks.append(Verbatim(tuple(damage_lines), tight=True))
    unfinished_runs = [
        row["run"] for row in readable_rows if row["status"] == "unfinished"
    ]
    if unfinished_runs:
        resume_hint = (
            "Resume an unfinished run: smoothcruiser plan --resume "
            f"{unfinished_runs[-1]} --store {shlex.quote(store)}"
        )
        blocks.append(Verbatim((resume_hint,)))
    return Page(title, tuple(blocks))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(row["run"]),
        row["problem"],
        row["method"],
        _number(row["epsilon"], ".3g"),
        _number(row["delta"], "g"),
        compact(row["calls_done"]),
        _price(row),
        row["status"],
    )


def _number(value: Any, form: str) -> str:
    return "" if value is None else format(value, form)


def _price(row: dict[str, Any]) -> str:
    if row["log10_calls"] is None:
        return ""
    if row["num_calls"] is None:
        return f"10^{row['log10_calls']:.0f}"
    return compact(row["num_calls"])
