"""Answers about many states on a terminal: one row for each, and what they share."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from smoothcruiser.errors import printable
from smoothcruiser.methods.estimates import Estimates
from smoothcruiser.problem.problem import Problem
from smoothcruiser.display.answers import digits_of
from smoothcruiser.display.console import Fields, fields, indented, put, title
from smoothcruiser.schedule.numbers import duration
from smoothcruiser.schedule.text import describe_facts


def show_estimates(out: Console, problem: Problem, answers: Estimates) -> None:
    """A table of the answers, what they cost together, and how sure they are."""
    count = len(answers)
    states = f"{count:,} {'state' if count == 1 else 'states'}"
    title(out, "smoothcruiser plan", problem.name, states)
    put(out, fields([("problem", describe_facts(problem.facts))]))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("state", "value", "interval", "action", "calls"):
        table.add_column(name, justify="right")
    for answer in answers:
        digits, box = digits_of(answer), answer.interval
        table.add_row(
            Text(printable(f"{answer.state!r:.40}", keep="")),
            f"{answer.value:.{digits}f}",
            "" if box is None else Text(f"[{box[0]:.{digits}f}, {box[1]:.{digits}f}]"),
            "" if answer.action is None else str(answer.action),
            f"{answer.num_calls:,}",
        )
    out.print()
    if len(answers):
        put(out, indented(table))
        out.print()
    rows: Fields = [
        ("calls", f"{answers.num_calls:,} oracle calls, counted"),
        ("time", duration(answers.seconds)),
        ("run", f"method {answers.method}"),
    ]
    if answers.delta is not None:
        sure = f"all intervals hold together with probability {1 - answers.delta:g}"
        rows.insert(0, ("promise", sure))
    each = {note: None for answer in answers for note in answer.notes}
    own = [note for note in each if all(note in x.notes for x in answers)]
    put(out, fields(rows + [("note", note) for note in (*answers.notes, *own)]))
