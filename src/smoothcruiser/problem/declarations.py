"""Declarations through every door: the same words for all adapters, names and ``make``.

A problem that ``make`` or an adapter builds may be told what its simulator does not say:

    payoffs=end   total_reward_range=[0,1]   episodes_end=[20,1]   value_bounds=[-1,1]
    min_probability=0.1   key=module:function   actions=["left","right"]   horizon=100
    deterministic=true

``make`` takes them as keywords, the ``problem`` of every adapter too, and every name as
parameters, which is how the command line has them. ``"none"`` takes back what an adapter
declares by itself. In names a function is ``module:function``. ``actions`` gives names;
where an adapter chooses actions by that word, a list of words is names.

What a declaration claims, and how it is checked, is the problem's own
(``problem.declared``). What this file leaves out: ``reward_range``, which adapters have
as a word of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, TypedDict

import numpy as np

from smoothcruiser.errors import InvalidInput, said
from smoothcruiser.problem.arguments import shortened
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Tables, check_payoffs
from smoothcruiser.problem.totals import AT_THE_END, EVERY_STEP

NOTHING = "none"  # takes back what is declared


class Declarations(TypedDict, total=False):
    """What may be declared of a problem that something else builds."""

    payoffs: str | None
    total_reward_range: Sequence[float] | str | None
    episodes_end: Sequence[float] | str | None
    value_bounds: Sequence[Any] | str | None
    value_gap: float | None
    min_probability: float | str | None
    key: Callable[[Any], Hashable] | str | None
    actions: Sequence[Any] | int | None
    horizon: int | str | None
    deterministic: bool | None


DECLARATIONS = tuple(Declarations.__annotations__)
NEUTRAL: dict[str, Any] = {"payoffs": EVERY_STEP, "deterministic": False}
# what holds for one number of steps only: another horizon makes it doubtful
BY_HORIZON = ("value_bounds", "value_gap", "total_reward_range")


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """The declarations among options, which lose them, in the form that problems take.

    None declares nothing: what the adapter knows stays.
    """
    words = {name: options.pop(name) for name in DECLARATIONS if name in options}
    return {
        name: _read(name, value) for name, value in words.items() if value is not None
    }


def _read(name: str, value: Any) -> Any:
    """A value as it is meant: lists are tuples, ``module:function`` a function."""
    if isinstance(value, str) and value == NOTHING:
        if name == "actions":
            raise InvalidInput("actions= needs the names of the actions, got none.")
        return NEUTRAL.get(name)
    if name == "value_bounds" and isinstance(value, list | tuple):
        return tuple(_function(name, x) for x in value)
    if name == "key":
        return _function(name, value)
    if name == "deterministic" and not isinstance(value, bool):
        raise InvalidInput(
            f"deterministic must be true or false, got {shortened(value)}."
        )
    return tuple(value) if isinstance(value, list) else value


def _function(name: str, value: Any) -> Any:
    """The function of ``module:function``; anything else as it is."""
    if not (isinstance(value, str) and ":" in value):
        return value
    module, _, attribute = value.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except Exception as error:
        raise InvalidInput(
            f"{name}={value} names no function that can be imported ({said(error)}); "
            "write module:function."
        ) from error
    if not callable(function):
        raise InvalidInput(
            f"{name} must name a function of the state, and {value} is a "
            f"{type(function).__name__}."
        )
    return function


def chosen_or_named(actions: Any) -> tuple[Any, tuple[str, ...] | None]:
    """(which actions, what all are called), where one word says either."""
    words = isinstance(actions, list | tuple) and len(actions) > 0
    if words and all(isinstance(each, str) for each in actions):
        return None, tuple(actions)
    return actions, None


def written(declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """Declarations as plain values that ``taken`` reads; None if one has no name."""
    values = {}
    for name, value in declared.items():
        many = isinstance(value, list | tuple)
        parts = [_written(x) for x in (value if many else (value,))]
        if None in parts:
            return None
        values[name] = parts if many else parts[0]
    return values


def _written(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if not callable(value):
        return value
    module = getattr(value, "__module__", None)
    text = f"{module}:{getattr(value, '__qualname__', '')}"
    if module in (None, "__main__"):
        return None
    try:
        return text if _function("", text) is value else None
    except InvalidInput:
        return None


def merged(facts: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a problem with what is declared; what makes no sense is refused.

    Args:
        facts: the arguments without it, ``name`` among them.
        declared: as ``taken`` returns it.
    """
    name, tables = facts.get("name", "problem"), facts.get("tables")
    changes = dict(declared)
    ends = facts.get("terminal") not in (None, False)
    for word in ("payoffs", "episodes_end"):
        if changes.get(word) not in (None, EVERY_STEP) and not ends:
            raise InvalidInput(
                f"{word}= is about the ends of episodes, and those of {name} never end; "
                "drop it."
            )
    if tables is not None:
        _check_tables(name, tables, changes)
    changed = "horizon" in changes and changes["horizon"] != facts.get("horizon")
    if changed:
        changes = {**dict.fromkeys(BY_HORIZON), **changes}
    elif "value_bounds" in changes:
        changes.setdefault("value_gap", None)
    return {**facts, **changes}


def _check_tables(name: str, tables: Tables, changes: Mapping[str, Any]) -> None:
    """Refuse what a known model disproves, and keys of its numbered states."""
    if changes.get("key") is not None:
        raise InvalidInput(
            f"The states of {name} are the numbers of its table, which tell themselves "
            "apart; drop key=."
        )
    live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    row = np.repeat(np.arange(len(live)), np.diff(tables.start))
    used = live[row] & (tables.prob > 0.0)
    if changes.get("payoffs") == AT_THE_END:
        check_payoffs(tables, used)
    if changes.get("deterministic"):
        several = np.bincount(row[used], minlength=len(live)) > 1
        if several.any():
            state, action = divmod(int(np.flatnonzero(several)[0]), tables.num_actions)
            raise InvalidInput(
                f"deterministic=True needs one outcome for every pair, and state {state}, "
                f"action {action} of {name} has several; drop it."
            )


def declare(problem: Problem, declared: Mapping[str, Any]) -> Problem:
    """The problem with what is declared of it, in place of its own declarations."""
    if not declared:
        return problem
    facts = {each.name: getattr(problem, each.name) for each in fields(problem)}
    every = merged(facts, declared).items()
    changed = {name: value for name, value in every if value is not facts[name]}
    return replace(problem, **changed)
