"""A problem's functions, compiled or loaded from disk, to be called by address."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from smoothcruiser.engines.base import sources_hash
from smoothcruiser.engines.compiled.tiers import functions_of
from smoothcruiser.jit.oracle import state_type
from smoothcruiser.jit.user_cache import surroundings
from smoothcruiser.jit.word_functions import UserFunctions, compile_functions
from smoothcruiser.problem.fingerprint.machine_code import is_fresh, of_functions
from smoothcruiser.problem.problem import Problem

NAMES = ("oracle", "legal", "terminal", "player", "below", "above")


def compile_user_functions(problem: Problem, state: Any) -> UserFunctions | None:
    """All functions as one compiled function; None where there is no such form."""
    named_functions = zip(NAMES, functions_of(problem), strict=True)
    return _load_or_compile(
        {name: function for name, function in named_functions if function is not None},
        state,
    )


def compile_user_step(problem: Problem, state: Any) -> UserFunctions | None:
    """The step alone; None where it has no such form."""
    return _load_or_compile({"oracle": problem.oracle}, state)


def _load_or_compile(functions: dict[str, Any], state: Any) -> UserFunctions | None:
    numba_type = state_type(state)
    digest = _digest(functions, numba_type, state)

    def is_current() -> bool:
        return _digest(functions, numba_type, state) == digest

    def may_keep(library: Any) -> bool:
        return is_fresh(library) and is_current()

    user_functions = compile_functions(functions, numba_type, state, digest, may_keep)
    if user_functions is None or not user_functions.kept:
        return user_functions
    return user_functions._replace(is_current=is_current)


def _digest(functions: dict[str, Any], kind: Any, state: Any) -> str | None:
    """The key of the functions' machine code; None where a part cannot be hashed."""
    code_fingerprint = of_functions(functions)
    if code_fingerprint.unseen:
        return None
    environment = [_sources(), *surroundings()]
    digest_parts = [
        code_fingerprint.digest,
        *environment,
        *functions,
        *_form(kind, state),
    ]
    return hashlib.sha256("\0".join(digest_parts).encode()).hexdigest()[:32]


@cache
def _sources() -> str:
    """A hash of this package, parts of which the functions may call."""
    return sources_hash()


def _form(kind: Any, state: Any) -> list[str]:
    """The type of a state, with the fields and the shapes that are in it."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        type_texts: list[str] = [str(len(kind.types))]
        if isinstance(kind, types.BaseNamedTuple):
            tuple_class = kind.instance_class
            type_texts += [
                tuple_class.__module__,
                tuple_class.__qualname__,
                *kind.fields,
            ]
        for field_type, field_value in zip(kind.types, state, strict=True):
            type_texts += _form(field_type, field_value)
        return type_texts
    return [str(kind), str(np.shape(state))]
