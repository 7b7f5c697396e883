"""A problem's functions, ready to be called by address, from the disk where they are."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.tiers import functions_of
from smoothcruiser.engines.versions import sources_hash
from smoothcruiser.jit.kept import surroundings
from smoothcruiser.jit.oracle import state_type
from smoothcruiser.jit.spoken import Spoken, spoken
from smoothcruiser.problem.fingerprint.compiled import is_fresh, of_functions
from smoothcruiser.problem.problem import Problem

NAMES = ("oracle", "legal", "terminal", "player", "below", "above")


def speak(problem: Problem, state: Any) -> Spoken | None:
    """The functions as one compiled function; None where there is no such form."""
    found = zip(NAMES, functions_of(problem), strict=True)
    return _spoken({name: each for name, each in found if each is not None}, state)


def speak_step(problem: Problem, state: Any) -> Spoken | None:
    """The step alone; None where it has no such form."""
    return _spoken({"oracle": problem.oracle}, state)


def _spoken(functions: dict[str, Any], state: Any) -> Spoken | None:
    kind = state_type(state)
    digest = _digest(functions, kind, state)

    def is_current() -> bool:
        return _digest(functions, kind, state) == digest

    def may_keep(library: Any) -> bool:
        return is_fresh(library) and is_current()

    found = spoken(functions, kind, state, digest, may_keep)
    if found is None or not found.kept:
        return found
    return found._replace(is_current=is_current)


def _digest(functions: dict[str, Any], kind: Any, state: Any) -> str | None:
    """What machine code of the functions is known by; None if nobody can tell."""
    found = of_functions(functions)
    if found.unseen:
        return None
    around = [_sources(), *surroundings()]
    parts = [found.digest, *around, *functions, *_form(kind, state)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@cache
def _sources() -> str:
    """A hash of this package, parts of which the functions may call."""
    return sources_hash()


def _form(kind: Any, state: Any) -> list[str]:
    """The type of a state, with the fields and the shapes that are in it."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        held: list[str] = [str(len(kind.types))]
        if isinstance(kind, types.BaseNamedTuple):
            named = kind.instance_class
            held += [named.__module__, named.__qualname__, *kind.fields]
        for part, value in zip(kind.types, state, strict=True):
            held += _form(part, value)
        return held
    return [str(kind), str(np.shape(state))]
