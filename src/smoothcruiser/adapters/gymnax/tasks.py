"""A gymnax environment as a problem.

gymnax's environments are pure functions of (key, state, action, params). A planner
steps

    obs, next, reward, terminated, _ = step_env(key, state, action, params)
    ended = terminated or is_truncated(next, params)

and never ``step``, which starts the next episode by itself. The world's state is the
environment's and the flag ``ended``, less the parts without effect
(``problem.batched.trees``).

  time limit   ``is_truncated`` compares a counter in the state with
               ``max_steps_in_episode``, so time is a part of the state and episodes
               last that long at the most. ``time_limit=false`` leaves the limit out;
               the counter then has no effect in most environments and is dropped.
  parameters   those of ``EnvParams`` by their names; all others go to ``gymnax.make``.
               They enter the compiled step as arrays, as they do where a user
               compiles ``step_env`` with ``params`` as an argument.
  hidden       A planner sees the state. Where the environment hides a part of it (a
               bandit's arms, a goal), values are those of a player that sees it.

Rewards have to lie in ``reward_range``: known for most (``task_ranges``), declared
otherwise.
Out of scope: observations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Unpack

import numpy as np

from smoothcruiser.adapters.gymnax.task_ranges import (
    WHOLE,
    known_range,
    meanings,
    refuse,
)
from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import (
    check_keywords,
    check_seed,
    pop_reward_range,
    shorten_value,
)
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merge_declarations,
    pop_declarations,
    split_actions,
)
from smoothcruiser.problem.problem import MDP, Problem

try:
    import gymnax
    import jax
    import jax.numpy as jnp

    from smoothcruiser.problem.batched.jax import precise
    from smoothcruiser.problem.batched.trees import JaxWorld, environment_parameters
    from smoothcruiser.problem.batched.worlds import rows_of
except ImportError as error:
    raise MissingExtra(
        "gymnax environments need gymnax and JAX: pip install 'smoothcruiser[gymnax]'."
    ) from error

OWN_OPTIONS = (*DECLARATIONS, "seed", "time_limit", "x64")
ENDED = "ended"  # the leaf that this file adds to a state


class EndedState(NamedTuple):
    """A state of the environment, and whether the episode is over there."""

    state: Any
    ended: Any


class GymnaxOptions(Declarations, total=False):
    """The keywords of ``problem`` that most environments do without."""

    reward_range: tuple[float, float] | None
    time_limit: bool
    x64: bool
    seed: int
    name: str | None


def problem(
    env: Any,
    params: Any = None,
    *,
    discount: float,
    operator: Operator,
    **more: Unpack[GymnaxOptions],
) -> Problem:
    """The Problem of a gymnax environment.

    Args:
        env: an environment of gymnax, or one of your own with its methods.
        params: its parameters; by default its ``default_params``.
        discount: weight of the next step's value, in [0, 1]; 1 needs a time limit or
            a horizon.
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        reward_range: (low, high), which holds every reward. Needed unless it is known
            (``task_ranges.RANGES``).
        actions: the environment's actions for the planner's numbers 0, 1, and so on. A
            number n makes a grid of n values per dimension of a Box. The default is all
            actions of a discrete space.
        horizon: steps until the end; None for no limit but the environment's own. With
            discount 1 it is the longest episode, where that is known.
        time_limit: whether ``max_steps_in_episode`` ends episodes; True by default.
        deterministic: whether a step from one state always has one outcome. It is
            detected where the step uses no key at all; True declares it where the
            parameters switch chance off (Acrobot without noise, DeepSea).
        x64: whether the environment computes in float64; False by default, as gymnax
            itself.
        seed: of the initial state; 0 by default.
        name: shown in answers; the default is ``gymnax:`` and the environment's name.
        more: these and declarations, as for ``make``.

    Example:
        ``problem(*gymnax.make("CartPole-v1"), discount=0.9, operator=sc.Max())``
    """
    check_keywords("problem", more, (*GymnaxOptions.__annotations__, *DECLARATIONS))
    declarations = pop_declarations(
        {k: v for k, v in more.items() if k in DECLARATIONS}
    )
    actions = declarations.pop("actions", None)
    x64, has_limit = more.get("x64", False), more.get("time_limit", True)
    for flag_name, flag_value in (("x64", x64), ("time_limit", has_limit)):
        if not isinstance(flag_value, bool):
            raise InvalidInput(
                f"{flag_name} must be true or false, got {flag_value!r}."
            )
    seed = more.get("seed", 0)
    check_seed(seed)
    missing_methods = [
        name for name in ("step_env", "reset_env") if not hasattr(env, name)
    ]
    if missing_methods:
        raise InvalidInput(
            f"A gymnax environment has step_env and reset_env, and a "
            f"{type(env).__name__} has no {missing_methods[0]}; for a registered one "
            "use make('gymnax:CartPole-v1', discount=0.9, temperature=0.1)."
        )
    params = env.default_params if params is None else params
    is_own = type(env).__module__.startswith("gymnax.")
    known_name = str(env.name) if is_own else ""
    problem_name = (
        more.get("name") or f"gymnax:{getattr(env, 'name', type(env).__name__)}"
    )
    with precise(x64):
        action_choice, action_labels = actions, None
        if hasattr(env.action_space(params), "n"):
            action_choice, action_labels = split_actions(actions)
        env_actions = _list_actions(env, params, action_choice)
        reward_bounds = more.get("reward_range") or known_range(
            known_name, env, params, env_actions
        )
    if reward_bounds is None:
        raise InvalidInput(
            f"{problem_name} does not say in which range its rewards lie; give "
            "reward_range=(low, high), such as reward_range=[-1,1] in the name."
        )
    world = _world(env, params, env_actions, known_name, limited=has_limit, x64=x64)
    oracle = rows_of(world, seed)
    is_deterministic = (
        declarations.get("deterministic", False) or not oracle.form.matter.chance
    )
    max_steps = _longest_episode(env, params) if is_own and has_limit else None
    if declarations.get("horizon") is None and discount == 1:
        declarations["horizon"] = max_steps
    facts: dict[str, Any] = {
        "num_actions": len(env_actions),
        "discount": discount,
        "operator": operator,
        "reward_range": (float(reward_bounds[0]), float(reward_bounds[1])),
        "initial_state": oracle.origin,
        "deterministic": is_deterministic,
        "outcomes": oracle.outcomes if is_deterministic else None,
        "episodes_end": None if max_steps is None else (max_steps, 1.0),
        "key": oracle.identity(),
        "actions": action_labels
        or _action_labels(known_name, env, params, env_actions),
        "name": problem_name,
        **oracle.companions(),
    }
    return MDP(oracle, **merge_declarations(facts, declarations))


def build_by_name(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``gymnax:text,name=value,…``.

    ``text`` is an id or ``module:Class``. Parameters that are not this adapter's own
    are the environment's.
    """
    refuse(text)
    problem_options: dict[str, Any] = {
        k: parameters.pop(k) for k in OWN_OPTIONS if k in parameters
    }
    problem_options["reward_range"] = pop_reward_range(parameters)
    shown_parameters = "".join(f",{k}={v}" for k, v in parameters.items())
    with precise(problem_options.get("x64") is True):
        env, params = _build_environment(text, parameters)
    return problem(
        env,
        params,
        discount=discount,
        operator=operator,
        name=f"gymnax:{text}{shown_parameters}",
        **problem_options,
    )


