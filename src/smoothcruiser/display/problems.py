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
from smoothcruiser.schedule.numbers import count_noun
from smoothcruiser.schedule.text import describe_facts

OWN_PROBLEM = (
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
    zoo_rows = [
        (name, f"{entry.summary}\n{_defaults(entry.defaults)}".rstrip())
        for name, entry in ZOO.items()
    ]
    adapter_rows = [(f"{name}:…", text) for name, text in descriptions().items()]
    problem_fields = Fields((*zoo_rows, *adapter_rows, ("your own", OWN_PROBLEM)))
    return Page(("smoothcruiser problems",), (problem_fields, Verbatim(PARAMETERS)))


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
    """The facts that a promise relies on, the initial state, and the declarations."""
    field_rows: list[Labelled] = [
        ("problem", describe_facts(problem.facts)),
        ("values", _values(problem)),
    ]
    if problem.actions is not None:
        num_omitted = len(problem.actions) - MOST_ACTIONS
        omission_text = [f"{num_omitted:,} more"] if num_omitted > 0 else []
        action_names = [*problem.actions[:MOST_ACTIONS], *omission_text]
        field_rows.append(("actions", ", ".join(action_names)))
    if problem.sample_action is not None:
        field_rows.append(
            ("actions", f"sampled: {problem.num_actions:,} at each state")
        )
    if problem.initial_state is not None:
        field_rows.append(("start", state_text(problem.initial_state)))
    field_rows.append(("model", _model(problem)))
    declared = _declaration_texts(problem)
    field_rows += [("declared", text) if not i else ("", text) for i, text in declared]
    title = (type(problem).__name__, problem.name)
    return Page(title, (Fields(tuple(field_rows)),))


def _values(problem: Problem) -> str:
    """The range that holds every value before anything is sampled."""
    lowest_value, highest_value = problem.facts.value_hull()
    if not (math.isfinite(lowest_value) and math.isfinite(highest_value)):
        return "no bounds are known before sampling"
    return f"between {lowest_value:.4g} and {highest_value:.4g} in every state"


def _model(problem: Problem) -> str:
    if problem.tables is not None:
        return f"known as tables, {count_noun(problem.tables.num_states, 'state')}"
    simulator_kind = "a plain Python function"
    if isinstance(problem.oracle, Batched):
        simulator_kind = "a function over arrays"
    elif problem.is_compiled:
        simulator_kind = "a compiled function"
    known_text = ", and known by outcomes=" if problem.outcomes is not None else ""
    return f"a simulator, {simulator_kind}{known_text}"


def _declaration_texts(problem: Problem) -> list[tuple[int, str]]:
    """The user's claims beyond the facts, numbered; ``check`` tests them."""
    declarations = []
    if problem.deterministic:
        declarations.append("deterministic: one outcome for each state and action")
    if problem.payoffs != EVERY_STEP:
        declarations.append(f"payoffs {problem.payoffs}")
    if problem.total_reward_range is not None:
        lower_bound, upper_bound = problem.total_reward_range
        declarations.append(f"total rewards {lower_bound:g} to {upper_bound:g}")
    if problem.min_probability is not None:
        declarations.append(f"no outcome is rarer than {problem.min_probability:g}")
    if problem.episodes_end is not None:
        num_steps, chance = problem.episodes_end
        declarations.append(
            f"episodes end within {num_steps:,} steps with probability {chance:g}"
        )
    if problem.value_gap is not None:
        declarations.append(
            f"bounds on V by state, at most {problem.value_gap:g} apart"
        )
    elif problem.value_bounds is not None:
        lower_bound, upper_bound = problem.value_bounds
        declarations.append(f"V between {lower_bound:g} and {upper_bound:g}")
    return list(enumerate(declarations))
