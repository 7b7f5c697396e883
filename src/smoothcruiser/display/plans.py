"""Pages of plans: the promise, its price, and the price by other methods."""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.display.answer_pages import state_text
from smoothcruiser.display.document import (
    Block,
    Bullets,
    Column,
    Fields,
    Grid,
    Labelled,
    Page,
    Paragraph,
    Verbatim,
    style_sentence,
)
from smoothcruiser.display.price_text import Price
from smoothcruiser.displayable import Shown, page_of
from smoothcruiser.errors import choose_word
from smoothcruiser.methods.base import Prepared
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.control import Limits
from smoothcruiser.schedule.number_text import short
from smoothcruiser.schedule.relaxation import Relaxation
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.text import (
    KEY,
    describe_facts,
    describe_half_width,
    describe_price,
    describe_promise,
    describe_root,
    picture,
)

# the action of plan in place of a refusal, by the method that it would run
INSTEAD = {
    "exact": "would solve the model instead, 0 calls",
    "certified": "would answer by certified search instead",
}


# --- objects ------------------------------------------------------------------


def schedule_page(schedule: Schedule) -> Page:
    """A schedule: its promise, its price, and its levels as a tree."""
    rows = (
        ("problem", describe_facts(schedule.facts)),
        *promise_rows(schedule),
        ("root", describe_root(schedule)),
    )
    title = ("Schedule", f"method {schedule.method}")
    return Page(title, (Fields(rows), *level_blocks(schedule)))


def forecast_page(forecast: Any) -> Page:
    """The forecast before the run of a method that follows no schedule."""
    return Page((), sentence_blocks(forecast.sentence))


def relaxation_page(relaxation: Relaxation) -> Page:
    """A plan for the unregularized value: its split of epsilon, and the trials."""
    bias_epsilon = relaxation.epsilon - relaxation.sampling_epsilon
    split_text = (
        f"{relaxation.verdict} Of epsilon {relaxation.epsilon:.4g}, "
        f"{bias_epsilon:.4g} is for the distance to the unregularized value and "
        f"{relaxation.sampling_epsilon:.4g} for sampling."
    )
    trial_rows = tuple(
        (
            f"{trial.share:.2%}",
            f"{trial.temperature:.4g}",
            "none" if trial.num_calls is None else f"{trial.num_calls:,}",
        )
        for trial in relaxation.tried
    )
    column_names = ("share", "temperature", "calls")
    columns = tuple(Column(name, right=True) for name in column_names)
    plan_page = page_of(relaxation.schedule)
    return Page(
        (), (Paragraph(split_text), Grid(columns, trial_rows), *plan_page.blocks)
    )


def prepared_page(ready: Prepared) -> Page:
    """A prepared request: promise, price, plan and notes."""
    query, explanation = ready.query, ready.explanation
    title_parts = ["Prepared", query.problem.name]
    title_parts += [] if query.state is None else [f"state {state_text(query.state)}"]
    problem_rows: list[Labelled] = [("problem", describe_facts(query.problem.facts))]
    blocks = explanation_blocks(explanation)
    if isinstance(explanation, Schedule):  # its own page has these lines
        blocks = schedule_page(explanation).blocks
    else:
        blocks = (Fields((*problem_rows, *request_rows(ready))), *blocks)
    explanation_text = " ".join(str(explanation).split())
    notes = tuple(
        ("note", note)
        for note in ready.notes
        if " ".join(note.split()) not in explanation_text
    )
    title_parts.append(f"method {explanation.method}")
    note_blocks = (Fields(notes),) if notes else ()
    return Page(tuple(title_parts), (*blocks, *note_blocks))


def explanation_blocks(explanation: Any) -> tuple[Block, ...]:
    """The blocks of an explanation; one of a user's own may be a text alone."""
    if isinstance(explanation, Shown):
        blocks: tuple[Block, ...] = page_of(explanation).blocks
        return blocks
    return sentence_blocks(str(explanation))


def sentence_blocks(text: str) -> tuple[Block, ...]:
    """Paragraphs and tables of a text; lines of a table begin with a blank."""
    paragraphs = text.strip("\n").split("\n\n")
    return tuple(
        Verbatim(tuple(paragraph.split("\n")))
        if paragraph.startswith(" ")
        else Paragraph(" ".join(paragraph.split()))
        for paragraph in paragraphs
    )


# --- parts --------------------------------------------------------------------


def promise_rows(schedule: Schedule) -> tuple[Labelled, ...]:
    """Promise and price."""
    return (
        ("promise", describe_promise(schedule)),
        ("price", style_sentence(describe_price(schedule), "strong")),
    )


