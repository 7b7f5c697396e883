"""Which way leads into a Gymnasium environment, and the problem that it makes.

A planner asks "what if" from any state, but an environment only goes forward.
The ways into it, in order of preference (``access=``):

  tables     The environment has its model (``unwrapped.P``: FrozenLake, Taxi,
             CliffWalking). It becomes a tabular problem, solved or sampled in
             compiled code. A transition flagged ``terminated`` ends the episode
             wherever it leads: CliffWalking's goal row is not absorbing, and
             Taxi's delivered states can be left again.
  mujoco     MuJoCo's integration state (positions, velocities, warm start, …)
             is the state, as bytes.
  state      ``unwrapped.s`` or ``unwrapped.state`` is the state, and can be
             set.
  clone      ``clone_state`` and ``restore_state`` (ALE) return and accept the
             state.
  snapshot   A copy of the environment is the state.

None is trusted before it has passed its trial (``trial``,
``tables.check_tables``): an environment put into a state has to continue as one
that was never touched.

In every case the planner steps a copy that samples from the planner's own stream
(``jit.random.generator``). So the planner cannot foresee the samples of the real environment,
and the real one is never stepped, reset or reseeded. The problem starts where the
environment is; one that was never reset is reset in a copy. Wrappers of Gymnasium's own
that only watch or count (TimeLimit, …) are removed from the copy. With any other
wrapper, access is by snapshot. A time limit is not part of the state: use ``horizon=``.

Rewards go through ``reward=`` (a function of the environment's reward) and have to lie
in ``reward_range``. That range is read from tables, known for some environments
(``environments``), and required otherwise. Further known facts are declared: that only ends
pay, how soon episodes end. ``reward=`` and wrappers that may change rewards make all of
it unknown. Out of scope: observations, since a planner needs states.

Known facts of environments, read in their sources: rewards, payoffs, ends, keys.

A declaration that is false makes a false certificate. So each line below holds for the
class itself (a subclass of yours is another world), follows the parameters that change
it, and says nothing where wrappers may change rewards. Read in Gymnasium 1.4 and
MiniGrid 3.2; "only ends pay" is checked at every step.

  CartPole    pays 1 per step; with ``sutton_barto_reward`` -1 at the end alone
  Blackjack   pays at the end alone: -1, 0 or 1, and 1.5 for a natural with
              ``natural=True`` and ``sab=False``. A hit adds at least 1 to a hand of at
              least 2 that may hold 21: an episode has 20 steps at the most
  FrozenLake  by its table, where it is not planned in as one
  MiniGrid    pays 1 - 0.9 step/max_steps when it ends with success (-1 for a collision
              in DynamicObstacles), and 0 elsewhere; ``max_steps`` ends it. BabyAI's
              levels choose ``max_steps`` at each reset unless it is a parameter

Out of scope: time limits of the registry, which are no part of a state, and
environments that have tables (``tables``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Unpack

import gymnasium
import numpy as np

from smoothcruiser.adapters.gymnasium.copies import WATCHERS, View, layers
from smoothcruiser.errors import InvalidInput, MissingExtra, SmoothcruiserError
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import (
    check_keywords,
    pop_own_options,
    shorten_value,
)
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    declare,
    merge_declarations,
    pop_declarations,
    split_actions,
)
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.problem import MDP, Problem

try:
    import gymnasium
except ImportError as error:
    raise MissingExtra(
        "Gymnasium environments need Gymnasium: pip install 'smoothcruiser[gymnasium]'."
    ) from error

from smoothcruiser.adapters.gymnasium.copies import (
    has_reset,
    keep_global_generators,
    kinds,
    private_copy,
)
from smoothcruiser.adapters.gymnasium.functional import (
    functional_problem,
    is_functional,
)
from smoothcruiser.adapters.gymnasium.oracles import (
    CloneOracle,
    EnvOracle,
    MujocoOracle,
    Reward,
    SnapshotOracle,
    StateOracle,
)
from smoothcruiser.adapters.gymnasium.tables import (
    check_tables,
    meanings,
    register_family,
    table_problem,
)
from smoothcruiser.adapters.gymnasium.whole import Contents, trial, whole

ORACLE_TYPES: dict[
    str, type[EnvOracle]
] = {  # in the order of preference, after tables
    "mujoco": MujocoOracle,
    "state": StateOracle,
    "clone": CloneOracle,
    "snapshot": SnapshotOracle,
}


class EnvironmentOptions(Declarations, total=False):
    """The keywords of ``problem`` that most environments do without."""

    seed: int | None
    call_seconds: float | None
    name: str | None


@keep_global_generators()
def problem(
    env: Any,
    *,
    discount: float,
    operator: Operator,
    reward_range: tuple[float, float] | None = None,
    reward: Reward | None = None,
    access: str = "auto",
    **more: Unpack[EnvironmentOptions],
) -> Problem:
    """The Problem of an environment, which is copied and left as it is.

    Args:
        env: a Gymnasium environment, or a functional one (``FuncEnv``).
        discount: weight of the next step's value, in [0, 1), or 1 with a horizon.
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        reward_range: (low, high), which holds every reward. Needed unless the
            environment has tables or its range is known (``environments``).
        reward: a function of the environment's reward that is planned for instead.
        actions: the environment's actions for the planner's numbers 0, 1, and so on. A
            number n makes a grid of n values per dimension of a Box. The default is all
            actions of a discrete space. A list of words names them.
        horizon: steps until the end; None for no limit.
        access: "auto", "tables", "mujoco", "state", "clone" or "snapshot"; of a
            functional environment "auto", "numpy" or "jax", by the type of its rng.
        deterministic: whether a step from one state always has one outcome.
        key: a function to a hashable summary that determines the future: of the
            environment, so that searches can recognize snapshots, and of the state
            where access is not by snapshot; "contents" for all that an environment
            holds (``whole``), the default for MiniGrid and Blackjack.
        seed: start at a reset with this seed. By default the problem starts where the
            environment is, or at a reset with seed 0 if it was never reset.
        call_seconds: a step that takes longer counts as hanging; None for no limit.
        name: shown in answers; the default is ``gym:`` and the environment's name.
        more: these and declarations, as for ``make``.

    Example:
        >>> import gymnasium, smoothcruiser as sc
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> lake = sc.adapters.gymnasium.problem(
        ...     env, discount=0.9, operator=sc.Entropy(0.1)
        ... )
        >>> lake.num_actions
        4
    """
    functional = is_functional(env)
    if not isinstance(env, gymnasium.Env) and not functional:
        raise InvalidInput(
            f"A Gymnasium environment was expected, got {type(env).__name__}; for its "
            "name use make('gym:CartPole-v1', discount=0.9, temperature=0.1)."
        )
    check_keywords(
        "problem", more, (*EnvironmentOptions.__annotations__, *DECLARATIONS)
    )
    seed, name = more.get("seed"), more.get("name")
    declarations = pop_declarations(
        {k: v for k, v in more.items() if k in DECLARATIONS}
    )
    action_choice, action_labels = _split_labels(
        env, declarations.pop("actions", None)
    )
    env_actions = _list_actions(env, action_choice)
    facts: dict[str, Any] = {
        "discount": discount,
        "operator": operator,
        "actions": action_labels or meanings(env, env_actions),
    }
    if functional:
        problem_name = name or f"gym:{type(env).__name__}"
        facts |= {
            "num_actions": len(env_actions),
            "reward_range": _choose_reward_range(None, reward_range, problem_name),
            "terminal": True,
            "key": _choose_key(declarations.pop("key", None), None, None),
            "call_seconds": more.get("call_seconds"),
            "name": problem_name,
        }
        return functional_problem(
            env,
            env_actions,
            reward=reward,
            access=access,
            seed=seed or 0,
            **merge_declarations(facts, declarations),
        )
    starts_here = seed is None and has_reset(env)
    inner_env = env.unwrapped  # reading the spec of a wrapper would store it there
    problem_name = name or f"gym:{_env_name(inner_env)}"
    probe = _probe(env, starts_here)
    available_ways = _list_ways(probe, access)
    if available_ways["tables"] and _has_its_tables(probe, env_actions, access):
        tabular_problem = table_problem(
            probe,
            env_actions,
            reward,
            int(env.unwrapped.s) if starts_here else stream(seed or 0),
            reward_range=reward_range,
            horizon=declarations.pop("horizon", None),
            name=problem_name,
            **facts,
        )
        return declare(tabular_problem, declarations)
    known_facts = (
        look_up_facts(inner_env) if reward is None and keeps_rewards(env) else None
    )
    key = _choose_key(declarations.pop("key", None), inner_env, known_facts)
    oracle, first_state = _find_oracle(
        available_ways,
        lambda way: way(
            env, env_actions, reward, key, None if starts_here else stream(seed or 0)
        ),
    )
    facts |= {
        "num_actions": len(env_actions),
        "reward_range": _choose_reward_range(known_facts, reward_range, problem_name),
        "terminal": True,
        "initial_state": oracle.read(env) if starts_here else first_state,
        "call_seconds": more.get("call_seconds"),
        "key": _key_of_states(oracle),
        "name": problem_name,
    }
    if known_facts is not None:
        facts |= known_facts.declared
    return MDP(oracle, **merge_declarations(facts, declarations))


def _env_name(env: Any) -> str:
    """The registered name of an environment, or that of its class."""
    return type(env).__name__ if env.spec is None else str(env.spec.id)


def _key_of_states(oracle: EnvOracle) -> Any:
    """The problem's own key: snapshots have theirs inside, other states are plain."""
    if isinstance(oracle, SnapshotOracle):
        return Contents() if oracle.key is whole else None
    return None if oracle.key is whole else oracle.key


