"""Gymnasium environments as problems: ``problem(env, …)``, or ``make("gym:FrozenLake-v1,map_name=8x8", …)``.

The problem: a planner asks "what if" from any state, an environment only goes forward. In the order of preference (``access=``):

  tables     the environment has its model (``unwrapped.P``: FrozenLake, Taxi, CliffWalking): a tabular problem, solved or sampled in
             compiled code. A transition flagged ``terminated`` ends the episode wherever it leads: CliffWalking's goal row is not
             absorbing, Taxi's delivered states can be left again.
  mujoco     MuJoCo's integration state (positions, velocities, warm start, …) is the state, as bytes
  state      ``unwrapped.s`` or ``unwrapped.state`` is the state and can be set; tested against copies before it is believed
  snapshot   a deep copy of the environment is the state

In every case the copy that the planner steps draws from the planner's own stream (``execute.generator``): it cannot see what the real
environment will draw, and the real one is never stepped, reset or reseeded. Wrappers of Gymnasium's own that only watch or count
(TimeLimit, …) are taken off; with any other wrapper access is by snapshot. A time limit is not part of the state: use ``horizon=``.

Rewards go through ``reward=`` (a function of the environment's reward), and have to lie in ``reward_range``, which is read from tables,
known for the classic environments below, and asked for otherwise. What this file leaves out: observations (a planner needs states).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.adapters.gymnasium_tables import table_problem
from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.execute.generator import stream_generator
from smoothcruiser.execute.streams import stream
from smoothcruiser.problem.operators import Operator
from smoothcruiser.problem.problem import MDP, Problem

try:
    import gymnasium
except ImportError as error:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtra("Gymnasium environments need Gymnasium: pip install 'smoothcruiser[gymnasium]'.") from error

TRANSPARENT = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics")  # they change neither step nor reward
TRIED_STEPS = 20  # steps on which setting the state is compared with copies
HARMLESS = ("s", "state", "lastaction", "last_u", "steps_beyond_terminated", "_np_random_seed")  # attributes that no later step depends on
SHARED = ("P", "desc", "spec", "action_space", "observation_space", "initial_state_distrib")  # Taxi's tables alone take 40 ms to copy
CLOSE = 1e-5  # some environments keep their first state in float32 and all later ones in float64
_PENDULUM = math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2  # its cost: angle² + 0.1 speed² + 0.001 torque², at their limits
KNOWN_RANGES = {
    "CartPoleEnv": (0.0, 1.0),
    "MountainCarEnv": (-1.0, 0.0),
    "AcrobotEnv": (-1.0, 0.0),
    "PendulumEnv": (-_PENDULUM, 0.0),
    "BlackjackEnv": (-1.0, 1.5),
}
Reward = Callable[[float], float]


def problem(
    env: Any,
    *,
    discount: float,
    operator: Operator,
    reward_range: tuple[float, float] | None = None,
    reward: Reward | None = None,
    actions: Sequence[Any] | int | None = None,
    horizon: int | None = None,
    access: str = "auto",
    deterministic: bool = False,
    key: Callable[[Any], Any] | None = None,
    seed: int = 0,
    call_seconds: float | None = None,
    name: str | None = None,
    spec: dict[str, Any] | None = None,
) -> Problem:
    """The Problem of an environment, which is copied and left as it is.

    ``actions``: what the planner's actions 0, 1, … are in the environment; a number n makes a grid of n values a dimension of a Box.
    ``key``: a hashable summary of an environment that determines its future, so that certified search can recognize snapshots.
    ``seed`` chooses the initial state.
    """
    if not isinstance(env, gymnasium.Env):
        raise InvalidInput(f"A Gymnasium environment was expected, got {type(env).__name__}; for its name use make('gym:NAME').")
    chosen = _actions(env, actions)
    plain = _probe(_stripped(env))
    label = name or f"gym:{env.spec.id if env.spec is not None else type(env.unwrapped).__name__}"
    kind = _access(plain, access, chosen)
    if kind == "tables":
        made = table_problem(
            plain, discount=discount, operator=operator, reward=reward, reward_range=reward_range, horizon=horizon, seed=seed, name=label
        )
        return replace(made, spec=spec)
    bounds = reward_range or (None if reward is not None else KNOWN_RANGES.get(type(env.unwrapped).__name__))
    if bounds is None:
        raise InvalidInput(
            f"{label} does not say in which range its rewards lie; give reward_range=(low, high) (reward_low=, reward_high= in a name)."
        )
    oracle = _oracle(kind, plain, chosen, reward, key, seed)
    return MDP(
        oracle,
        num_actions=len(chosen),
        discount=discount,
        operator=operator,
        reward_range=bounds,
        terminal=True,
        initial_state=oracle.reset(stream(seed)),
        horizon=horizon,
        deterministic=deterministic,
        call_seconds=call_seconds,
        name=label,
        spec=spec,
    )


def named(text: str, parameters: dict[str, Any], *, discount: float, operator: Operator, spec: dict[str, Any]) -> Problem:
    """The problem of ``gym:text,name=value,…``: parameters of this adapter, all others go to ``gymnasium.make``."""
    own = {k: parameters.pop(k) for k in ("horizon", "access", "actions", "deterministic", "seed", "call_seconds") if k in parameters}
    bounds = [parameters.pop(k, None) for k in ("reward_low", "reward_high")]
    if (bounds[0] is None) != (bounds[1] is None):
        raise InvalidInput("Give reward_low= and reward_high= together.")
    try:
        env = gymnasium.make(text, **parameters)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise InvalidInput(f"Gymnasium cannot make {text!r} with {parameters}: {type(error).__name__}: {first}") from error
    given = None if bounds[0] is None else (float(bounds[0]), float(bounds[1]))
    shown = "".join(f",{k}={v}" for k, v in parameters.items())
    return problem(env, discount=discount, operator=operator, reward_range=given, name=f"gym:{text}{shown}", spec=spec, **own)


# --- ways to step from any state -----------------------------------------------------------------------------------------------


class EnvOracle:
    """A step from any state, in a private copy of the environment that draws from the planner's stream."""

    def __init__(self, env: Any, actions: Sequence[Any], reward: Reward | None) -> None:
        self.generator, self.bits = stream_generator()
        self.actions, self.reward = list(actions), reward
        self.env = self.copy(env)
        self.inner = self.env.unwrapped

    def copy(self, env: Any) -> Any:
        """A deep copy that draws from the planner's stream."""
        try:
            twin = deepcopy(env, self.kept(env))
        except Exception as error:
            raise InvalidInput(
                f"The environment cannot be copied ({type(error).__name__}: {error}); make it without render_mode, or give it __deepcopy__."
            ) from error
        twin.unwrapped.np_random = self.generator
        return twin

    def kept(self, env: Any) -> dict[int, Any]:
        """What a copy shares with its original: the planner's generator, and tables and spaces that no step changes."""
        parts = [getattr(env.unwrapped, name, None) for name in SHARED]
        return {id(part): part for part in (self.generator, *parts) if part is not None}

    def reset(self, rng: Any) -> Any:
        """An initial state, drawn from ``rng``."""
        self.bits.bind(rng)
        self.env.reset()
        self.inner.np_random = self.generator
        return self.read(self.env)

    def __call__(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One step from ``state``: (reward, next state, whether the episode is over)."""
        self.bits.bind(rng)
        env = self.restored(state)
        _, reward, terminated, truncated, _ = env.step(self.actions[action])
        paid = float(reward) if self.reward is None else float(self.reward(float(reward)))
        return paid, self.read(env), bool(terminated or truncated)

    def restored(self, state: Any) -> Any:
        """An environment in ``state``, free to be stepped."""
        raise NotImplementedError

    def read(self, env: Any) -> Any:
        """The state that an environment is in; the real one may be read, never changed."""
        raise NotImplementedError


class StateOracle(EnvOracle):
    """States are values of ``unwrapped.s`` or ``unwrapped.state``: numbers and tuples of numbers."""

    def __init__(self, env: Any, actions: Sequence[Any], reward: Reward | None) -> None:
        super().__init__(env, actions, reward)
        self.attribute = "s" if getattr(self.inner, "s", None) is not None else "state"
        self.bits.bind(stream(0))
        self.env.reset()
        self.inner.np_random = self.generator
        self.example = getattr(self.inner, self.attribute)

    def restored(self, state: Any) -> Any:
        """The private copy, put into ``state``."""
        example = self.example
        exact = example.dtype if isinstance(example, np.ndarray) and example.dtype.kind in "iub" else np.float64
        setattr(self.inner, self.attribute, np.array(state, dtype=exact) if isinstance(example, np.ndarray) else state)
        if hasattr(self.inner, "steps_beyond_terminated"):  # CartPole's count of steps after the end
            self.inner.steps_beyond_terminated = None
        return self.env

    def read(self, env: Any) -> Any:
        """The state, hashable."""
        value = getattr(env.unwrapped, self.attribute)
        if isinstance(value, np.ndarray | tuple | list):
            return tuple(np.asarray(value).tolist())
        return value.item() if isinstance(value, np.generic) else value

    def parse(self, state: Any) -> Any:
        """A state read from JSON."""
        return tuple(state) if isinstance(state, list) else state


class MujocoOracle(EnvOracle):
    """States are MuJoCo's integration states, as bytes."""

    def __init__(self, env: Any, actions: Sequence[Any], reward: Reward | None) -> None:
        import mujoco

        super().__init__(env, actions, reward)
        self.mujoco, self.what = mujoco, mujoco.mjtState.mjSTATE_INTEGRATION
        self.size = mujoco.mj_stateSize(self.inner.model, self.what)

    def restored(self, state: Any) -> Any:
        """The private copy, put into ``state``; positions of bodies are recomputed, since rewards read them before the step."""
        model, data = self.inner.model, self.inner.data
        self.mujoco.mj_setState(model, data, np.frombuffer(state), self.what)
        self.mujoco.mj_kinematics(model, data)
        self.mujoco.mj_comPos(model, data)
        return self.env

    def read(self, env: Any) -> bytes:
        """The state as bytes."""
        buffer = np.empty(self.size)
        self.mujoco.mj_getState(env.unwrapped.model, env.unwrapped.data, buffer, self.what)
        return buffer.tobytes()


class Snapshot:
    """A copy of an environment as a state; equal to another if their keys are, or if it is the same object where there is no key."""

    __slots__ = ("env", "key")

    def __init__(self, env: Any, key: Any) -> None:
        self.env, self.key = env, key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Snapshot) and self.key is not None and self.key == other.key)

    def __hash__(self) -> int:
        return id(self) if self.key is None else hash(self.key)

    def __repr__(self) -> str:
        return f"Snapshot({self.env.unwrapped.__class__.__name__}{'' if self.key is None else f', {self.key!r}'})"


