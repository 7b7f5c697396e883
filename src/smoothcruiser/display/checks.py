"""Pages of checks: what was tested of a simulator or an operator, and what was found."""

from __future__ import annotations

from smoothcruiser.checks import Check
from smoothcruiser.display.document import Fields, Page, Sentence, styled
from smoothcruiser.operators.check.report import OperatorReport

MARKS = {"wrong": "WRONG"}


def check_page(check: Check) -> Page:
    """The findings about a simulator."""
    verdict = "usable" if check.ok else "not usable as it is"
    head = f"{check.problem}: {verdict} ({check.calls:,} calls)"
    rows = tuple(
        (MARKS.get(f.verdict, f.verdict), _tone(f"{f.name}: {f.sentence}", f.verdict))
        for f in check.findings
    )
    return Page((), (Fields(rows, caption=styled(head, "strong")),))


def _tone(text: str, verdict: str) -> Sentence:
    return text if verdict == "ok" else styled(text, "warning")


def operator_page(report: OperatorReport) -> Page:
    """The conditions on an operator, and where those that fail do so."""
    head = (
        f"{report.operator} over {report.num_actions} actions, {report.points} points: "
        f"{'all hold' if report.ok else 'FAILS'}"
    )
    rows = tuple(
        (
            f"{'ok' if condition.holds else 'FAIL':<4}  {condition.name}",
            condition.requirement
            if condition.holds
            else styled(condition.sentence, "warning"),
        )
        for condition in report.conditions
    )
    return Page((), (Fields(rows, caption=styled(head, "strong")),))
