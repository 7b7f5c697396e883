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
    styled,
)
from smoothcruiser.display.many import USUAL_ERROR
from smoothcruiser.errors import printable
from smoothcruiser.schedule.numbers import up

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
    least = {"error": bound, "action_regret": 2.0 * bound, "policy_regret": 2.0 * bound}
    means = [m for m in comparison.means() if only is None or m["budget"] == only]
    usual = any(row["standard_error"] for row in means)
    shown = [x for x in COLUMNS if usual or x[0] != "standard_error"]
    rows = tuple(
        (
            row["method"],
            *(number(row[name], least.get(name, 0.0)) for name, _ in shown),
            f"{row['num_calls']:,.0f}",
            f"{row['seconds']:.3f}",
        )
        for row in means
        if row["runs"]
    )
    numbers = (*(title for _, title in shown), "calls", "seconds")
    columns = (Column(title, right=True) for title in numbers)
    table = Grid((Column("planner", fit="cut"), *columns), rows, indent=0)
    name = printable(comparison.problem, keep="")
    head = f"{name}, state {state_text(comparison.state)}"
    repeats = comparison.repeats
    runs = f"means of {repeats} run{'s' if repeats > 1 else ''}"
    runs += f"; the {USUAL_ERROR} is that of one run, and not promised" if usual else ""
    blocks: list[Block] = [
        Paragraph(styled(head, "strong")),
        Paragraph(f"{_known(comparison)}; {runs}", tight=True),
        table,
        *_notes(comparison, means),
    ]
    if comparison.not_run:
        blocks.append(Paragraph(_stopped(comparison.not_run)))
    return Page((), tuple(blocks))


def _known(comparison: Comparison) -> str:
    truth = comparison.truth
    if truth is None:
        return "no exact value is known"
    exact = f"exact value {truth.value:.6g} ± {up(truth.bound, 1)}"
    return f"{exact}; error is the distance to it"


def _notes(comparison: Comparison, means: list[dict[str, Any]]) -> list[Block]:
    """Who estimates another value, and why some planners have no row."""
    label = comparison.operator
    others: dict[str, dict[str, None]] = {}
    notes: list[str] = []
    for row in means:
        if row["note"]:
            some = f" in {row['failed']} of {comparison.repeats} runs"
            notes.append(
                f"{row['method']}{some if row['runs'] else ''}: "
                f"{row['note'].rstrip('.')}."
            )
        if row["runs"] and row["estimates"] != label:
            others.setdefault(row["estimates"], {})[row["method"]] = None
    if others:
        whose = "; ".join(
            f"{', '.join(names)} that of {other}" for other, names in others.items()
        )
        notes.insert(
            0,
            f"Not all estimate V, the value of {label}: {whose}. Their error has that "
            "difference in it; regrets compare.",
        )
    return [Paragraph(note, tight=i > 0) for i, note in enumerate(notes)]


def number(value: float | None, least: float = 0.0) -> str:
    """A number; one that cannot be told from 0 because it is known up to
    ``least`` only is shown as that.
    """
    if value is None:
        return "-"
    return f"≤ {up(least, 1)}" if 0.0 < least >= abs(value) else f"{value:.4g}"


def _stopped(cut: Sequence[NotRun]) -> str:
    """What Ctrl-C left out of the table, by planner."""
    counts = Counter(job.method for job in cut)
    listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    return f"Stopped by hand; runs that were cut, by planner: {listed}."