# --- the environment ----------------------------------------------------------


def _build_environment(text: str, parameters: dict[str, Any]) -> tuple[Any, Any]:
    """An environment and its parameters: a registered one, or ``module:Class``."""
    module_name, colon, class_name = text.partition(":")
    try:
        if colon:
            factory: Callable[..., Any] = getattr(
                import_module(module_name), class_name
            )
        else:

            def factory(**options: Any) -> Any:
                return gymnax.make(text, **options)[0]

        env = factory(**_constructor_options(factory, text, parameters))
        params = env.default_params
        param_names = (
            [field.name for field in fields(params)] if is_dataclass(params) else []
        )
        env_parameters = {k: v for k, v in parameters.items() if k in param_names}
        return env, params.replace(**env_parameters) if env_parameters else params
    except SyntaxError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"gymnax cannot make {text!r} with {parameters}: {describe_error(error)}; "
            f"{_suggest_remedy(text, colon)}."
        ) from error


def _constructor_options(
    factory: Any, text: str, parameters: dict[str, Any]
) -> dict[str, Any]:
    """The parameters that are the constructor's: those that ``EnvParams`` has not."""
    if not parameters:
        return {}
    params = factory().default_params
    param_names = (
        [field.name for field in fields(params)] if is_dataclass(params) else []
    )
    return {k: v for k, v in parameters.items() if k not in param_names}


def _suggest_remedy(text: str, colon: str) -> str:
    if colon or text in gymnax.registered_envs:
        return "check its parameters"
    return f"it has {', '.join(gymnax.registered_envs)}"


