"""Declarations in the same words for all adapters, names and ``make``.

Facts that its simulator does not tell may be declared of a problem that ``make`` or an
adapter builds:

    payoffs=end   total_reward_range=[0,1]   episodes_end=[20,1]   value_bounds=[-1,1]
    min_probability=0.1   key=module:function   actions=["left","right"]   horizon=100
    deterministic=true   minimize=true

``make`` takes them as keywords, the ``problem`` of every adapter too, and every name as
parameters, which is how the command line has them. ``"none"`` takes back an adapter's
own declaration. In names a function is ``module:function``. ``actions`` gives names;
where an adapter chooses actions by that word, a list of words is names.

The problem itself defines the meaning of a declaration and checks it
(``problem.declaration_checks``). This file leaves out ``reward_range``, which adapters have as a
word of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, TypedDict

import numpy as np

from smoothcruiser.errors import InvalidInput, describe_error
from smoothcruiser.problem.arguments import shorten_value
from smoothcruiser.problem.facts import AT_THE_END, EVERY_STEP
from smoothcruiser.problem.model.tabular import Tables, check_payoffs
from smoothcruiser.problem.problem import Problem

NOTHING = "none"  # takes back a declaration


class Declarations(TypedDict, total=False):
    """Declarations that a problem built elsewhere accepts."""

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
    minimize: bool | None


DECLARATIONS = tuple(Declarations.__annotations__)
NEUTRAL: dict[str, Any] = {
    "payoffs": EVERY_STEP,
    "deterministic": False,
    "minimize": False,
}
# declarations for one number of steps only: another horizon makes them doubtful
BY_HORIZON = ("value_bounds", "value_gap", "total_reward_range")


def pop_declarations(options: dict[str, Any]) -> dict[str, Any]:
    """The declarations, removed from options, in the form that problems take.

    None declares nothing: the adapter's own knowledge stays.
    """
    declared_values = {
        option_name: options.pop(option_name)
        for option_name in DECLARATIONS
        if option_name in options
    }
    return {
        option_name: _read_value(option_name, value)
        for option_name, value in declared_values.items()
        if value is not None
    }


def _read_value(name: str, value: Any) -> Any:
    """A declared value as an argument, such as the function of ``module:function``."""
    if isinstance(value, str) and value == NOTHING:
        if name == "actions":
            raise InvalidInput("actions= needs the names of the actions, got none.")
        return NEUTRAL.get(name)
    if name == "value_bounds" and isinstance(value, list | tuple):
        return tuple(_import_function(name, bound) for bound in value)
    if name == "key":
        return _import_function(name, value)
    if name in ("deterministic", "minimize") and not isinstance(value, bool):
        raise InvalidInput(
            f"{name} must be true or false, got {shorten_value(value)}."
        )
    return tuple(value) if isinstance(value, list) else value


def _import_function(name: str, value: Any) -> Any:
    """The function of ``module:function``; anything else as it is."""
    if not (isinstance(value, str) and ":" in value):
        return value
    module_name, _, attribute_name = value.partition(":")
    try:
        function = getattr(import_module(module_name), attribute_name)
    except Exception as error:
        raise InvalidInput(
            f"{name}={value} names no function that can be imported ({describe_error(error)}); "
            "write module:function."
        ) from error
    if not callable(function):
        raise InvalidInput(
            f"{name} must name a function of the state, and {value} is a "
            f"{type(function).__name__}."
        )
    return function


def split_actions(actions: Any) -> tuple[Any, tuple[str, ...] | None]:
    """(chosen actions, names of all actions), where one word gives either."""
    is_list = isinstance(actions, list | tuple) and len(actions) > 0
    if is_list and all(isinstance(label, str) for label in actions):
        return None, tuple(actions)
    return actions, None


def write_declarations(declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """Declarations as plain values, which ``pop_declarations`` reads; None if one has none."""
    plain_declared = {}
    for field_name, value in declared.items():
        is_sequence = isinstance(value, list | tuple)
        plain_values = [
            _plain_value(element) for element in (value if is_sequence else (value,))
        ]
        if any(plain_value is None for plain_value in plain_values):
            return None
        plain_declared[field_name] = plain_values if is_sequence else plain_values[0]
    return plain_declared


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if not callable(value):
        return value
    module_name = getattr(value, "__module__", None)
    function_path = f"{module_name}:{getattr(value, '__qualname__', '')}"
    if module_name in (None, "__main__"):
        return None
    try:
        return function_path if _import_function("", function_path) is value else None
    except InvalidInput:
        return None


def merge_declarations(
    facts: Mapping[str, Any], declared: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a problem with its declarations; senseless ones are refused.

    Args:
        facts: the arguments without them, ``name`` included.
        declared: as ``pop_declarations`` returns it.
    """
    problem_name, tables = facts.get("name", "problem"), facts.get("tables")
    changes = dict(declared)
    has_ends = facts.get("terminal") not in (None, False)
    for field_name in ("payoffs", "episodes_end"):
        if changes.get(field_name) not in (None, EVERY_STEP) and not has_ends:
            raise InvalidInput(
                f"{field_name}= is about the ends of episodes, and those of "
                f"{problem_name} never end; drop it."
            )
    if "minimize" in changes:
        _check_minimize(problem_name, facts, changes)
    if tables is not None:
        _check_tables(problem_name, tables, changes)
    horizon_changed = "horizon" in changes and changes["horizon"] != facts.get(
        "horizon"
    )
    if horizon_changed:
        changes = {**dict.fromkeys(BY_HORIZON), **changes}
    elif "value_bounds" in changes:
        changes.setdefault("value_gap", None)
    return {**facts, **changes}


def _check_minimize(
    name: str, facts: Mapping[str, Any], changes: dict[str, Any]
) -> None:
    """Refuse costs of a game, and drop bounds on V that hold for the other player."""
    if "player" in facts:
        if changes.pop("minimize"):
            raise InvalidInput(
                f"minimize= is for one player, and {name} has two, one of whom "
                "minimizes; drop it."
            )
        return
    if changes["minimize"] != facts.get("minimize", False):
        for field_name in ("value_bounds", "value_gap"):
            changes.setdefault(field_name, None)


def _check_tables(name: str, tables: Tables, changes: Mapping[str, Any]) -> None:
    """Refuse declarations that a known model disproves, and keys of its states."""
    if changes.get("key") is not None:
        raise InvalidInput(
            f"The states of {name} are the numbers of its table, which tell themselves "
            "apart; drop key=."
        )
    live_pairs = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    row_index = np.repeat(np.arange(len(live_pairs)), np.diff(tables.start))
    is_used = live_pairs[row_index] & (tables.prob > 0.0)
    if changes.get("payoffs") == AT_THE_END:
        check_payoffs(tables, is_used)
    if changes.get("deterministic"):
        has_several = np.bincount(row_index[is_used], minlength=len(live_pairs)) > 1
        if has_several.any():
            state, action = divmod(
                int(np.flatnonzero(has_several)[0]), tables.num_actions
            )
            raise InvalidInput(
                f"deterministic=True needs one outcome for every pair, and state {state}, "
                f"action {action} of {name} has several; drop it."
            )


def declare(problem: Problem, declared: Mapping[str, Any]) -> Problem:
    """The problem with these declarations in place of its own."""
    if not declared:
        return problem
    own_fields = {
        problem_field.name: getattr(problem, problem_field.name)
        for problem_field in fields(problem)
    }
    merged_items = merge_declarations(own_fields, declared).items()
    changed_fields = {
        field_name: value
        for field_name, value in merged_items
        if value is not own_fields[field_name]
    }
    return replace(problem, **changed_fields)
