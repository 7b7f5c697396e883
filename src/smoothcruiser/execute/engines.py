"""Which engine runs a problem: the one asked for, or the fastest that can."""

from __future__ import annotations

from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.execute.run import Engine
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.schedule import Schedule


def make_engine(name: str | None, problem: Problem, schedule: Schedule, state: Any, *, center: float) -> Engine:
    """The engine called ``name``; compiled for compiled problems and reference for others where none is named."""
    name = name or ("compiled" if problem.is_compiled else "reference")
    if name == "compiled":
        from smoothcruiser.execute.compiled import CompiledEngine

        return CompiledEngine(problem, schedule, state, center=center)
    if name == "reference":
        from smoothcruiser.execute.reference import ReferenceEngine

        return ReferenceEngine(problem, schedule, state, center=center)
    raise InvalidInput(f"Unknown executor {name!r}; choose reference or compiled.")
