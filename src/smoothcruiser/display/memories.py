"""Pages of a memory of certified search: its queries, and a table of its states."""

from __future__ import annotations

from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.table import KeptTable, Row, Table, queried
from smoothcruiser.display.answers import state_text
from smoothcruiser.display.document import Block, Column, Fields, Grid, Labelled, Page
from smoothcruiser.display.many import MOST_ROWS, answers_grid, joint_promise
from smoothcruiser.schedule.numbers import bounds, counts
from smoothcruiser.schedule.text import BOUND_NAMES

DIGITS = 3  # decimals of the bounds in a table of states


def certified_page(search: Certified) -> Page:
    """The states seen, the calls, and what is known where it was asked."""
    memory, delta = search.memory, 0.0 if search.exact else search.delta
    asked = queried(search)
    pairs = int((memory.graph.pairs["total"][: memory.num_pairs] > 0).sum())
    met = (
        f"{counts(max(0, memory.num_nodes - 1), 'state')}, {counts(pairs, 'pair')} "
        f"(state, action) and {counts(memory.num_entries, 'outcome')} seen"
    )
    made = f"{search.num_calls - search.num_rows:,} oracle calls, counted"
    if search.num_rows:
        made += f"; {counts(search.num_rows, 'row')} of outcomes= read"
    word = search.bound.word
    rows: list[Labelled] = [
        ("promise", joint_promise(asked, delta)),
        ("memory", met),
        ("calls", made),
        ("run", f"bound {BOUND_NAMES.get(word, word)}, seed {search.seed}"),
    ]
    if search.fault is not None:
        rows.append(("fault", f"left unfinished by an error: {search.fault}"))
    rows += [("note", note) for note in search.notes]
    if not asked and search.fault is None:
        rows.append(("note", "No query so far: ask query(state, epsilon=…)."))
    table: tuple[Block, ...] = ()
    if asked:
        table = (answers_grid(asked, MOST_ROWS),)
    title = ("Certified", search.problem.name, f"{len(asked):,} states asked about")
    if len(asked) == 1:
        title = (*title[:2], "1 state asked about")
    return Page(title, (*table, Fields(tuple(rows), heading="Run")))


def table_page(table: Table | KeptTable) -> Page:
    """The first states of a table, in the order in which they were met."""
    shown = table[:MOST_ROWS]
    horizon = any(row.remaining is not None for row in shown)
    plain = all(isinstance(row.state, int) for row in shown)
    columns = [Column("state", right=plain, fit="cut")]
    columns += [Column("steps left", right=True)] if horizon else []
    names = ("value", "interval", "action", "samples")
    columns += [
        Column(name, right=True, fit="cut" if name == "action" else "whole")
        for name in names
    ]
    left = len(table) - len(shown)
    grid = Grid(
        tuple(columns),
        tuple(_cells(row, horizon) for row in shown),
        more=f"… {counts(left, 'more state')}" if left else "",
    )
    sure = f"all intervals hold together with probability {table.confidence:g}"
    rows = (
        ("promise", sure),
        ("calls", f"{table.num_calls:,} oracle calls and rows read, counted"),
    )
    problem = table.problem if isinstance(table, KeptTable) else table.problem.name
    title = ("Table", problem, counts(len(table), "state"))
    return Page(title, (grid, Fields(rows)))


def _cells(row: Row, horizon: bool) -> tuple[str, ...]:
    return (
        state_text(row.state),
        *([str(row.remaining)] if horizon else []),
        f"{row.value:.{DIGITS}f}",
        bounds(*row.interval, DIGITS),
        row.label or str(row.action),
        f"{sum(row.samples):,}",
    )
