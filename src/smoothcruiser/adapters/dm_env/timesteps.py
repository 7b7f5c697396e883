"""A ``dm_env`` environment by its class, and the problem that it makes.

Everything else comes from the Gymnasium adapter: copies that keep the whole state and
sample from the planner's stream, the trial, actions, rewards. States are distinguished
by the whole content of an environment (``gymnasium.whole``) where that can be
inspected, unless the user passes ``key=``. The range of rewards is that of
``reward_spec()`` where it has one; otherwise it must be declared.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import pop_own_options
from smoothcruiser.problem.declarations import DECLARATIONS
from smoothcruiser.problem.problem import Problem

try:
    import dm_env
    import gymnasium  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        "dm_env environments need dm_env and Gymnasium: pip install "
        "'smoothcruiser[dmenv]'."
    ) from error

from smoothcruiser.adapters.dm_env.steps import StepsView
from smoothcruiser.adapters.gymnasium import environments as access
from smoothcruiser.adapters.gymnasium.whole import HiddenContents, whole

OWN_OPTIONS = (*DECLARATIONS, "seed", "call_seconds", "reward_range")


def problem(
    env: Any,
    *,
    discount: float,
    operator: Operator,
    reward_range: tuple[float, float] | None = None,
    **more: Any,
) -> Problem:
    """The Problem of an environment, which is copied and left as it is.

    Args:
        env: an environment of dm_env.
        discount: weight of the next step's value, in [0, 1), or 1 with a horizon.
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        reward_range: (low, high), which holds every reward; known where ``reward_spec``
            is bounded.
        more: as for ``adapters.gymnasium.problem``, but ``access``.
    """
    if not isinstance(env, dm_env.Environment):
        raise InvalidInput(
            f"A dm_env environment was expected, got {type(env).__name__}; for its "
            "class use make('dm_env:module:Class', discount=0.9, temperature=0.1)."
        )
    more.setdefault("name", f"dm_env:{type(env).__name__}")
    if more.get("key") is None:
        try:
            whole(env)
            more["key"] = "contents"
        except HiddenContents:
            more["key"] = None
    return access.problem(
        StepsView(env),
        discount=discount,
        operator=operator,
        reward_range=reward_range or _read_reward_range(env),
        access="snapshot",
        **more,
    )


def _read_reward_range(env: Any) -> tuple[float, float] | None:
    """The range of ``reward_spec()``, where it is bounded."""
    spec = env.reward_spec()
    if not isinstance(spec, dm_env.specs.BoundedArray):
        return None
    lower_bound, upper_bound = float(np.min(spec.minimum)), float(np.max(spec.maximum))
    return (
        (lower_bound, upper_bound)
        if np.isfinite([lower_bound, upper_bound]).all()
        else None
    )


def build_by_name(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``dm_env:module:Class``; other parameters go to the class."""
    return build_problem(
        "dm_env", text, _build_environment, parameters, discount, operator
    )


def build_problem(
    prefix: str,
    text: str,
    build: Callable[[str, dict[str, Any]], Any],
    parameters: dict[str, Any],
    discount: float,
    operator: Operator,
) -> Problem:
    """The problem of ``prefix:text,name=value,…``; ``build`` makes its environment."""
    problem_options = pop_own_options(parameters, OWN_OPTIONS)
    problem_options.setdefault("seed", 0)
    shown_parameters = "".join(f",{k}={v}" for k, v in parameters.items())
    env = build(text, parameters)
    problem_options["name"] = f"{prefix}:{text}{shown_parameters}"
    return problem(env, discount=discount, operator=operator, **problem_options)


def _build_environment(text: str, parameters: dict[str, Any]) -> Any:
    """The environment of ``module:Class``."""
    module_name, colon, class_name = text.partition(":")
    if not colon:
        raise InvalidInput(
            "dm_env environments have no names; give dm_env:module:Class, got "
            f"{text!r}."
        )
    try:
        return getattr(import_module(module_name), class_name)(**parameters)
    except Exception as error:
        raise InvalidInput(
            f"{text} with {parameters} makes no environment: {describe_error(error)}; name a "
            "class or a function that returns one."
        ) from error
