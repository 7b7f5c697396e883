"""The observation of a state, for policies that were learned from observations.

An environment shows something at a reset and after a step, and not in between. The
observation of a state is computed anew, by the function that most environments have for
it (``_get_obs``, ``_get_ob``, ``gen_obs``), or from its state attribute, cast to the
observation space; then through the observation wrappers, from the inside out. Nothing
of this is a rule of Gymnasium. So wherever the last step led to the requested state,
the result is compared with the observation of that step, and a difference is refused:
memory in a wrapper, noise, or an environment that computes observations elsewhere.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from smoothcruiser.adapters.gymnasium.copies import layers, title
from smoothcruiser.errors import InvalidInput

FUNCTIONS = ("_get_obs", "_get_ob", "gen_obs")
ATTRIBUTES = ("s", "state")


def compute_observation(
    env: Any, state: Any, last_state: Any, last_observation: Any
) -> Any:
    """The observation of ``env``, which was put into ``state``.

    Args:
        env: a private copy, which may be written into.
        state: the state it is in.
        last_state: the state that the last step led to.
        last_observation: the observation of that step.
    """
    computed_observation = _observe_layers(env)
    if last_state is state and not _equal(computed_observation, last_observation):
        raise InvalidInput(
            f"What {title(env)} shows in a state is not known to the adapter: its step "
            f"showed {_shorten(last_observation)}, and "
            f"{_shorten(computed_observation)} was computed; give a function of the "
            "state that asks the model, such as lambda state: "
            "model.predict(see(state))[0]."
        )
    return computed_observation


def _observe_layers(env: Any) -> Any:
    """The observation that the innermost environment and its wrappers compute."""
    observation = _observe_innermost(env.unwrapped)
    for layer in reversed(layers(env)[:-1]):
        if isinstance(layer, gymnasium.ObservationWrapper):
            observation = layer.observation(observation)
    return observation


def _observe_innermost(inner: Any) -> Any:
    for attribute_name in FUNCTIONS:
        compute = getattr(inner, attribute_name, None)
        if callable(compute):
            try:
                return compute()
            except TypeError:  # one that wants arguments
                continue
    space = inner.observation_space
    for attribute_name in ATTRIBUTES:
        state_value = getattr(inner, attribute_name, None)
        if state_value is not None and isinstance(space, gymnasium.spaces.Discrete):
            return int(state_value)
        if state_value is not None and isinstance(space, gymnasium.spaces.Box):
            state_array = np.array(state_value, dtype=space.dtype)
            if state_array.shape == space.shape:
                return state_array
    raise InvalidInput(
        f"What {title(inner)} shows in a state is not known to the adapter (it has "
        f"neither {' nor '.join(FUNCTIONS)}, nor a state like its observations); give "
        "a function of the state that asks the model."
    )


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _equal(left[entry_name], right[entry_name]) for entry_name in left
        )
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    try:
        return bool(np.array_equal(left, right, equal_nan=True))
    except TypeError:  # texts
        return bool(np.array_equal(left, right))


def _shorten(value: Any) -> str:
    return " ".join(f"{value!r:.80}".split())
