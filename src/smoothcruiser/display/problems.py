"""Pages of problems: the built-in ones, one of them, and the one that is planned."""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.display.answers import MOST_ACTIONS, state_text
from smoothcruiser.display.document import Fields, Labelled, Page, Verbatim
from smoothcruiser.problem.adapter import descriptions
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.totals import EVERY_STEP
from smoothcruiser.problem.zoo import ZOO
from smoothcruiser.schedule.numbers import counts
from smoothcruiser.schedule.text import describe_facts

OWN = (
    "module:attribute: a Problem, or a function that returns one, in a module of the "
    "current folder"
)
PARAMETERS = (
    "Parameters follow the name: gridworld:n=10, garnet:states=50,seed=7",
    "Try  smoothcruiser explain chain:n=5 --discount "
    "0.2 --temperature 10 --epsilon 5% --delta 0.1",
)


def zoo_page() -> Page:
    """The built-in problems with their parameters, and how to name one's own."""
    rows = [
        (name, f"{entry.summary}\n{_defaults(entry.defaults)}".rstrip())
        for name, entry in ZOO.items()
    ]
    adapted = [(f"{name}:…", text) for name, text in descriptions().items()]
    listed = Fields((*rows, *adapted, ("your own", OWN)))
    return Page(("smoothcruiser problems",), (listed, Verbatim(PARAMETERS)))


def _defaults(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={str(value).lower()}" for name, value in parameters.items()
    )


def request_page(command: str, problem: Problem, state: Any, *more: str) -> Page:
    """The problem and the state that an answer of a command is about."""
    title = (
        f"smoothcruiser {command}",
        problem.name,
        f"state {state_text(state)}",
        *more,
    )
    return Page(title, (Fields((("problem", describe_facts(problem.facts)),)),))


# --- a problem as an object ---------------------------------------------------


def problem_page(problem: Problem) -> Page:
    """What a promise may rely on, where plans begin, and what is declared."""
    rows: list[Labelled] = [
        ("problem", describe_facts(problem.facts)),
        ("values", _values(problem)),
    ]
    if problem.actions is not None:
        left = len(problem.actions) - MOST_ACTIONS
        more = [f"{left:,} more"] if left > 0 else []
        named = [*problem.actions[:MOST_ACTIONS], *more]
        rows.append(("actions", ", ".join(named)))
    if problem.sample_action is not None:
        rows.append(("actions", f"sampled: {problem.num_actions:,} at each state"))
    if problem.initial_state is not None:
        rows.append(("start", state_text(problem.initial_state)))
    rows.append(("model", _model(problem)))
    declared = _declared(problem)
    rows += [("declared", text) if not i else ("", text) for i, text in declared]
    title = (type(problem).__name__, problem.name)
    return Page(title, (Fields(tuple(rows)),))


def _values(problem: Problem) -> str:
    """The range that holds every value before anything is sampled."""
    low, high = problem.facts.value_hull()
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no bounds are known before sampling"
    return f"between {low:.4g} and {high:.4g} in every state"


def _model(problem: Problem) -> str:
    if problem.tables is not None:
        return f"known as tables, {counts(problem.tables.num_states, 'state')}"
    how = "a plain Python function"
    if isinstance(problem.oracle, Batched):
        how = "a function over arrays"
    elif problem.is_compiled:
        how = "a compiled function"
    known = ", and known by outcomes=" if problem.outcomes is not None else ""
    return f"a simulator, {how}{known}"


def _declared(problem: Problem) -> list[tuple[int, str]]:
    """What the user claims beyond the facts; ``check`` tests it."""
    found = []
    if problem.deterministic:
        found.append("deterministic: one outcome for each state and action")
    if problem.payoffs != EVERY_STEP:
        found.append(f"payoffs {problem.payoffs}")
    if problem.total_reward_range is not None:
        low, high = problem.total_reward_range
        found.append(f"total rewards {low:g} to {high:g}")
    if problem.min_probability is not None:
        found.append(f"no outcome is rarer than {problem.min_probability:g}")
    if problem.episodes_end is not None:
        steps, chance = problem.episodes_end
        found.append(f"episodes end within {steps:,} steps with probability {chance:g}")
    if problem.value_gap is not None:
        found.append(f"bounds on V by state, at most {problem.value_gap:g} apart")
    elif problem.value_bounds is not None:
        low, high = problem.value_bounds
        found.append(f"V between {low:g} and {high:g}")
    return list(enumerate(found))
