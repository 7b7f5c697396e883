"""A problem's functions, ready to be called by address."""

from __future__ import annotations

from typing import Any

from smoothcruiser.engines.compiled.tiers import functions_of
from smoothcruiser.jit.oracle import state_type
from smoothcruiser.jit.spoken import Spoken, spoken
from smoothcruiser.problem.problem import Problem

NAMES = ("oracle", "legal", "terminal", "player", "below", "above")


def speak(problem: Problem, state: Any) -> Spoken | bool:
    """The functions as one compiled function; False where there is no such form."""
    found = zip(NAMES, functions_of(problem), strict=True)
    functions = {name: each for name, each in found if each is not None}
    return spoken(functions, state_type(state), state) or False
