"""Plans on a terminal: what is promised, what it costs, and what it costs elsewhere."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from smoothcruiser.methods.base import Prepared
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Limits
from smoothcruiser.display.console import Fields, fields, indented, put, title
from smoothcruiser.display.price import Price
from smoothcruiser.schedule.numbers import short
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

# what plan does instead of refusing, by the method that it would run
INSTEAD = {
    "exact": "would solve the model instead, 0 calls",
    "certified": "would answer by certified search instead",
}


def promise_fields(schedule: Schedule) -> Fields:
    """Promise and price."""
    return [
        ("promise", describe_promise(schedule)),
        ("price", Text(describe_price(schedule), style="bold")),
    ]


def request_fields(ready: Prepared) -> Fields:
    """Promise and price of a method that samples without a schedule of its own."""
    query, calls = ready.query, ready.explanation.num_calls
    promise, delta = query.promise, query.promise.delta
    if delta is None or calls == 0:  # no chance is in it
        return []
    what = "the value and every action value"
    if promise.target == "value":
        what = "the value"
    limit = _limit(query.limits)
    if not promise.asked:
        sure = f"with probability {1.0 - delta:g}"
        return [("promise", f"{what} {sure}, as narrow as possible within {limit}")]
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
    return [("promise", asked), ("price", Text(price, style="bold"))]


def _limit(limits: Limits) -> str:
    """What an answer may cost, in words."""
    named = []
    if limits.calls is not None:
        named.append(f"{short(limits.calls)} calls")
    if limits.seconds is not None:
        named.append(f"{limits.seconds:g} s")
    return " and ".join(named)


def show_schedule(
    out: Console, problem: Problem, schedule: Schedule, *, time: str
) -> None:
    """The plan: what is promised, what it costs, level by level."""
    title(out, "smoothcruiser explain", problem.name, f"method {schedule.method}")
    rows: Fields = [
        ("problem", describe_facts(schedule.facts)),
        *promise_fields(schedule),
    ]
    if problem.tables is not None:
        known = (
            "the model is known: plan without --method "
            "solves this problem exactly, 0 calls"
        )
        rows.append(("exact", known))
    put(out, fields([*rows, ("time", time), ("root", describe_root(schedule))]))
    out.print()
    head, *lines = picture(schedule)
    out.print(Text(head, style="dim"), soft_wrap=True)
    for line in lines:
        out.print(Text(line), soft_wrap=True)
    out.print()
    for line in KEY:
        out.print(Text(line, style="dim"), soft_wrap=True)


def show_forecast(
    out: Console, problem: Problem, forecast: Any, notes: tuple[str, ...] = ()
) -> None:
    """What is known before the run of a method that follows no schedule.

    Sentences are wrapped, a table is printed as it is.
    """
    title(out, "smoothcruiser explain", problem.name, f"method {forecast.method}")
    text = str(forecast)
    for note in notes:
        if note not in text:
            put(out, Text(note))
            out.print()
    show_sentences(out, text)


def show_sentences(out: Console, text: str) -> None:
    """Paragraphs, wrapped; a table, whose lines begin with a blank, as it is."""
    for part in text.strip("\n").split("\n\n"):
        if part.startswith(" "):
            out.print(Text(part), soft_wrap=True)
        else:
            put(out, Text(" ".join(part.split())))
            out.print()


def show_rivals(out: Console, schedule: Schedule, prices: list[Price]) -> None:
    """What the same promise costs elsewhere."""
    if not prices:
        return
    out.print("\nThe same promise by other methods, in oracle calls:")
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(style="dim")
    grid.add_row("this plan", short(schedule.num_calls), "")
    for price in prices:
        shown = str(price) if price.log10 is not None else "—"
        grid.add_row(price.name, shown, _ratio(price, schedule.num_calls))
    put(out, indented(grid))


def _ratio(price: Price, calls: int) -> str:
    if price.log10 is None:
        return price.note
    if price.num_calls == calls:
        return "the same"
    log10 = price.log10 - math.log10(max(1, calls))
    if abs(log10) < 5:
        return f"{10.0**log10:,.3g} times" if log10 < 3 else f"{10.0**log10:,.0f} times"
    return f"10^{log10:,.0f} times"


def show_alternatives(
    out: Console, listed: list[str], budget: int, chosen: str, *, named: bool = False
) -> None:
    """What can be paid instead; ``chosen`` is the method that plan would run.

    A budget that was ``named`` is spent, and the default is not exceeded.
    """
    if not listed:
        return
    does = INSTEAD.get(
        chosen, "would run what it pays for" if named else "would refuse it"
    )
    head = f"Above the budget of {short(budget)} calls: plan {does}. What can be paid:"
    out.print()
    put(out, Text(head, style="yellow"))
    grid = Table.grid(padding=(0, 1))
    for alternative in listed:
        grid.add_row("•", alternative)
    put(out, indented(grid))
