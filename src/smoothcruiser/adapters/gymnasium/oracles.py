"""Ways to step an environment from any state: set, restore a clone, or copy.

Each oracle owns one private copy of the environment (``env``) that samples from the
planner's stream. It knows how to write a state into a copy (``restore``) and how to
read one (``state_of``). ``read`` is for the user's own environment, which is read or
copied, and never stepped, reset or reseeded. ``whole`` uses ``mark``, a state together
with the randomness that it holds, and ``rewind``, an environment that continues from
there.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np

from smoothcruiser.adapters.gymnasium.copies import (
    GENERATORS,
    Path,
    View,
    adopt,
    contents,
    first_difference,
    format_path,
    is_forgetful,
    kinds,
    layer_fields,
    modules_among,
    parts,
    private_copy,
    remembering_copy,
    reward_number,
    strip_watchers,
    title,
)
from smoothcruiser.adapters.gymnasium.tables import compute_observation
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.random.generator import legacy, stream_generator
from smoothcruiser.states.identity import is_fixed

Reward = Callable[[float], float]
# shared by copies of a copy: spaces sample from the planner's stream, and a spec
# only describes
SHARED_FIELDS = ("spec", "action_space", "observation_space")
# attributes of Gymnasium's own environments for pictures and warnings
PICTURE_FIELDS = ("lastaction", "last_u", "steps_beyond_terminated")
# tables of its toy texts, which steps only read: copying Taxi's takes 40 ms
TABLE_FIELDS = ("P", "desc", "initial_state_distrib")


def _no_numbers() -> InvalidInput:
    return InvalidInput(
        "The environment's state attribute holds no numbers; use access='snapshot'."
    )


class EnvOracle:
    """Steps from any state, in a private copy that uses the planner's stream."""

    harmless: tuple[str, ...] = ()  # attributes that no later step depends on
    state_holder = "a copy"  # the holder of a state, for sentences

    def __init__(
        self,
        env: Any,
        actions: Sequence[Any],
        reward: Reward | None,
        key: Callable[[Any], Any] | None,
        rng: Any,
    ) -> None:
        """Copy ``env``, and reset the copy with the stream ``rng`` if there is one."""
        self.generator, self.bits = stream_generator()
        self.actions, self.reward, self.key = list(actions), reward, key
        self.kinds = kinds(env)
        self.shown_last: tuple[Any, Any] = (None, None)  # a state and its observation
        self.env = self.twin(env)
        if rng is not None:
            self.bits.bind(rng)
            self.env = self.begin_episode(self.env)

    def __fingerprint__(self) -> Any:
        """Everything that steps depend on beside the state; the copy holds both."""
        fixed_fields = layer_fields(self.env, self.harmless)
        return (
            type(self),
            self.kinds,
            self.actions,
            self.reward,
            self.key,
            fixed_fields,
        )

    @property
    def inner(self) -> Any:
        """The private copy without its wrappers."""
        return self.env.unwrapped

    def twin(self, env: Any) -> Any:
        """Another environment like ``env`` that samples from the planner's stream.

        Where states can be written into it, it need not be in the state of
        ``env``.
        """
        return private_copy(env, self.generator)

    def reset(self, rng: Any) -> Any:
        """An initial state, sampled from ``rng``."""
        self.bits.bind(rng)
        self.env = self.begin_episode(self.env)
        return self.current_state()

    def current_state(self) -> Any:
        """The state that the private copy is in."""
        return self.state_of(self.env)

    def attempt(self, env: Any, turn: int) -> int:
        """The number of the action that a trial takes at its ``turn``."""
        return turn % len(self.actions)

    def trial_view(self, env: Any, observation: Any) -> Any:
        """The view that a trial compares after a step: the observation of the step."""
        return observation

    def begin_episode(self, twin: Any) -> Any:
        """A private copy at the start of an episode.

        Generators that the reset created are replaced by the planner's.
        """
        twin.reset()
        return (
            private_copy(twin, self.generator)
            if self.strange_generator(twin)
            else twin
        )

    def strange_generator(self, twin: Any) -> Path | None:
        """Where a private copy holds a generator that is not the planner's."""
        own_generators = (self.generator, legacy(self.generator))
        for path, component in parts(twin):
            if isinstance(component, GENERATORS) and not any(
                component is own_generator for own_generator in own_generators
            ):
                return path
        return None

    def __call__(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One step from ``state``: (reward, next state, whether the episode ended)."""
        self.bits.bind(rng)
        env = self.restore(state)
        observation, reward, terminated, truncated, _ = env.step(self.actions[action])
        step_reward = reward_number(env, reward)
        if self.reward is not None:
            step_reward = float(self.reward(step_reward))
        next_state = self.state_of(env)
        self.shown_last = (next_state, observation)
        return step_reward, next_state, bool(terminated or truncated)

    def observe(self, state: Any) -> Any:
        """The observation in ``state``; compared with the one of the last step."""
        return compute_observation(self.restore(state), state, *self.shown_last)

    def parse(self, state: Any) -> Any:
        """``state``, or the state of a running environment in its place."""
        running_env = self.as_environment(state)
        return (
            self.read(running_env) if isinstance(running_env, gymnasium.Env) else state
        )

    def as_environment(self, env: Any) -> Any:
        """A running simulator as an environment; anything else as it is."""
        return self.inner.like(env) if isinstance(self.inner, View) else env

    def read(self, env: Any) -> Any:
        """The state that the user's environment is in."""
        self.check_kind(env)
        differing_path = self.difference_between(strip_watchers(env), self.env)
        if differing_path is not None:
            raise InvalidInput(
                f"This {title(env)} differs in {format_path(differing_path)} from "
                "the one that the problem was made of; make a problem of this one, or "
                "use access='snapshot'."
            )
        return self.state_of(env)

    def check_kind(self, env: Any) -> None:
        """Refuse an environment of another kind, or one at the end of its episode."""
        if kinds(env) != self.kinds:
            kind_names = " of ".join(layer_type.__name__ for layer_type in self.kinds)
            raise InvalidInput(
                f"The problem was made of {kind_names}, and {env} was given; pass that "
                "one."
            )
        if getattr(env.unwrapped, "steps_beyond_terminated", None) is not None:
            raise InvalidInput(
                f"The episode of {title(env)} is over; reset it, then plan."
            )

    def difference_between(self, first_env: Any, second_env: Any) -> Path | None:
        """Where two environments differ beside their states, or None."""
        return self.difference_outside(contents(first_env), contents(second_env))

    def difference_outside(
        self, first_contents: dict[Path, Any], second_contents: dict[Path, Any]
    ) -> Path | None:
        """Where two environments differ outside their states, or None."""
        ignored_paths = {(name,) for name in self.harmless}
        return first_difference(
            *(
                {
                    path: component
                    for path, component in env_contents.items()
                    if path[:1] not in ignored_paths
                }
                for env_contents in (first_contents, second_contents)
            )
        )

    def forgetting_error(self, name: str) -> InvalidInput:
        """The refusal of an environment that keeps ``name`` outside its state."""
        return InvalidInput(
            f"{title(self.env)} keeps more than {self.state_holder} holds "
            f"({name}), so it cannot be put back; use access='snapshot'."
        )

    def mark(self, env: Any) -> Any:
        """The state that an environment is in, with its randomness."""
        return self.state_of(env)

    def rewind(self, mark: Any) -> Any:
        """An environment that continues from ``mark``."""
        return self.restore(mark)

    def restore(self, state: Any) -> Any:
        """An environment in ``state``, free to be stepped."""
        raise NotImplementedError

    def state_of(self, env: Any) -> Any:
        """The state that an environment is in."""
        raise NotImplementedError


class SetOracle(EnvOracle):
    """States are written into the private copy, which may be a new instance."""

    def twin(self, env: Any) -> Any:
        """A copy, or an environment from the same constructor where copying fails."""
        try:
            return super().twin(env)
        except InvalidInput:
            inner_env = strip_watchers(env)
            if inner_env is not env.unwrapped or not is_forgetful(inner_env):
                raise
            env_copy = deepcopy(inner_env)
            env_copy.reset(seed=0)
            adopt(env_copy, self.generator)
            return env_copy


class StateOracle(SetOracle):
    """States are the values of ``unwrapped.s`` or ``unwrapped.state``, as numbers."""

    state_holder = "its state attribute"

    def __init__(self, env: Any, *arguments: Any) -> None:
        super().__init__(env, *arguments)
        self.attribute = "s" if getattr(self.inner, "s", None) is not None else "state"
        is_gymnasium_own = type(self.inner).__module__.startswith("gymnasium.envs.")
        self.harmless = (
            (self.attribute, *PICTURE_FIELDS)
            if is_gymnasium_own
            else (self.attribute,)
        )
        self.example = getattr(self.inner, self.attribute, None)
        if not is_fixed(self.state_of(self.inner)) or self.example is None:
            raise _no_numbers()

    def restore(self, state: Any) -> Any:
        """The private copy, put into ``state``."""
        example = self.example
        array_dtype = (
            example.dtype
            if isinstance(example, np.ndarray) and example.dtype.kind in "iub"
            else np.float64
        )
        setattr(
            self.inner,
            self.attribute,
            np.array(state, dtype=array_dtype)
            if isinstance(example, np.ndarray)
            else state,
        )
        # CartPole's count of steps after the end
        if hasattr(self.inner, "steps_beyond_terminated"):
            self.inner.steps_beyond_terminated = None
        return self.env

    def state_of(self, env: Any) -> Any:
        """The state as a number or a tuple of numbers."""
        state_value = getattr(env.unwrapped, self.attribute, None)
        if isinstance(state_value, np.ndarray | tuple | list):
            try:
                return tuple(np.asarray(state_value).tolist())
            except ValueError as error:  # lists of several lengths
                raise _no_numbers() from error
        return (
            state_value.item() if isinstance(state_value, np.generic) else state_value
        )

    def parse(self, state: Any) -> Any:
        """A state read from JSON, or that of a running environment."""
        return tuple(state) if isinstance(state, list) else super().parse(state)


class MujocoOracle(SetOracle):
    """States are MuJoCo's integration states, as bytes."""

    state_holder = "MuJoCo's integration state"

    def __init__(self, env: Any, *arguments: Any) -> None:
        import mujoco

        super().__init__(env, *arguments)
        self.mujoco, self.part = mujoco, mujoco.mjtState.mjSTATE_INTEGRATION
        self.size = mujoco.mj_stateSize(self.inner.model, self.part)

    def restore(self, state: Any) -> Any:
        """The private copy, put into ``state``.

        Positions of bodies are recomputed, since rewards read them before the
        step.
        """
        model, data = self.inner.model, self.inner.data
        self.mujoco.mj_setState(model, data, np.frombuffer(state), self.part)
        self.mujoco.mj_kinematics(model, data)
        self.mujoco.mj_comPos(model, data)
        return self.env

    def state_of(self, env: Any) -> bytes:
        """The state as bytes."""
        buffer = np.empty(self.size)
        self.mujoco.mj_getState(
            env.unwrapped.model, env.unwrapped.data, buffer, self.part
        )
        return buffer.tobytes()


class Clone:
    """The result of ``clone_state`` as a state; equal if the bytes are."""

    __slots__ = ("bytes", "state")

    def __init__(self, state: Any) -> None:
        self.state, self.bytes = state, pickle.dumps(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clone) and self.bytes == other.bytes

    def __hash__(self) -> int:
        return hash(self.bytes)

    def __reduce__(self) -> Any:
        return Clone, (self.state,)

    def __repr__(self) -> str:
        return f"Clone({type(self.state).__name__}, {hash(self) & 0xFFFFFF:06x})"


class CloneOracle(SetOracle):
    """States are clones without their generator (``clone_state``: ALE).

    An emulator may sample from its own generator, which the planner cannot replace. A
    clone that holds it would let the planner foresee random numbers. So clones leave it
    out, and every step begins with ``reset(seed=...)`` under a seed from the planner's
    stream. ALE without repeated actions samples nothing. With them it is refused: it
    repeats the last action, which no clone holds.
    """

    state_holder = "clone_state"

    def __init__(self, env: Any, *arguments: Any) -> None:
        inner_env = env.unwrapped
        self.choosy = (
            "include_rng" in inspect.signature(inner_env.clone_state).parameters
        )
        is_ale = hasattr(getattr(inner_env, "ale", None), "getFloat")
        if is_ale and inner_env.ale.getFloat("repeat_action_probability") > 0.0:
            raise InvalidInput(
                f"{type(inner_env).__name__} repeats the last action at random, which "
                "clone_state does not hold; make it with repeat_action_probability=0."
            )
        self.chance = not is_ale
        super().__init__(env, *arguments)
        if any(
            isinstance(component, GENERATORS)
            for _, component in parts(self.clone(self.inner, False))
        ):
            raise InvalidInput(
                "clone_state clones a generator, so nothing after it is random; "
                "leave it out."
            )

    def clone(self, env: Any, with_generator: bool) -> Any:
        """The result of ``clone_state``."""
        clone_options = {"include_rng": with_generator} if self.choosy else {}
        return env.unwrapped.clone_state(**clone_options)

    def begin_episode(self, twin: Any) -> Any:
        """A private copy at the start of an episode, seeded from the stream."""
        twin.reset(seed=int(self.generator.integers(2**31)))
        adopt(twin, self.generator)
        return twin

    def restore(self, state: Any) -> Any:
        """The private copy, put into ``state``."""
        if self.chance:
            self.begin_episode(self.env)
        self.inner.restore_state(state.state)
        return self.env

    def state_of(self, env: Any) -> Clone:
        """The state without its generator."""
        return Clone(self.clone(env, False))

    def mark(self, env: Any) -> Any:
        """The state with its generator."""
        return self.clone(env, True)

    def rewind(self, mark: Any) -> Any:
        """The private copy, continuing from ``mark``."""
        self.inner.restore_state(mark)
        return self.env


class Snapshot:
    """A copy of an environment as a state.

    Two snapshots are equal if their keys are; without a key, only if they are
    one object.
    """

    __slots__ = ("env", "key")
    adapter_state = True  # steps copy it

    def __init__(self, env: Any, key: Any) -> None:
        self.env, self.key = env, key

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Snapshot)
            and self.key is not None
            and self.key == other.key
        )

    def __hash__(self) -> int:
        return id(self) if self.key is None else hash(self.key)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a snapshot of an environment stays in its process; use executor='python'"
        )

    def __fingerprint__(self) -> Any:
        return layer_fields(self.env), self.key

    def __repr__(self) -> str:
        key = self.key.hex()[:8] if isinstance(self.key, bytes) else self.key
        key_text = "" if key is None else f", {key!r}"
        return f"Snapshot({title(self.env)}{key_text})"


