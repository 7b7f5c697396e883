"""The command ``explain``: the plan that keeps a promise, and its price."""

from __future__ import annotations

from typing import Any

import click

from smoothcruiser.cli.completion import method_names
from smoothcruiser.cli.options import (
    method_option,
    print_json,
    problem_options,
    promise_options,
)
from smoothcruiser.errors import InvalidInput, Unpayable


@click.command()
@problem_options
@promise_options
@click.option(
    "--seconds",
    type=float,
    metavar="T",
    help="Explain what plan would do within this time; the simulator is timed for it.",
)
@click.option(
    "--method",
    metavar="NAME",
    shell_complete=method_names,
    help="As for plan; auto explains what plan would choose.  [default: smoothcruiser]",
)
@method_option
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure the simulator for about 0.3 s to estimate the time.",
)
def explain(
    problem: Any, method: str | None, calibrate: bool, as_json: bool, **asked: Any
) -> None:
    """Show the cheapest plan that keeps a promise, and its price.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). Nothing is run,
    except some hundred calls of your own simulator where auto looks before it chooses.
    """
    from smoothcruiser import api
    from smoothcruiser.display import plans, price
    from smoothcruiser.display.document import Page, Paragraph
    from smoothcruiser.display.terminal import show
    from smoothcruiser.methods.base import default_delta_note
    from smoothcruiser.schedule.schedule import Schedule

    ready, chosen = _prepared(problem, method, asked)
    found = ready.explanation
    budget = asked["budget"] or price.ALTERNATIVES_ABOVE
    if not isinstance(found, Schedule):  # a forecast: no levels to show
        if as_json:
            shown = {**found.to_dict(), "problem": problem.name}
            print_json({**shown, "plan_method": chosen.method.name})
            return
        page = plans.foreseen_page(problem, ready)
        for part in ready.parts:  # a schedule that auto chose for want of a better
            if isinstance(part.explanation, Schedule):
                offered = price.alternatives_for(part.explanation, budget)
                named = asked["budget"] is not None
                more = plans.alternative_blocks(
                    offered, budget, ready.method.name, named=named
                )
                page = Page(page.title, (*page.blocks, *more))
        show(page)
        return
    speed = price.COMPILED_SPEED if problem.is_compiled else None
    if calibrate:
        speed = api.calibrate(problem)
    if as_json:
        shown = price.explain_dict(
            found, problem=problem.name, speed=speed, measured=calibrate, budget=budget
        )
        print_json({**shown, "plan_method": chosen.method.name})
        return
    # a time limit pays for what it allows, with root samples that the clock ends
    timed = asked["seconds"] is not None and asked["epsilon"] is None
    seconds = price.time_sentence(found.num_calls, speed, measured=calibrate)
    if timed:
        seconds = f"{asked['seconds']:g} s, in which plan samples until the clock ends"
    page = plans.explained_page(problem, found, time=seconds)
    alternatives = [] if timed else price.alternatives_for(found, budget)
    named = asked["budget"] is not None
    blocks = [
        *page.blocks,
        *([] if timed else plans.rivals_blocks(found, price.rivals(found))),
        *plans.alternative_blocks(
            alternatives, budget, chosen.method.name, named=named
        ),
        *(Paragraph(note, tight=True) for note in ready.notes if ready is chosen),
    ]
    if asked["delta"] is None and ready is not chosen:
        blocks.append(Paragraph(default_delta_note(found.delta)))
    if chosen.method != ready.method and not alternatives:
        blocks.append(Paragraph("Without --method, plan decides by itself:"))
        blocks += plans.explanation_blocks(chosen.explanation)
    show(Page(page.title, tuple(blocks)))


def _prepared(problem: Any, method: str | None, asked: dict[str, Any]) -> Any:
    """What is explained, and what ``plan`` would run with the same options.

    Without --method the two differ where ``auto`` would not follow the schedule: the
    schedule is still what a reader of its price wants to see.
    """
    from smoothcruiser import api
    from smoothcruiser.query import DEFAULT_DELTA

    if method is not None or asked["options"]:
        ready = api.prepare(problem, method=method or "smoothcruiser", **asked)
        return ready, ready
    chosen = api.prepare(problem, method="auto", **asked)
    if asked["delta"] is None:  # as plan has it
        asked = {**asked, "delta": DEFAULT_DELTA}
    if asked["epsilon"] is not None:  # the price of what was asked for
        asked = {**asked, "budget": None, "seconds": None}
    try:
        return api.prepare(problem, method="smoothcruiser", **asked), chosen
    except Unpayable:
        return chosen, chosen
    except InvalidInput:
        if chosen.query.promise.relative is None:
            raise
        return chosen, chosen  # no schedule knows what a share of the value is