OWN_OPTIONS = (*DECLARATIONS, "access", "seed", "call_seconds", "reward_range")


def build_by_name(
    text: str, parameters: dict[str, Any], *, discount: float, operator: Operator
) -> Problem:
    """The problem of ``gym:text,name=value,…``; ``text`` is an id or ``module:Class``.

    Parameters that are not this adapter's own go to ``gymnasium.make``.
    """
    problem_options = pop_own_options(parameters, OWN_OPTIONS)
    env = _build_environment(text, parameters)
    problem_options.setdefault("seed", 0)
    shown_parameters = "".join(f",{k}={v}" for k, v in parameters.items())
    return problem(
        env,
        discount=discount,
        operator=operator,
        name=f"gym:{text}{shown_parameters}",
        **problem_options,
    )


def _build_environment(text: str, parameters: dict[str, Any]) -> Any:
    """A registered environment, or one of a class: ``module:Class``."""
    module_name, colon, attribute_name = text.partition(":")
    try:
        factory = (
            getattr(import_module(module_name), attribute_name, None)
            if colon
            else None
        )
        if callable(factory):
            return factory(**parameters)
        register_family(text)
        return gymnasium.make(text, **parameters)
    except SmoothcruiserError:
        raise
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise InvalidInput(
            f"Gymnasium cannot make {text!r} with {parameters}: "
            f"{type(error).__name__}: {first_line}"
        ) from error


