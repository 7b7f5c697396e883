"""Pages of a memory of certified search: its queries, and a table of its states."""

from __future__ import annotations

from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.table import KeptTable, Row, Table, queried_estimates
from smoothcruiser.display.answers import state_text
from smoothcruiser.display.document import Block, Column, Fields, Grid, Labelled, Page
from smoothcruiser.display.many import MOST_ROWS, answers_grid, joint_promise
from smoothcruiser.schedule.numbers import bounds, count_noun
from smoothcruiser.schedule.text import BOUND_NAMES

DIGITS = 3  # decimals of the bounds in a table of states


def certified_page(search: Certified) -> Page:
    """The states seen, the calls, and the answers at the queried states."""
    memory, delta = search.memory, 0.0 if search.exact else search.delta
    queried_answers = queried_estimates(search)
    num_pairs = int((memory.graph.pairs["total"][: memory.num_pairs] > 0).sum())
    memory_text = (
        f"{count_noun(max(0, memory.num_nodes - 1), 'state')}, {count_noun(num_pairs, 'pair')} "
        f"(state, action) and {count_noun(memory.num_entries, 'outcome')} seen"
    )
    calls_text = f"{search.num_calls - search.num_rows:,} oracle calls, counted"
    if search.num_rows:
        calls_text += f"; {count_noun(search.num_rows, 'row')} of outcomes= read"
    bound_word = search.bound.word
    field_rows: list[Labelled] = [
        ("promise", joint_promise(queried_answers, delta)),
        ("memory", memory_text),
        ("calls", calls_text),
        ("run", f"bound {BOUND_NAMES.get(bound_word, bound_word)}, seed {search.seed}"),
    ]
    if search.fault is not None:
        field_rows.append(("fault", f"left unfinished by an error: {search.fault}"))
    field_rows += [("note", note) for note in search.notes]
    if not queried_answers and search.fault is None:
        field_rows.append(("note", "No query so far: ask query(state, epsilon=…)."))
    answer_blocks: tuple[Block, ...] = ()
    if queried_answers:
        answer_blocks = (answers_grid(queried_answers, MOST_ROWS),)
    title = (
        "Certified",
        search.problem.name,
        f"{len(queried_answers):,} states asked about",
    )
    if len(queried_answers) == 1:
        title = (*title[:2], "1 state asked about")
    return Page(title, (*answer_blocks, Fields(tuple(field_rows), heading="Run")))


def table_page(table: Table | KeptTable) -> Page:
    """The first states of a table, in the order in which they were met."""
    listed_rows = table[:MOST_ROWS]
    has_horizon = any(row.remaining is not None for row in listed_rows)
    has_integer_states = all(isinstance(row.state, int) for row in listed_rows)
    columns = [Column("state", right=has_integer_states, fit="cut")]
    columns += [Column("steps left", right=True)] if has_horizon else []
    number_columns = ("value", "interval", "action", "samples")
    columns += [
        Column(name, right=True, fit="cut" if name == "action" else "whole")
        for name in number_columns
    ]
    num_omitted = len(table) - len(listed_rows)
    grid = Grid(
        tuple(columns),
        tuple(_cells(row, has_horizon) for row in listed_rows),
        more=f"… {count_noun(num_omitted, 'more state')}" if num_omitted else "",
    )
    promise_text = f"all intervals hold together with probability {table.confidence:g}"
    field_rows = (
        ("promise", promise_text),
        ("calls", f"{table.num_calls:,} oracle calls and rows read, counted"),
    )
    problem_name = table.problem if isinstance(table, KeptTable) else table.problem.name
    title = ("Table", problem_name, count_noun(len(table), "state"))
    return Page(title, (grid, Fields(field_rows)))


def _cells(row: Row, horizon: bool) -> tuple[str, ...]:
    return (
        state_text(row.state),
        *([str(row.remaining)] if horizon else []),
        f"{row.value:.{DIGITS}f}",
        bounds(*row.interval, DIGITS),
        row.label or str(row.action),
        f"{sum(row.samples):,}",
    )
