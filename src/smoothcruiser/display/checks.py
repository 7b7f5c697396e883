"""Pages of checks: the tests of a simulator or an operator, and their findings."""

from __future__ import annotations

from smoothcruiser.checks import Check
from smoothcruiser.display.document import Fields, Page, Sentence, style_sentence
from smoothcruiser.operators.check.report import OperatorReport

MARKS = {"wrong": "WRONG"}


def check_page(check: Check) -> Page:
    """The findings about a simulator."""
    verdict = "usable" if check.ok else "not usable as it is"
    caption_text = f"{check.problem}: {verdict} ({check.calls:,} calls)"
    field_rows = tuple(
        (MARKS.get(f.verdict, f.verdict), _tone(f"{f.name}: {f.sentence}", f.verdict))
        for f in check.findings
    )
    return Page(
        (), (Fields(field_rows, caption=style_sentence(caption_text, "strong")),)
    )


def _tone(text: str, verdict: str) -> Sentence:
    return text if verdict == "ok" else style_sentence(text, "warning")


def operator_page(report: OperatorReport) -> Page:
    """The conditions on an operator, and the points at which some fail."""
    caption_text = (
        f"{report.operator} over {report.num_actions} actions, {report.points} points: "
        f"{'all hold' if report.ok else 'FAILS'}"
    )
    field_rows = tuple(
        (
            f"{'ok' if condition.holds else 'FAIL':<4}  {condition.name}",
            condition.requirement
            if condition.holds
            else style_sentence(condition.sentence, "warning"),
        )
        for condition in report.conditions
    )
    return Page(
        (), (Fields(field_rows, caption=style_sentence(caption_text, "strong")),)
    )
