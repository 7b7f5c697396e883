"""The page of a comparison: planners with the same budget, beside the exact answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from smoothcruiser.comparison import Comparison, NotRun
from smoothcruiser.display.answers import state_text
from smoothcruiser.display.document import (
    Block,
    Column,
    Grid,
    Page,
    Paragraph,
    style_sentence,
)
from smoothcruiser.display.many import USUAL_ERROR
from smoothcruiser.errors import printable
from smoothcruiser.schedule.numbers import format_bound

COLUMNS = (
    ("value", "value"),
    ("standard_error", USUAL_ERROR),
    ("error", "error"),
    ("action_regret", "action regret"),
    ("policy_regret", "policy regret"),
)


def comparison_page(comparison: Comparison, only: int | None = None) -> Page:
    """A row for each planner and budget, means over seeds.

    ``only`` is the budget that is shown, by default every one.
    """
    truth = comparison.truth
    bound = 0.0 if truth is None else truth.bound
    error_floors = {
        "error": bound,
        "action_regret": 2.0 * bound,
        "policy_regret": 2.0 * bound,
    }
    means = [m for m in comparison.means() if only is None or m["budget"] == only]
    has_usual_errors = any(row["standard_error"] for row in means)
    shown_columns = [x for x in COLUMNS if has_usual_errors or x[0] != "standard_error"]
    table_rows = tuple(
        (
            row["method"],
            *(
                number(row[field], error_floors.get(field, 0.0))
                for field, _ in shown_columns
            ),
            f"{row['num_calls']:,.0f}",
            f"{row['seconds']:.3f}",
        )
        for row in means
        if row["runs"]
    )
    number_titles = (*(title for _, title in shown_columns), "calls", "seconds")
    columns = (Column(title, right=True) for title in number_titles)
    table = Grid((Column("planner", fit="cut"), *columns), table_rows, indent=0)
    problem_name = printable(comparison.problem, keep="")
    head_line = f"{problem_name}, state {state_text(comparison.state)}"
    repeats = comparison.repeats
    repeats_text = f"means of {repeats} run{'s' if repeats > 1 else ''}"
    repeats_text += (
        f"; the {USUAL_ERROR} is that of one run, and not promised"
        if has_usual_errors
        else ""
    )
    blocks: list[Block] = [
        Paragraph(style_sentence(head_line, "strong")),
        Paragraph(f"{_exact_value_text(comparison)}; {repeats_text}", tight=True),
        table,
        *_notes(comparison, means),
    ]
    if comparison.not_run:
        blocks.append(Paragraph(_interruption_text(comparison.not_run)))
    return Page((), tuple(blocks))


def _exact_value_text(comparison: Comparison) -> str:
    truth = comparison.truth
    if truth is None:
        return "no exact value is known"
    exact = f"exact value {truth.value:.6g} ± {format_bound(truth.bound, 1)}"
    return f"{exact}; error is the distance to it"


def _notes(comparison: Comparison, means: list[dict[str, Any]]) -> list[Block]:
    """Planners that estimate another value, and the reasons of missing rows."""
    operator_label = comparison.operator
    planners_by_operator: dict[str, dict[str, None]] = {}
    notes: list[str] = []
    for row in means:
        if row["note"]:
            runs_text = f" in {row['failed']} of {comparison.repeats} runs"
            notes.append(
                f"{row['method']}{runs_text if row['runs'] else ''}: "
                f"{row['note'].rstrip('.')}."
            )
        if row["runs"] and row["estimates"] != operator_label:
            planners_by_operator.setdefault(row["estimates"], {})[row["method"]] = None
    if planners_by_operator:
        other_values = "; ".join(
            f"{', '.join(planner_names)} that of {other_operator}"
            for other_operator, planner_names in planners_by_operator.items()
        )
        notes.insert(
            0,
            f"Not all estimate V, the value of {operator_label}: {other_values}. "
            "Their error has that difference in it; regrets compare.",
        )
    return [Paragraph(note, tight=i > 0) for i, note in enumerate(notes)]


def number(value: float | None, error_floor: float = 0.0) -> str:
    """A number as text, or ``≤ error_floor`` where the error cannot tell it from 0."""
    if value is None:
        return "-"
    return (
        f"≤ {format_bound(error_floor, 1)}"
        if 0.0 < error_floor >= abs(value)
        else f"{value:.4g}"
    )


def _interruption_text(cut: Sequence[NotRun]) -> str:
    """Runs that Ctrl-C left out of the table, by planner."""
    runs_by_planner = Counter(job.method for job in cut)
    planner_list = ", ".join(
        f"{name} ({count})" for name, count in runs_by_planner.items()
    )
    return f"Stopped by hand; runs that were cut, by planner: {planner_list}."