def request_rows(ready: Prepared) -> tuple[Labelled, ...]:
    """Promise and price of a method that samples without a schedule of its own."""
    query, calls = ready.query, ready.explanation.num_calls
    promise, delta = query.promise, query.promise.delta
    if delta is None or calls == 0:  # no chance is in it
        return ()
    costs = query.problem.minimizes
    promised_values = choose_word("the value and every action value", costs)
    if promise.target == "value":
        promised_values = choose_word("the value", costs)
    limit_text = _limit(query.limits)
    if not promise.asked:
        probability_text = f"with probability {1.0 - delta:g}"
        return (
            (
                "promise",
                f"{promised_values} {probability_text}, as narrow as possible within "
                f"{limit_text}",
            ),
        )
    if promise.relative is not None:
        share_text = (
            f"{100.0 * promise.relative:g}% of the {choose_word('value', costs)}"
        )
        promise_text = (
            f"{promised_values} within {share_text} with probability {1.0 - delta:g}"
        )
    else:
        epsilon = promise.half_width()
        promise_text = describe_half_width(
            promised_values, query.problem.facts, epsilon, delta
        )
    if limit_text:
        promise_text += f", if possible within {limit_text}"
    price_text = "not known before the run: it depends on the problem"
    if calls is not None:
        price_text = f"at most {short(calls)} oracle calls"
    return (("promise", promise_text), ("price", style_sentence(price_text, "strong")))


def _limit(limits: Limits) -> str:
    """The limits of an answer's cost, in words."""
    limit_texts = []
    if limits.calls is not None:
        limit_texts.append(f"{short(limits.calls)} calls")
    if limits.seconds is not None:
        limit_texts.append(f"{limits.seconds:g} s")
    return " and ".join(limit_texts)


def level_blocks(schedule: Schedule, heading: str = "") -> tuple[Block, ...]:
    """The levels of a schedule, and how to read them."""
    head_line, *level_lines = picture(schedule)
    return (
        Verbatim(tuple(level_lines), head=head_line, heading=heading),
        Verbatim(KEY, tone="dim"),
    )


def explained_page(problem: Problem, schedule: Schedule, *, time: str) -> Page:
    """The plan: the promise, and its price level by level."""
    field_rows: list[Labelled] = [
        ("problem", describe_facts(schedule.facts)),
        *promise_rows(schedule),
    ]
    if problem.tables is not None:
        model_text = (
            "the model is known: plan without --method "
            "solves this problem exactly, 0 calls"
        )
        field_rows.append(("exact", model_text))
    field_rows += [("time", time), ("root", describe_root(schedule))]
    title = ("smoothcruiser explain", problem.name, f"method {schedule.method}")
    return Page(title, (Fields(tuple(field_rows)), *level_blocks(schedule)))


def foreseen_page(problem: Problem, ready: Prepared) -> Page:
    """The forecast of a method without a schedule, with its notes."""
    explanation = ready.explanation
    explanation_text = " ".join(str(explanation).split())  # its lines are wrapped
    note_blocks = [
        Paragraph(note) for note in ready.notes if note not in explanation_text
    ]
    title = ("smoothcruiser explain", problem.name, f"method {explanation.method}")
    return Page(title, (*note_blocks, *explanation_blocks(explanation)))


def rivals_blocks(schedule: Schedule, prices: list[Price]) -> tuple[Block, ...]:
    """Prices of the same promise by other methods."""
    if not prices:
        return ()
    table_rows = [("this plan", short(schedule.num_calls), "")]
    for price in prices:
        price_text = str(price) if price.log10 is not None else "—"
        table_rows.append((price.name, price_text, _ratio(price, schedule.num_calls)))
    columns = (Column(""), Column("", right=True), Column("", fit="wrap", tone="dim"))
    caption = "The same promise by other methods, in oracle calls:"
    return (Grid(columns, tuple(table_rows), caption=caption),)


def _ratio(price: Price, calls: int) -> str:
    if price.log10 is None:
        return price.note
    if price.num_calls == calls:
        return "the same"
    log10 = price.log10 - math.log10(max(1, calls))
    if abs(log10) < 5:
        return (
            f"{10.0**log10:,.3g} times" if log10 < 3 else f"{10.0**log10:,.0f} times"
        )
    return f"10^{log10:,.0f} times"


def alternative_blocks(
    alternatives: list[str], budget: int, method_name: str, *, has_budget: bool = False
) -> tuple[Block, ...]:
    """Alternatives within the budget; plan would run the method ``method_name``.

    With ``has_budget`` the user set it, and it is spent; the default is not exceeded.
    """
    if not alternatives:
        return ()
    plan_action = INSTEAD.get(
        method_name, "would run what it pays for" if has_budget else "would refuse it"
    )
    caption_text = (
        f"Above the budget of {short(budget)} calls: plan {plan_action}. "
        "What can be paid:"
    )
    return (
        Bullets(tuple(alternatives), caption=style_sentence(caption_text, "warning")),
    )
