"""Gymnasium's functional environments (``FuncEnv``) as problems.

Their state is explicit, so nothing has to be copied or put back:

    next = transition(state, action, rng);  reward(state, action, next, rng)
    terminal(next, rng);  initial(rng)

``rng`` is one of two things, which ``access=`` names and "auto" finds out:

  numpy   a ``numpy.random.Generator`` on the planner's stream; a plain Python step
  jax     a key; the functions are compiled, and mapped over many states at once
          (``sc.batched(…, backend="jax", each=True)``)

A function that takes no ``rng`` (or ``key``) is called without one. An episode ends
where ``terminal`` holds in the next state. States may be anything that the functions
accept; in JAX, arrays or tuples of arrays. Out of scope: observations, since a planner
needs states, and ``params=``, which keep their defaults.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.experimental.functional import FuncEnv

from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.problem import MDP, Problem

NUMPY, JAX = "numpy", "jax"
NEEDED_FUNCTIONS = ("initial", "transition", "reward", "terminal")
RANDOM_PARAMETERS = ("rng", "key")  # names of the random parameter of a function


@dataclass(frozen=True, eq=False)
class FunctionalStep:
    """A step made of an environment's functions, which take ``rng`` as it is."""

    env: Any
    actions: Any  # the environment's actions for the problem's 0, 1, …
    takes_rng: tuple[str, ...]  # the functions that take random numbers

    def __call__(self, state: Any, move: Any, rng: Any) -> tuple[Any, Any, Any]:
        """(reward, next state, whether the episode ended) of an action of the env."""
        next_state = self._call_function("transition", rng, state, move)
        raw_reward = self._call_function("reward", rng, state, move, next_state)
        return raw_reward, next_state, self._call_function("terminal", rng, next_state)

    def initial(self, rng: Any) -> Any:
        """An initial state."""
        return self._call_function("initial", rng)

    def _call_function(self, name: str, rng: Any, *arguments: Any) -> Any:
        function = getattr(self.env, name)
        return (
            function(*arguments, rng)
            if name in self.takes_rng
            else function(*arguments)
        )