def _choose_reward_range(
    known_facts: KnownFacts | None, given_range: tuple[float, float] | None, label: str
) -> tuple[float, float]:
    """(low, high) of all rewards: the user's, or that known of the environment."""
    reward_bounds = given_range or (
        None if known_facts is None else known_facts.rewards
    )
    if reward_bounds is None:
        raise InvalidInput(
            f"{label} does not say in which range its rewards lie; give "
            "reward_range=(low, high), such as reward_range=(-1,1)."
        )
    return reward_bounds


def _choose_key(
    key_option: Any, env: Any, known_facts: KnownFacts | None
) -> Callable[[Any], Any] | None:
    """The key of snapshots: the user's, all that they hold, or None."""
    is_plain = known_facts is not None and known_facts.plain
    key_choice: Any = (
        ("contents" if is_plain else None) if key_option is None else key_option
    )
    if key_choice is None or callable(key_choice):
        return key_choice  # type: ignore[no-any-return]
    if key_choice == "contents" and env is not None:
        return whole
    raise InvalidInput(
        f"key must be a function of the environment or 'contents', got {key_choice!r}."
    )


# --- choosing -----------------------------------------------------------------


def _probe(env: Any, starts_here: bool) -> Any:
    """A copy that has been reset: many environments have their state only then."""
    try:
        probe = private_copy(env, np.random.default_rng(0))
    except InvalidInput:
        return env  # some questions can be answered without a copy
    if not starts_here:
        probe.reset(seed=0)
    return probe