def _world(
    env: Any,
    params: Any,
    actions: Sequence[Any],
    known_name: str,
    *,
    limited: bool,
    x64: bool,
) -> JaxWorld:
    """The environment as pure functions of one state."""
    param_leaves, param_structure = jax.tree.flatten(params)
    with precise(x64):
        action_table = np.stack([np.asarray(action) for action in actions])

    def rebuild_params(fence: Callable[[Any], Any]) -> Any:
        return jax.tree.unflatten(
            param_structure, fence([jnp.asarray(leaf) for leaf in param_leaves])
        )

    def step(
        episode: EndedState, action: Any, key: Any, fence: Callable[[Any], Any]
    ) -> tuple[Any, EndedState, Any]:
        fenced_params = rebuild_params(fence)
        state, env_action = fence((episode.state, jnp.asarray(action_table)[action]))
        _, next_state, step_reward, is_over, *_ = fence(
            env.step_env(key, state, env_action, fenced_params)
        )
        has_ended = jnp.reshape(jnp.asarray(is_over, dtype=bool), ())
        if limited and hasattr(env, "is_truncated"):
            is_late = jnp.asarray(
                env.is_truncated(next_state, fenced_params), dtype=bool
            )
            has_ended = has_ended | jnp.reshape(is_late, ())
        return jnp.asarray(step_reward), EndedState(next_state, has_ended), has_ended

    def init(key: Any) -> EndedState:
        _, state = env.reset_env(key, rebuild_params(_fence_values))
        return EndedState(state, jnp.bool_(False))

    def as_ended_state(state: Any) -> Any:
        return state if isinstance(state, EndedState) else EndedState(state, np.False_)

    plain_params = [np.asarray(x).tolist() for x in param_leaves]
    return JaxWorld(
        title=str(getattr(env, "name", type(env).__name__)),
        step=partial(step, fence=_leave_open),
        run=partial(step, fence=_fence_values),
        init=init,
        num_actions=len(actions),
        ends=(ENDED,),
        stands_for=(
            type(env),
            environment_parameters(env),
            str(param_structure),
            plain_params,
            action_table,
            limited,
            gymnax,
        ),
        x64=x64,
        read=as_ended_state,
        inside="state",
        whole_rewards=known_name in WHOLE,
    )


def _leave_open(values: Any) -> Any:
    return values


def _fence_values(values: Any) -> Any:
    """The same values, across which the compiler neither moves nor fuses anything.

    Code between two fences is compiled as in the user's own ``jit(step_env)``. Without
    them parameters are constants, and rounding depends on the surrounding code.
    """
    return jax.lax.optimization_barrier(values)


def _longest_episode(env: Any, params: Any) -> int | None:
    """Steps of the longest episode of one of gymnax's own environments."""
    max_steps = getattr(params, "max_steps_in_episode", None)
    if max_steps is None or not hasattr(env, "is_truncated"):
        return None
    whole_steps = int(np.ceil(float(max_steps)))
    return whole_steps if whole_steps >= 1 else None


# --- actions ------------------------------------------------------------------


def _list_actions(env: Any, params: Any, choice: Any) -> list[Any]:
    """The environment's actions for the planner's numbers 0, 1, and so on."""
    action_space = env.action_space(params)
    if hasattr(action_space, "n"):
        all_actions = list(range(int(action_space.n)))
        chosen_actions = all_actions if choice is None else choice
        if not isinstance(chosen_actions, Iterable) or any(
            x not in all_actions for x in chosen_actions
        ):
            raise InvalidInput(
                f"actions= must list actions from 0 to {len(all_actions) - 1}, got "
                f"{shorten_value(choice)}; leave it out for all of them."
            )
        return [int(x) for x in chosen_actions]
    lower_bound, upper_bound, shape = (
        getattr(action_space, x, None) for x in ("low", "high", "shape")
    )
    if shape is not None and isinstance(choice, int) and choice >= 2:
        box_ends = [
            np.broadcast_to(np.asarray(x, np.float32), shape)
            for x in (lower_bound, upper_bound)
        ]
        if np.all(np.isfinite(box_ends)):
            axis_ends = zip(
                box_ends[0].reshape(-1), box_ends[1].reshape(-1), strict=True
            )
            axis_values = (
                np.linspace(a, b, choice, dtype=np.float32) for a, b in axis_ends
            )
            return [
                np.array(x).reshape(shape) for x in itertools.product(*axis_values)
            ]
    if shape is not None and isinstance(choice, list | tuple):
        return [_check_box_action(action_space, x) for x in choice]
    raise InvalidInput(
        f"The actions {action_space!r} are not a short list; give actions=[…], or "
        "actions=n for a grid of n >= 2 values per dimension."
    )


def _check_box_action(space: Any, action: Any) -> Any:
    """An action as an array of the shape of a Box."""
    try:
        box_action = np.asarray(action, np.float32).reshape(space.shape)
        if np.all(box_action >= np.asarray(space.low)) and np.all(
            box_action <= np.asarray(space.high)
        ):
            return box_action
    except (TypeError, ValueError):
        pass
    raise InvalidInput(
        f"actions= must list actions of {space!r}, got {shorten_value(action)}; drop it, "
        "or change it."
    )


def _action_labels(
    known_name: str, env: Any, params: Any, actions: Sequence[Any]
) -> tuple[str, ...] | None:
    """The names of the chosen actions; None where some have no name."""
    if not isinstance(actions[0], int):
        value_labels = [
            f"[{', '.join(f'{x:g}' for x in np.ravel(a))}]" for a in actions
        ]
        return (
            tuple(value_labels)
            if len(set(value_labels)) == len(value_labels)
            else None
        )
    action_names = meanings(known_name, env, int(env.action_space(params).n))
    return None if action_names is None else tuple(action_names[a] for a in actions)
