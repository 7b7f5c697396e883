"""Copies of states, and the guard against steps that write into theirs.

A step must not write into its argument: other samples start from the same state, and no
interval survives that. ``Guard`` watches for it while a run lasts;
``engines.inspection`` compares before and after.
"""

from __future__ import annotations

import copy
from collections import deque
from types import ModuleType
from typing import Any

from smoothcruiser.errors import OracleError
from smoothcruiser.states.identity import (
    is_fixed,
    is_opaque,
    is_unchanged,
    list_fields,
    same_state,
)


def copy_state(state: Any) -> Any:
    """A copy to compare a state with later.

    None where the state cannot be changed, or where its copy is no copy.
    """
    if is_fixed(state) or is_opaque(state):
        return None
    try:
        state_copy = copy.deepcopy(state)
        return (
            state_copy
            if same_state(state_copy, state) and not _shares(state_copy, state, set())
            else None
        )
    except Exception:
        return None


def lend_copy(state: Any) -> Any:
    """A state for a user's function to read, which may write into it.

    It is a copy where it can be changed. A policy or a heuristic that normalizes its
    argument in place would otherwise move the world that is rolled out.
    """
    if is_fixed(state) or is_opaque(state):
        return state
    try:
        return copy.deepcopy(state)
    except Exception:  # it cannot be copied
        return state


def _shares(x: Any, y: Any, met: set[int]) -> bool:
    """Whether a copy holds a part of the original that can be changed.

    A ``__deepcopy__`` that returns itself makes such copies.
    """
    if is_fixed(x) or callable(x) or isinstance(x, ModuleType) or id(x) in met:
        return False
    if x is y:
        return True
    met.add(id(x))
    if isinstance(x, tuple | list | deque):
        return any(_shares(a, b, met) for a, b in zip(x, y, strict=False))
    if isinstance(x, dict):
        return any(_shares(x[n], y.get(n), met) for n in x)
    x_fields, y_fields = list_fields(x) or {}, list_fields(y) or {}
    return any(_shares(x_fields[n], y_fields.get(n), met) for n in x_fields)


class Guard:
    """A guard that inspects now and then whether the step writes into its state.

    An inspection costs a copy of the state. The first 32 calls are all
    inspected, later ones at random and more and more rarely: on average every
    32nd, and every 1,024th after a thousand inspections.
    """

    def __init__(self, always: bool = False) -> None:
        self.always = always  # inspect every call: one is known to be wrong
        self.looks = 0  # inspections that could compare something
        # whether states were seen to fill in attributes: caches, or not
        self.filled = False
        # whether there were states that can be changed and not copied
        self.blind = False
        self.tried = 0
        self.left = 0  # calls until the next inspection
        self.word = 1

    def due(self, calls: int = 1) -> bool:
        """Whether to inspect the next ``calls`` calls, all from one state."""
        self.left -= calls
        return self.left < 0 or self.always

    def copy_state(self, state: Any) -> Any:
        """A copy to compare the state with afterwards; None if that is impossible."""
        self.word = (
            self.word * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407
        ) % 2**64
        self.tried += 1
        largest_gap = 1 if self.tried < 32 else 64 if self.tried < 1000 else 2048
        self.left = (self.word >> 33) % largest_gap
        state_copy = copy_state(state)
        self.blind = self.blind or (
            state_copy is None and not is_fixed(state) and not is_opaque(state)
        )
        return state_copy

    def compare(self, before: Any, state: Any, action: int) -> None:
        """Refuse a state that differs from its copy ``before``."""
        if before is None:
            return
        self.looks += 1
        is_same = is_unchanged(before, state)
        if is_same is False:
            raise written_into(before, state, action)
        self.filled = self.filled or is_same is None

    @property
    def doubts(self) -> str:
        """The blind spots of the inspections, as the end of a sentence."""
        doubt_text = (
            "; attributes that states fill in while it runs are taken for caches"
            if self.filled
            else ""
        )
        return doubt_text + (
            "; some states cannot be copied, so writes into them go unseen"
            if self.blind
            else ""
        )


def written_into(before: Any, after: Any, action: int) -> OracleError:
    """A step changed the state that it was called with."""
    return OracleError(
        f"The oracle changed the state it was given: {before!r} became {after!r} under "
        f"action {action}. Copy the state in step, change the copy and return it: "
        "other samples start from the same state."
    )
