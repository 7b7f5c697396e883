"""States from a compiled step, as the types that the user wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.problem import Problem


def retyped_by(problem: Problem, state: Any) -> Callable[[Any], Any] | None:
    """A function that gives a state from a compiled step its type back.

    It is ``jit.state_words.make_retype``; None for plain Python and tables.
    """
    if not is_compiled(problem.oracle):
        return None
    from smoothcruiser.jit.oracle import next_state_type, state_type
    from smoothcruiser.jit.state_words import make_retype

    return make_retype(next_state_type(problem.oracle, state_type(state)))
