"""Problems on a terminal: the built-in ones, and the one that is being solved."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from smoothcruiser.problem.adapter import descriptions
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import ZOO
from smoothcruiser.display.console import fields, put, title
from smoothcruiser.schedule.text import describe_facts

OWN = (
    "module:attribute: a Problem, or a function that returns one, in a module of the "
    "current folder"
)
TRY = (
    "Try  smoothcruiser explain chain:n=5 --discount "
    "0.2 --temperature 10 --epsilon 5% --delta 0.1"
)


def show_problems(out: Console) -> None:
    """The built-in problems with their parameters, and how to name one's own."""
    title(out, "smoothcruiser problems")
    rows = [
        (name, f"{entry.summary}\n{_defaults(entry.defaults)}".rstrip())
        for name, entry in ZOO.items()
    ]
    adapted = [(f"{name}:…", text) for name, text in descriptions().items()]
    put(out, fields([*rows, *adapted, ("your own", OWN)]))
    out.print("\nParameters follow the name: gridworld:n=10, garnet:states=50,seed=7")
    out.print(TRY, soft_wrap=True)


def _defaults(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={str(value).lower()}" for name, value in parameters.items()
    )


def show_problem(
    out: Console, command: str, problem: Problem, state: Any, *more: str
) -> None:
    """The problem and the state that an answer is about."""
    title(out, f"smoothcruiser {command}", problem.name, f"state {state!r}", *more)
    put(out, fields([("problem", describe_facts(problem.facts))]))