class SnapshotOracle(EnvOracle):
    """States are deep copies."""

    def __init__(self, env: Any, actions: Sequence[Any], reward: Reward | None, key: Callable[[Any], Any] | None) -> None:
        super().__init__(env, actions, reward)
        self.key = key

    def restored(self, state: Any) -> Any:
        """A fresh copy: the snapshot itself is asked again and again."""
        return deepcopy(state.env, self.kept(state.env))

    def read(self, env: Any) -> Snapshot:
        """A snapshot. What the oracle made itself is taken as it is, a foreign environment is copied."""
        own = env.unwrapped.np_random is self.generator and env is not self.env
        twin = env if own else self.copy(env)
        return Snapshot(twin, None if self.key is None else self.key(twin))


def _oracle(kind: str, env: Any, actions: Sequence[Any], reward: Reward | None, key: Callable[[Any], Any] | None, seed: int) -> Any:
    if kind == "mujoco":
        return MujocoOracle(env, actions, reward)
    if kind == "state":
        return StateOracle(env, actions, reward)
    return SnapshotOracle(env, actions, reward, key)


# --- choosing --------------------------------------------------------------------------------------------------------------------


def _stripped(env: Any) -> Any:
    """The environment without the wrappers that only watch or count."""
    while type(env).__name__ in TRANSPARENT and isinstance(env, gymnasium.Wrapper):
        env = env.env
    return env


