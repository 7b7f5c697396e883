"""The command ``explain``: the plan that keeps a promise, and its price."""

from __future__ import annotations

from typing import Any

import click

from smoothcruiser.cli.options import (
    method_names,
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
    problem: Any, method: str | None, calibrate: bool, as_json: bool, **request: Any
) -> None:
    """Show the cheapest plan that keeps a promise, and its price.

    PROBLEM is built in (chain:n=5) or your own (module:attribute). Nothing is run,
    except some hundred calls of your own simulator where auto looks before it chooses.
    """
    from smoothcruiser import api
    from smoothcruiser.display import plans
    from smoothcruiser.display import price_text as price
    from smoothcruiser.display.document import Page, Paragraph
    from smoothcruiser.display.terminal import show
    from smoothcruiser.methods.base import default_delta_note
    from smoothcruiser.schedule.schedule import Schedule

    ready, chosen = _prepare_both(problem, method, request)
    explanation = ready.explanation
    budget = request["budget"] or price.ALTERNATIVES_ABOVE
    if not isinstance(explanation, Schedule):  # a forecast: no levels to show
        if as_json:
            json_data = {**explanation.to_dict(), "problem": problem.name}
            print_json({**json_data, "plan_method": chosen.method.name})
            return
        page = plans.foreseen_page(problem, ready)
        for (
            prepared_part
        ) in ready.parts:  # a schedule that auto chose for want of a better
            if isinstance(prepared_part.explanation, Schedule):
                part_alternatives = price.alternatives_for(
                    prepared_part.explanation, budget
                )
                has_budget = request["budget"] is not None
                alternative_blocks = plans.alternative_blocks(
                    part_alternatives, budget, ready.method.name, has_budget=has_budget
                )
                page = Page(page.title, (*page.blocks, *alternative_blocks))
        show(page)
        return
    speed = price.COMPILED_SPEED if problem.is_compiled else None
    if calibrate:
        speed = api.calibrate(problem)
    if as_json:
        json_data = price.explain_dict(
            explanation,
            problem=problem.name,
            speed=speed,
            measured=calibrate,
            budget=budget,
        )
        print_json({**json_data, "plan_method": chosen.method.name})
        return
    # a time limit pays for all calls within it, with root samples that the clock ends
    is_timed = request["seconds"] is not None and request["epsilon"] is None
    time_text = price.time_sentence(explanation.num_calls, speed, measured=calibrate)
    if is_timed:
        time_text = (
            f"{request['seconds']:g} s, in which plan samples until the clock ends"
        )
    page = plans.explained_page(problem, explanation, time=time_text)
    alternatives = [] if is_timed else price.alternatives_for(explanation, budget)
    has_budget = request["budget"] is not None
    blocks = [
        *page.blocks,
        *(
            []
            if is_timed
            else plans.rivals_blocks(explanation, price.rivals(explanation))
        ),
        *plans.alternative_blocks(
            alternatives, budget, chosen.method.name, has_budget=has_budget
        ),
        *(Paragraph(note, tight=True) for note in ready.notes if ready is chosen),
    ]
    if request["delta"] is None and ready is not chosen:
        blocks.append(Paragraph(default_delta_note(explanation.delta)))
    if chosen.method != ready.method and not alternatives:
        blocks.append(Paragraph("Without --method, plan decides by itself:"))
        blocks += plans.explanation_blocks(chosen.explanation)
    show(Page(page.title, tuple(blocks)))


def _prepare_both(problem: Any, method: str | None, request: dict[str, Any]) -> Any:
    """The explained request, and the one that ``plan`` would run with these options.

    Without --method the two differ where ``auto`` would not follow the schedule: a
    reader of its price still wants to see the schedule.
    """
    from smoothcruiser import api
    from smoothcruiser.query import DEFAULT_DELTA

    if method is not None or request["options"]:
        ready = api.prepare(problem, method=method or "smoothcruiser", **request)
        return ready, ready
    chosen = api.prepare(problem, method="auto", **request)
    if request["delta"] is None:  # as plan has it
        request = {**request, "delta": DEFAULT_DELTA}
    if request["epsilon"] is not None:  # the price of the requested promise
        request = {**request, "budget": None, "seconds": None}
    try:
        return api.prepare(problem, method="smoothcruiser", **request), chosen
    except Unpayable:
        return chosen, chosen
    except InvalidInput:
        if chosen.query.promise.relative is None:
            raise
        return chosen, chosen  # no schedule promises a share of the value