@dataclass(frozen=True, eq=False)
class FunctionalOracle:
    """The step of an environment with functions that take a NumPy Generator."""

    step: FunctionalStep
    reward: Callable[[float], float] | None

    def __call__(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One sample."""
        raw_reward, next_state, has_ended = self.step(
            state, self.step.actions[action], rng.numpy()
        )
        step_reward = float(raw_reward)
        return (
            step_reward if self.reward is None else self.reward(step_reward),
            next_state,
            bool(has_ended),
        )

    def reset(self, rng: Any) -> Any:
        """An initial state, sampled from ``rng``."""
        return self.step.initial(rng.numpy())


@dataclass(frozen=True, eq=False)
class JaxStep:
    """The step of one state in JAX: a row of a batch."""

    step: FunctionalStep
    reward: Callable[[Any], Any] | None

    def __call__(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        """One sample, as arrays."""
        import jax.numpy as jnp

        env_action = jnp.asarray(self.step.actions)[action]
        raw_reward, next_state, has_ended = self.step(state, env_action, key)
        step_reward = jnp.reshape(raw_reward, ())
        step_reward = step_reward if self.reward is None else self.reward(step_reward)
        return step_reward, next_state, jnp.reshape(has_ended, ())


@dataclass(frozen=True, eq=False)
class FunctionalRows(Batched):
    """The same over rows of states, with the environment's own initial states."""

    def reset(self, rng: Any) -> Any:
        """An initial state, sampled from ``rng``."""
        assert isinstance(self.function, JaxStep)
        key_source = self.backend.random(np.random.SeedSequence(int(rng.raw())))
        return _as_numpy(self.function.step.initial(key_source.next()))


def is_functional(env: Any) -> bool:
    """Whether ``env`` is one of Gymnasium's functional environments."""
    return isinstance(env, FuncEnv)


def functional_problem(
    env: Any,
    actions: Sequence[Any],
    /,
    *,
    reward: Callable[[float], float] | None,
    access: str,
    seed: int,
    **facts: Any,
) -> Problem:
    """The problem of a functional environment.

    Args:
        env: the environment.
        actions: the environment's actions for the problem's numbers 0, 1, and so on.
        reward: maps its rewards, or None.
        access: "auto", "numpy" or "jax": the kind of ``rng`` that its functions take.
        seed: of the initial state.
        facts: arguments of ``MDP``.
    """
    class_name = type(env).__name__
    missing_functions = [
        name
        for name in NEEDED_FUNCTIONS
        if getattr(type(env), name) is getattr(FuncEnv, name)
    ]
    if missing_functions:
        raise InvalidInput(
            f"{class_name} must define {', '.join(NEEDED_FUNCTIONS)} to be planned in, "
            f"and has no {missing_functions[0]}; add it to the class."
        )
    if access not in ("auto", NUMPY, JAX):
        raise InvalidInput(
            f"access of a functional environment must be auto, numpy or jax, by what "
            f"its functions take as rng; got {access!r}."
        )
    takes_rng = tuple(
        name for name in NEEDED_FUNCTIONS if _takes_random(getattr(env, name))
    )
    rng_kind = access if access != "auto" else (JAX if _uses_jax(env) else NUMPY)
    if rng_kind == JAX:
        oracle: Any = _build_rows(
            FunctionalStep(env, _stack_actions(actions), takes_rng), reward
        )
    else:
        oracle = FunctionalOracle(
            FunctionalStep(env, list(actions), takes_rng), reward
        )
    try:
        rng = stream(seed)
        first_state = oracle.reset(rng)
        oracle(first_state, 0, rng)
    except Exception as error:
        raise InvalidInput(
            f"{class_name} cannot be stepped with a "
            f"{'key' if rng_kind == JAX else 'Generator'} as rng ({describe_error(error)}); give "
            f"access='{JAX if rng_kind == NUMPY else NUMPY}', or a step of your own to "
            "MDP."
        ) from error
    return MDP(oracle, initial_state=first_state, **facts)


def _takes_random(function: Any) -> bool:
    return any(
        parameter_name in inspect.signature(function).parameters
        for parameter_name in RANDOM_PARAMETERS
    )


def _uses_jax(env: Any) -> bool:
    """Whether the module of the environment's class, or of a base of it, uses JAX."""
    for base_class in type(env).__mro__[:-1]:
        if base_class is not FuncEnv:
            module_values = vars(
                sys.modules.get(base_class.__module__, object)
            ).values()
            if any(_is_jax(value) for value in module_values):
                return True
    return False


def _is_jax(value: Any) -> bool:
    return inspect.ismodule(value) and value.__name__.partition(".")[0] == "jax"


def _build_rows(
    step: FunctionalStep, reward: Callable[[float], float] | None
) -> FunctionalRows:
    try:
        import jax  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "A functional environment in JAX needs JAX: pip install "
            "'smoothcruiser[jax]'."
        ) from error
    return FunctionalRows(JaxStep(step, reward), "jax", each=True)


def _stack_actions(actions: Sequence[Any]) -> Any:
    """The actions as one array, which compiled code indexes."""
    return np.stack([np.asarray(action) for action in actions])


def _as_numpy(state: Any) -> Any:
    """A state of JAX arrays as one of NumPy arrays; tuples stay tuples."""
    if isinstance(state, tuple):
        numpy_parts = [_as_numpy(state_part) for state_part in state]
        return (
            type(state)(*numpy_parts)
            if hasattr(state, "_fields")
            else tuple(numpy_parts)
        )
    state_array = np.asarray(state)
    if state_array.dtype == object:
        raise InvalidInput(
            "States in JAX must be arrays or tuples of arrays, got "
            f"{type(state).__name__}; give MDP a batched step of your own."
        )
    return state_array
