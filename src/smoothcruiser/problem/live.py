"""The problem of a running simulator that was passed in the place of a problem."""

from __future__ import annotations

from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.adapter import live_adapter, prefixes
from smoothcruiser.problem.problem import Problem


def live_problem(
    verb: str, simulator: Any, options: dict[str, Any]
) -> tuple[Problem, dict[str, Any]]:
    """The problem of a simulator, and the options that were not its adapter's."""
    refuse_parts(simulator)
    adapter = live_adapter(simulator)
    if adapter is None:
        known_prefixes = ", ".join(f"{prefix}:" for prefix in prefixes())
        raise InvalidInput(
            f"{verb} a Problem (MDP, Game, tabular, make) or a running simulator that "
            f"an adapter accepts (installed: {known_prefixes}), got "
            f"{type(simulator).__name__}."
        )
    adapter_options = {
        option_name: options[option_name]
        for option_name in adapter.options
        if option_name in options
    }
    if "discount" not in adapter_options or "operator" not in adapter_options:
        raise InvalidInput(
            f"{verb} an environment, which needs discount= and operator=, such as "
            "discount=0.9, operator=Max()."
        )
    other_options = {
        option_name: value
        for option_name, value in options.items()
        if option_name not in adapter_options
    }
    return adapter.problem(simulator, **adapter_options), other_options


def refuse_parts(part: Any) -> None:
    """Refuse the ingredients of a problem: a name, a step, arrays, a class."""
    if isinstance(part, str):
        hint = f"make it first: problem = make({part!r}, discount=0.9, operator='max')"
    elif isinstance(part, type):
        hint = f"{part.__name__} is a class; give an object of it"
    elif (
        isinstance(part, tuple | list) and part and hasattr(part[0], "shape")
    ) or hasattr(part, "shape"):
        hint = "of arrays make one: tabular(P, R, discount=0.9, operator=Max())"
    elif callable(part) and not hasattr(part, "step"):
        hint = (
            "of a step make one: MDP(step, num_actions=2, discount=0.9, operator=Max())"
        )
    else:
        return
    raise InvalidInput(
        "A problem (MDP, Game, tabular or make) was expected, got "
        f"{type(part).__name__}; {hint}."
    )