def _list_ways(env: Any, access: str) -> dict[str, bool]:
    """Which ways into the environment exist; a trial says whether they work."""
    inner_env = env.unwrapped
    is_bare = len(kinds(env)) == 1
    # Taxi's fickle passenger is neither in its tables nor in its state
    is_fickle = getattr(inner_env, "fickle_passenger", False)
    available_ways = {
        "tables": is_bare
        and isinstance(getattr(inner_env, "P", None), dict)
        and hasattr(inner_env, "s")
        and not is_fickle,
        "mujoco": is_bare
        and hasattr(inner_env, "model")
        and hasattr(inner_env, "data")
        and hasattr(inner_env, "set_state"),
        "state": is_bare
        and not is_fickle
        and (getattr(inner_env, "s", None) is not None or hasattr(inner_env, "state")),
        "clone": is_bare
        and hasattr(inner_env, "clone_state")
        and hasattr(inner_env, "restore_state"),
        "snapshot": True,
    }
    if access == "auto":
        return available_ways
    if access not in available_ways:
        raise InvalidInput(
            f"access must be auto, {', '.join(available_ways)}; got {access!r}."
        )
    if not available_ways[access]:
        class_name = type(inner_env).__name__
        raise InvalidInput(
            f"{class_name} cannot be accessed by {access} (a wrapper hides it, or it "
            "has none); use snapshot."
        )
    return {way_name: way_name == access for way_name in available_ways}


def _has_its_tables(probe: Any, actions: Sequence[Any], access: str) -> bool:
    """Whether the tables are the environment's own steps."""
    try:
        check_tables(private_copy(probe, np.random.default_rng(1)), actions, stream(0))
    except InvalidInput:
        if access == "tables":
            raise
        return False
    return True


def _find_oracle(
    available_ways: dict[str, bool], build: Callable[[type[EnvOracle]], EnvOracle]
) -> tuple[EnvOracle, Any]:
    """The first oracle that passes its trial, and its state before the trial."""
    refusals: dict[str, InvalidInput] = {}
    for way_name in [
        way_name for way_name in ORACLE_TYPES if available_ways[way_name]
    ]:
        try:
            oracle = build(ORACLE_TYPES[way_name])
            first_state = oracle.current_state()
            trial(oracle)
        except InvalidInput as error:
            refusals[way_name] = error
        else:
            return oracle, first_state
    raise refusals.get("clone") or list(refusals.values())[-1]


def _split_labels(env: Any, actions: Any) -> tuple[Any, tuple[str, ...] | None]:
    """The chosen actions, and their names where the user named all of them."""
    listed_spaces = gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete
    is_listed = isinstance(env.action_space, listed_spaces)
    return split_actions(actions) if is_listed else (actions, None)


def _list_actions(env: Any, choice: Sequence[Any] | int | None) -> list[Any]:
    """The environment's actions for the planner's numbers 0, 1, and so on."""
    action_space = env.action_space
    if isinstance(choice, Iterable) and not isinstance(choice, str):
        return [_check_action(action_space, action) for action in choice]
    if isinstance(action_space, gymnasium.spaces.Discrete) and choice is None:
        return [
            int(action_space.start) + offset for offset in range(int(action_space.n))
        ]
    if isinstance(action_space, gymnasium.spaces.MultiDiscrete) and choice is None:
        return [
            np.array(grid_point)
            for grid_point in itertools.product(
                *(range(int(num_values)) for num_values in action_space.nvec)
            )
        ]
    if (
        isinstance(action_space, gymnasium.spaces.Box)
        and isinstance(choice, int)
        and choice >= 2
        and np.all(np.isfinite([action_space.low, action_space.high]))
    ):
        axis_ends = zip(
            action_space.low.reshape(-1), action_space.high.reshape(-1), strict=True
        )
        grid_points = itertools.product(
            *(
                np.linspace(lower_bound, upper_bound, choice)
                for lower_bound, upper_bound in axis_ends
            )
        )
        return [
            np.array(grid_point, dtype=action_space.dtype).reshape(action_space.shape)
            for grid_point in grid_points
        ]
    raise InvalidInput(
        f"The actions {action_space} are not a short list; give actions=[…], or "
        "actions=n for a grid of n >= 2 values per dimension of a Box."
    )