def _probe(env: Any) -> Any:
    """A copy that has been reset: many environments have their state only then. The user's own is not touched."""
    try:
        twin = deepcopy(env)
    except Exception as error:
        raise InvalidInput(
            f"The environment cannot be copied ({type(error).__name__}: {error}); make it without render_mode, or give it __deepcopy__."
        ) from error
    twin.reset(seed=0)
    return twin


def _access(env: Any, asked: str, actions: Sequence[Any]) -> str:
    inner = env.unwrapped
    bare = env is inner
    fickle = getattr(inner, "fickle_passenger", False)  # Taxi's fickle passenger is neither in its tables nor in its state
    able = {
        "tables": bare and isinstance(getattr(inner, "P", None), dict) and not fickle,
        "mujoco": bare and hasattr(inner, "model") and hasattr(inner, "data") and hasattr(inner, "set_state"),
        "state": bare and not fickle and (getattr(inner, "s", None) is not None or hasattr(inner, "state")),
        "snapshot": True,
    }
    if asked != "auto":
        if asked not in able:
            raise InvalidInput(f"access must be auto, {', '.join(able)}; got {asked!r}.")
        if not able[asked]:
            raise InvalidInput(f"{type(inner).__name__} cannot be accessed by {asked} (a wrapper hides it, or it has none); use snapshot.")
        if asked == "state":
            _compare_with_copies(env, actions)
        return asked
    if able["tables"] or able["mujoco"]:
        return "tables" if able["tables"] else "mujoco"
    if able["state"]:
        try:
            _compare_with_copies(env, actions)
        except InvalidInput:
            return "snapshot"
        return "state"
    return "snapshot"


