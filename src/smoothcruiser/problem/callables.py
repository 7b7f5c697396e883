"""Checks of a problem's functions: their arguments, and that they return an answer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.wary_actions import refuse_names

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem

# how each function is called
CALLS = {
    "oracle": "step(state, action, rng)",
    "legal": "legal(state, action)",
    "terminal": "terminal(state)",
    "player": "player(state)",
    "outcomes": "outcomes(state, action)",
    "key": "key(state)",
    "sample_action": "sample_action(state, rng)",
}
# names of the first two arguments that say the action comes first
SWAPPED = (("action", "state"), ("a", "s"))


def check_functions(problem: Problem) -> None:
    """Refuse functions of other arguments, coroutines, and compiled names of actions."""
    for field_name, call_form in CALLS.items():
        function = getattr(problem, field_name, None)
        if field_name == "oracle":
            function = problem.given_step
        if callable(function) and not isinstance(function, Batched):
            _check_function(field_name, function, call_form)
    if problem.sample_action is None:
        refuse_names("The oracle", problem.oracle, problem.actions)
        refuse_names("legal", problem.legal, problem.actions)


def _makes_functions(kind: type) -> bool:
    """Whether objects of a class can be called: tuple and bool are functions themselves."""
    return any("__call__" in vars(base_class) for base_class in kind.__mro__)


def _check_function(name: str, function: Any, call: str) -> None:
    if isinstance(function, type) and (name == "oracle" or _makes_functions(function)):
        raise InvalidInput(
            f"{name} is a class, {function.__name__}; give an object of it, as in "
            f"{function.__name__}(), that can be called as {call}."
        )
    source_function = getattr(function, "py_func", function)
    inner_function = (
        source_function
        if inspect.isroutine(source_function)
        else type(source_function).__call__
    )
    if inspect.iscoroutinefunction(inner_function) or inspect.isasyncgenfunction(
        inner_function
    ):
        raise InvalidInput(
            f"{name} is an async function, which returns a coroutine and no answer; "
            f"define {call} without async, or run the coroutine inside it."
        )
    if inspect.isgeneratorfunction(inner_function) and name != "outcomes":
        raise InvalidInput(
            f"{name} is a generator, which yields and does not return; write return in "
            f"place of yield in {call}."
        )
    try:
        signature = inspect.signature(source_function)
    except (TypeError, ValueError):  # built into an extension: nobody knows
        return
    try:
        signature.bind(*call.partition("(")[2].rstrip(")").split(", "))
    except TypeError:
        raise InvalidInput(
            f"{name} must be a function {call}, got one of {signature}; add or drop "
            "arguments, also those that it does not use."
        ) from None
    if tuple(signature.parameters)[:2] in SWAPPED and "(state, action" in call:
        raise InvalidInput(
            f"{name} is called as {call}, and its arguments are named {signature}: the "
            "state comes first, then the action; swap them."
        )