def _check_action(space: Any, action: Any) -> Any:
    """An action in the environment's form: an array of its shape for a Box."""
    env_action, is_member = action, True
    if isinstance(space, gymnasium.spaces.Box):
        is_member = False
        with suppress(TypeError, ValueError):  # another shape, or no numbers
            env_action = np.asarray(action, dtype=space.dtype).reshape(space.shape)
            is_member = space.contains(env_action)
    elif isinstance(space, gymnasium.spaces.Discrete):
        is_member = space.contains(action)
    if not is_member:
        raise InvalidInput(
            f"actions= must list actions of {space}, got {shorten_value(action)}; drop it, "
            "or change it."
        )
    return env_action


END_PAYS = {"payoffs": AT_THE_END}
# its cost: angle² + 0.1 speed² + 0.001 torque², at their limits
_PENDULUM = math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2
RANGES = {
    "CartPoleEnv": (0.0, 1.0),
    "MountainCarEnv": (-1.0, 0.0),
    "Continuous_MountainCarEnv": (-0.1, 100.0),
    "AcrobotEnv": (-1.0, 0.0),
    "PendulumEnv": (-_PENDULUM, 0.0),
}
MAX_HAND_STEPS = 20  # steps of a hand of Blackjack
# steps of wrappers that pass rewards and ends on as they are
PASSING_STEPS = (
    gymnasium.Wrapper.step,
    gymnasium.ObservationWrapper.step,
    gymnasium.ActionWrapper.step,
)


@dataclass(frozen=True)
class KnownFacts:
    """Facts of an environment that hold under every policy."""

    rewards: tuple[float, float] | None = None  # (low, high)
    declared: dict[str, Any] = field(default_factory=dict)  # arguments of ``MDP``
    plain: bool = (
        False  # all that it holds is plain Python, so its key is its contents
    )


def keeps_rewards(env: Any) -> bool:
    """Whether an environment pays and ends as the one inside its wrappers does."""
    wrapper_types = [
        type(layer)
        for layer in layers(env)
        if type(layer) not in WATCHERS and isinstance(layer, gymnasium.Wrapper)
    ]
    return all(wrapper_type.step in PASSING_STEPS for wrapper_type in wrapper_types)


def look_up_facts(env: Any) -> KnownFacts | None:
    """The known facts of an environment without its wrappers; None without any."""
    env_class = type(env)
    if isinstance(env, View):
        return None
    if env_class.__module__.startswith("minigrid.envs."):
        return _minigrid(env)
    if not env_class.__module__.startswith("gymnasium.envs."):
        return None
    if env_class.__name__ == "BlackjackEnv":
        pays_natural = bool(getattr(env, "natural", True)) and not getattr(
            env, "sab", False
        )
        declarations = END_PAYS | {"episodes_end": (MAX_HAND_STEPS, 1.0)}
        return KnownFacts(
            (-1.0, 1.5 if pays_natural else 1.0), declarations, plain=True
        )
    if env_class.__name__ == "CartPoleEnv" and getattr(
        env, "_sutton_barto_reward", False
    ):
        return KnownFacts((-1.0, 0.0), END_PAYS)
    if env_class.__name__ == "FrozenLakeEnv":
        return _lake(env)
    rewards = RANGES.get(env_class.__name__)
    return None if rewards is None else KnownFacts(rewards)


def _lake(env: Any) -> KnownFacts:
    """A lake by the entries of its table."""
    entries = [
        entry
        for state_row in env.P.values()
        for action_entries in state_row.values()
        for entry in action_entries
    ]
    entry_rewards = [float(reward) for _, _, reward, _ in entries]
    pays_early = any(
        reward != 0 and not terminated for _, _, reward, terminated in entries
    )
    return KnownFacts(
        (min(entry_rewards), max(entry_rewards)), {} if pays_early else dict(END_PAYS)
    )


def _minigrid(env: Any) -> KnownFacts:
    class_names = [cls.__name__ for cls in type(env).__mro__]
    lowest_reward = -1.0 if "DynamicObstaclesEnv" in class_names else 0.0
    declarations: dict[str, Any] = dict(END_PAYS)
    max_steps = getattr(env, "max_steps", None)
    if (
        getattr(env, "fixed_max_steps", True)
        and isinstance(max_steps, int)
        and max_steps >= 1
    ):
        declarations["episodes_end"] = (max_steps, 1.0)
    return KnownFacts((lowest_reward, 1.0), declarations, plain=True)