class SnapshotOracle(EnvOracle):
    """States are copies of the environment."""

    def __fingerprint__(self) -> Any:
        """The fields of the environment belong to the state."""
        return type(self), self.kinds, self.actions, self.reward, self.key

    def forgetting_error(self, name: str) -> InvalidInput:
        """The refusal of an environment with copies that do not hold ``name``."""
        return InvalidInput(
            f"A copy of {title(self.env)} forgets {name}; "
            "let its __deepcopy__ or __getstate__ keep everything that a step depends "
            "on."
        )

    def __init__(self, env: Any, *arguments: Any) -> None:
        super().__init__(env, *arguments)
        is_toy_text = type(self.inner).__module__.startswith("gymnasium.envs.toy_text")
        self.shared_names = (
            SHARED_FIELDS + TABLE_FIELDS if is_toy_text else SHARED_FIELDS
        )
        shared_values = [
            getattr(self.inner, attribute_name, None)
            for attribute_name in self.shared_names
        ]
        shared_values += [self.generator, legacy(self.generator)]
        self.same = {
            id(component): component
            for component in shared_values
            if component is not None
        }
        self.same |= modules_among(parts(self.env))

    def current_state(self) -> Any:
        """The state that the private copy is in."""
        return self.state_of(self.copy_twin(self.env))

    def copy_twin(self, twin: Any) -> Any:
        """A copy of a private copy."""
        return remembering_copy(twin, dict(self.same))

    def restore(self, state: Any) -> Any:
        """A fresh copy, since many steps start from the same snapshot."""
        return self.copy_twin(state.env)

    def state_of(self, env: Any) -> Snapshot:
        """A private copy as a state; nobody else may step it."""
        return Snapshot(env, None if self.key is None else self.key(env))

    def read(self, env: Any) -> Snapshot:
        """A snapshot of the user's environment."""
        env = self.as_environment(env)
        self.check_kind(env)
        env_copy = private_copy(env, self.generator)
        differing_path = self.difference_between(strip_watchers(env), env_copy)
        if differing_path is not None:
            raise self.forgetting_error(format_path(differing_path))
        return self.state_of(env_copy)

    def mark(self, env: Any) -> Snapshot:
        """A copy as a state."""
        return Snapshot(self.copy_twin(env), None)
