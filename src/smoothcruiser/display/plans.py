"""Pages of plans: what is promised, what it costs, and what it costs elsewhere."""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.display.answers import state_text
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
    styled,
)
from smoothcruiser.display.price import Price
from smoothcruiser.methods.base import Prepared
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Limits
from smoothcruiser.schedule.numbers import short
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
from smoothcruiser.shown import Shown, page_of

# what plan does instead of refusing, by the method that it would run
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
    """What is known before the run of a method that follows no schedule."""
    return Page((), sentence_blocks(forecast.sentence))


def relaxation_page(relaxation: Relaxation) -> Page:
    """A plan for the unregularized value: its split of epsilon, and what was tried."""
    half = relaxation.epsilon - relaxation.sampling_epsilon
    split = (
        f"{relaxation.verdict} Of epsilon {relaxation.epsilon:.4g}, {half:.4g} is for "
        "the distance to the unregularized value and "
        f"{relaxation.sampling_epsilon:.4g} for sampling."
    )
    tried = tuple(
        (
            f"{x.share:.2%}",
            f"{x.temperature:.4g}",
            "none" if x.num_calls is None else f"{x.num_calls:,}",
        )
        for x in relaxation.tried
    )
    names = ("share", "temperature", "calls")
    columns = tuple(Column(name, right=True) for name in names)
    plan = page_of(relaxation.schedule)
    return Page((), (Paragraph(split), Grid(columns, tried), *plan.blocks))


def prepared_page(ready: Prepared) -> Page:
    """A request that was thought through: promise, price, plan and notes."""
    query, found = ready.query, ready.explanation
    title = ["Prepared", query.problem.name]
    title += [] if query.state is None else [f"state {state_text(query.state)}"]
    rows: list[Labelled] = [("problem", describe_facts(query.problem.facts))]
    blocks = explanation_blocks(found)
    if isinstance(found, Schedule):  # its own page has these lines
        blocks = schedule_page(found).blocks
    else:
        blocks = (Fields((*rows, *request_rows(ready))), *blocks)
    said = " ".join(str(found).split())
    notes = tuple(
        ("note", note) for note in ready.notes if " ".join(note.split()) not in said
    )
    title.append(f"method {found.method}")
    more = (Fields(notes),) if notes else ()
    return Page(tuple(title), (*blocks, *more))


def explanation_blocks(explanation: Any) -> tuple[Block, ...]:
    """What an explanation shows below a title; that of a user may have a text alone."""
    if isinstance(explanation, Shown):
        blocks: tuple[Block, ...] = page_of(explanation).blocks
        return blocks
    return sentence_blocks(str(explanation))


def sentence_blocks(text: str) -> tuple[Block, ...]:
    """Paragraphs, and tables, whose lines begin with a blank."""
    parts = text.strip("\n").split("\n\n")
    return tuple(
        Verbatim(tuple(part.split("\n")))
        if part.startswith(" ")
        else Paragraph(" ".join(part.split()))
        for part in parts
    )


# --- parts --------------------------------------------------------------------


def promise_rows(schedule: Schedule) -> tuple[Labelled, ...]:
    """Promise and price."""
    return (
        ("promise", describe_promise(schedule)),
        ("price", styled(describe_price(schedule), "strong")),
    )


def request_rows(ready: Prepared) -> tuple[Labelled, ...]:
    """Promise and price of a method that samples without a schedule of its own."""
    query, calls = ready.query, ready.explanation.num_calls
    promise, delta = query.promise, query.promise.delta
    if delta is None or calls == 0:  # no chance is in it
        return ()
    what = "the value and every action value"
    if promise.target == "value":
        what = "the value"
    limit = _limit(query.limits)
    if not promise.asked:
        sure = f"with probability {1.0 - delta:g}"
        return (("promise", f"{what} {sure}, as narrow as possible within {limit}"),)
    if promise.relative is not None:
        share = f"{100.0 * promise.relative:g}% of the value"
        asked = f"{what} within {share} with probability {1.0 - delta:g}"
    else:
        epsilon = promise.half_width()
        asked = describe_half_width(what, query.problem.facts, epsilon, delta)
    if limit:
        asked += f", if possible within {limit}"
    price = "not known before the run: it depends on the problem"
    if calls is not None:
        price = f"at most {short(calls)} oracle calls"
    return (("promise", asked), ("price", styled(price, "strong")))


def _limit(limits: Limits) -> str:
    """What an answer may cost, in words."""
    named = []
    if limits.calls is not None:
        named.append(f"{short(limits.calls)} calls")
    if limits.seconds is not None:
        named.append(f"{limits.seconds:g} s")
    return " and ".join(named)


def level_blocks(schedule: Schedule, heading: str = "") -> tuple[Block, ...]:
    """The levels of a schedule, and how to read them."""
    head, *lines = picture(schedule)
    return (
        Verbatim(tuple(lines), head=head, heading=heading),
        Verbatim(KEY, tone="dim"),
    )


def explained_page(problem: Problem, schedule: Schedule, *, time: str) -> Page:
    """The plan: what is promised, what it costs, level by level."""
    rows: list[Labelled] = [
        ("problem", describe_facts(schedule.facts)),
        *promise_rows(schedule),
    ]
    if problem.tables is not None:
        known = (
            "the model is known: plan without --method "
            "solves this problem exactly, 0 calls"
        )
        rows.append(("exact", known))
    rows += [("time", time), ("root", describe_root(schedule))]
    title = ("smoothcruiser explain", problem.name, f"method {schedule.method}")
    return Page(title, (Fields(tuple(rows)), *level_blocks(schedule)))


def foreseen_page(problem: Problem, ready: Prepared) -> Page:
    """What is known before the run of a method without a schedule, with its notes."""
    found = ready.explanation
    said = " ".join(str(found).split())  # its lines are wrapped
    notes = [Paragraph(note) for note in ready.notes if note not in said]
    title = ("smoothcruiser explain", problem.name, f"method {found.method}")
    return Page(title, (*notes, *explanation_blocks(found)))


def rivals_blocks(schedule: Schedule, prices: list[Price]) -> tuple[Block, ...]:
    """What the same promise costs elsewhere."""
    if not prices:
        return ()
    rows = [("this plan", short(schedule.num_calls), "")]
    for price in prices:
        shown = str(price) if price.log10 is not None else "—"
        rows.append((price.name, shown, _ratio(price, schedule.num_calls)))
    columns = (Column(""), Column("", right=True), Column("", fit="wrap", tone="dim"))
    caption = "The same promise by other methods, in oracle calls:"
    return (Grid(columns, tuple(rows), caption=caption),)


def _ratio(price: Price, calls: int) -> str:
    if price.log10 is None:
        return price.note
    if price.num_calls == calls:
        return "the same"
    log10 = price.log10 - math.log10(max(1, calls))
    if abs(log10) < 5:
        return f"{10.0**log10:,.3g} times" if log10 < 3 else f"{10.0**log10:,.0f} times"
    return f"10^{log10:,.0f} times"


def alternative_blocks(
    listed: list[str], budget: int, chosen: str, *, named: bool = False
) -> tuple[Block, ...]:
    """What can be paid instead; ``chosen`` is the method that plan would run.

    A budget that was ``named`` is spent, and the default is not exceeded.
    """
    if not listed:
        return ()
    does = INSTEAD.get(
        chosen, "would run what it pays for" if named else "would refuse it"
    )
    head = f"Above the budget of {short(budget)} calls: plan {does}. What can be paid:"
    return (Bullets(tuple(listed), caption=styled(head, "warning")),)
