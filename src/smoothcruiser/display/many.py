"""The page of answers about many states: one row for each, and their joint promise."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcruiser.display.answers import digits_of, state_text
from smoothcruiser.display.document import Block, Column, Fields, Grid, Labelled, Page
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods.estimates import Estimates
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.numbers import (
    bounds,
    count_noun,
    duration,
    format_bound,
    format_decimals,
)
from smoothcruiser.schedule.text import describe_facts

USUAL_ERROR = "usual error"  # the title of the column of standard errors
MOST_ROWS = 60  # of a table in a notebook or a string; the command line shows all


def estimates_page(answers: Estimates) -> Page:
    """The answers of ``plan_many``, the first ``MOST_ROWS`` of them."""
    problem_names = {answer.problem for answer in answers if answer.problem}
    title = ("Estimates", *sorted(problem_names), count_noun(len(answers), "state"))
    return Page(title, _blocks(answers, MOST_ROWS))


def planned_page(problem: Problem, answers: Estimates) -> Page:
    """The same on the command line: all answers, and the problem."""
    title = ("smoothcruiser plan", problem.name, count_noun(len(answers), "state"))
    problem_block = Fields((("problem", describe_facts(problem.facts)),))
    return Page(title, (problem_block, *_blocks(answers, len(answers))))


def _blocks(answers: Estimates, max_rows: int) -> tuple[Block, ...]:
    field_rows: list[Labelled] = [
        ("calls", f"{answers.num_calls:,} oracle calls, counted"),
        ("time", duration(answers.seconds)),
        ("run", f"method {answers.method}"),
    ]
    if answers.delta is not None:
        field_rows.insert(0, ("promise", joint_promise(answers, answers.delta)))
    all_notes = {note: None for answer in answers for note in answer.notes}
    shared_notes = [note for note in all_notes if all(note in x.notes for x in answers)]
    field_rows += [("note", note) for note in (*answers.notes, *shared_notes)]
    table = (answers_grid(answers, max_rows),) if len(answers) else ()
    return (*table, Fields(tuple(field_rows), heading="Run"))


def joint_promise(answers: Sequence[Estimate], delta: float) -> str:
    """The joint promise of all answers, and the numbers outside it."""
    promise_text = f"all intervals hold together with probability {1.0 - delta:g}"
    has_usual_errors = any(answer.standard_error for answer in answers)
    return (
        f"{promise_text}; a {USUAL_ERROR} is not promised"
        if has_usual_errors
        else promise_text
    )


def answers_grid(answers: Sequence[Estimate], max_rows: int) -> Grid:
    """Rows of the first ``max_rows`` answers: estimate, usual error, promise."""
    has_usual_errors = any(answer.standard_error for answer in answers[:max_rows])
    has_numbered_actions = all(answer.labels is None for answer in answers[:max_rows])
    has_integer_states = all(
        isinstance(answer.state, int) for answer in answers[:max_rows]
    )
    columns = (
        Column("state", right=has_integer_states, fit="cut"),
        Column("value", right=True),
        *([Column(USUAL_ERROR, right=True)] if has_usual_errors else []),
        Column("interval", right=True),
        Column("action", right=has_numbered_actions, fit="cut"),
        Column("calls", right=True),
    )
    num_omitted = max(0, len(answers) - max_rows)
    omission_text = f"… {count_noun(num_omitted, 'more state')}" if num_omitted else ""
    grid_rows = tuple(_row(answer, has_usual_errors) for answer in answers[:max_rows])
    return Grid(columns, grid_rows, more=omission_text)


def _row(answer: Estimate, usual: bool) -> tuple[str, ...]:
    digits, interval = digits_of(answer), answer.interval
    error_text = (
        "" if not answer.standard_error else format_bound(answer.standard_error)
    )
    return (
        state_text(answer.state),
        format_decimals(answer.value, digits),
        *([error_text] if usual else []),
        "" if interval is None else bounds(*interval, digits),
        answer.action_label or "",
        f"{answer.num_calls:,}",
    )