def _compare_with_copies(env: Any, actions: Sequence[Any]) -> None:
    """Refuse set-state access where a step after setting the state differs from the same step of a copy: something is hidden elsewhere."""
    try:
        by_state, by_copy = StateOracle(env, actions, None), SnapshotOracle(env, actions, None, None)
        start = stream(1)
        by_copy.bits.bind(start)
        by_copy.env.reset()
        by_copy.inner.np_random = by_copy.generator
        truth = by_copy.read(by_copy.env)
        for i in range(TRIED_STEPS):
            state = by_state.read(truth.env)
            action = i * 7 % len(actions)
            expected = by_copy(truth, action, stream(2, i))
            by_state(state, (action + 1) % len(actions), stream(3, i))  # leaves traces, if traces can be left
            found = by_state(state, action, stream(2, i))
            hidden = _traces(truth.env.unwrapped) != _traces(expected[1].env.unwrapped)
            same = (
                not hidden
                and found[0::2] == expected[0::2]
                and np.allclose(found[1], by_state.read(expected[1].env), rtol=CLOSE, atol=CLOSE)
            )
            if not same:
                raise InvalidInput("The environment keeps more than its state attribute, so it cannot be set; use access='snapshot'.")
            if expected[2]:
                break
            truth = expected[1]
    except InvalidInput:
        raise
    except (TypeError, AttributeError, ValueError) as error:
        raise InvalidInput(f"The environment's state attribute cannot be set ({error}); use access='snapshot'.") from error


def _traces(inner: Any) -> dict[str, str]:
    """Plain attributes that a step must not change if the state attribute is all there is."""
    plain = (bool, int, float, str, tuple, list, np.ndarray, np.generic, type(None))
    return {k: repr(v) for k, v in vars(inner).items() if k not in HARMLESS and isinstance(v, plain)}


def _actions(env: Any, asked: Sequence[Any] | int | None) -> list[Any]:
    """What the planner's actions are in the environment."""
    space = env.action_space
    if asked is not None and not isinstance(asked, int):
        return list(asked)
    if isinstance(space, gymnasium.spaces.Discrete) and asked is None:
        return [int(space.start) + a for a in range(int(space.n))]
    if isinstance(space, gymnasium.spaces.MultiDiscrete) and asked is None:
        return [np.array(choice) for choice in itertools.product(*(range(int(n)) for n in space.nvec))]
    if isinstance(space, gymnasium.spaces.Box) and isinstance(asked, int) and asked >= 2 and np.all(np.isfinite([space.low, space.high])):
        ends = zip(space.low.reshape(-1), space.high.reshape(-1), strict=True)
        grid = itertools.product(*(np.linspace(low, high, asked) for low, high in ends))
        return [np.array(point, dtype=space.dtype).reshape(space.shape) for point in grid]
    raise InvalidInput(
        f"The actions {space} are not a short list; give actions=[…], or actions=n for a grid of n >= 2 values a dimension of a Box."
    )
