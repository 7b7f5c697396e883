"""The page of answers about many states: one row for each, and what they share."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcruiser.display.answers import digits_of, state_text
from smoothcruiser.display.document import Block, Column, Fields, Grid, Labelled, Page
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods.estimates import Estimates
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.numbers import bounds, counts, duration, fixed, up
from smoothcruiser.schedule.text import describe_facts

USUAL_ERROR = "usual error"  # the title of the column of standard errors
MOST_ROWS = 60  # of a table in a notebook or a string; the command line shows all


def estimates_page(answers: Estimates) -> Page:
    """The answers of ``plan_many``, the first ``MOST_ROWS`` of them."""
    named = {answer.problem for answer in answers if answer.problem}
    title = ("Estimates", *sorted(named), counts(len(answers), "state"))
    return Page(title, _blocks(answers, MOST_ROWS))


def planned_page(problem: Problem, answers: Estimates) -> Page:
    """The same on the command line: all answers, and the problem."""
    title = ("smoothcruiser plan", problem.name, counts(len(answers), "state"))
    about = Fields((("problem", describe_facts(problem.facts)),))
    return Page(title, (about, *_blocks(answers, len(answers))))


def _blocks(answers: Estimates, most: int) -> tuple[Block, ...]:
    rows: list[Labelled] = [
        ("calls", f"{answers.num_calls:,} oracle calls, counted"),
        ("time", duration(answers.seconds)),
        ("run", f"method {answers.method}"),
    ]
    if answers.delta is not None:
        rows.insert(0, ("promise", joint_promise(answers, answers.delta)))
    each = {note: None for answer in answers for note in answer.notes}
    own = [note for note in each if all(note in x.notes for x in answers)]
    rows += [("note", note) for note in (*answers.notes, *own)]
    table = (answers_grid(answers, most),) if len(answers) else ()
    return (*table, Fields(tuple(rows), heading="Run"))


def joint_promise(answers: Sequence[Estimate], delta: float) -> str:
    """What is promised of all answers together, and what is not."""
    sure = f"all intervals hold together with probability {1.0 - delta:g}"
    usual = any(answer.standard_error for answer in answers)
    return f"{sure}; a {USUAL_ERROR} is not promised" if usual else sure


def answers_grid(answers: Sequence[Estimate], most: int) -> Grid:
    """A row for each of the first ``most`` answers: estimate, usual error, promise."""
    usual = any(answer.standard_error for answer in answers[:most])
    numbered = all(answer.labels is None for answer in answers[:most])
    plain = all(isinstance(answer.state, int) for answer in answers[:most])
    columns = (
        Column("state", right=plain, fit="cut"),
        Column("value", right=True),
        *([Column(USUAL_ERROR, right=True)] if usual else []),
        Column("interval", right=True),
        Column("action", right=numbered, fit="cut"),
        Column("calls", right=True),
    )
    left = max(0, len(answers) - most)
    more = f"… {counts(left, 'more state')}" if left else ""
    rows = tuple(_row(answer, usual) for answer in answers[:most])
    return Grid(columns, rows, more=more)


def _row(answer: Estimate, usual: bool) -> tuple[str, ...]:
    digits, box = digits_of(answer), answer.interval
    error = "" if not answer.standard_error else up(answer.standard_error)
    return (
        state_text(answer.state),
        fixed(answer.value, digits),
        *([error] if usual else []),
        "" if box is None else bounds(*box, digits),
        answer.action_label or "",
        f"{answer.num_calls:,}",
    )
