"""The tables of a toy-text environment (``unwrapped.P``) as a tabular problem.

    P[s][a] = [(probability, next state, reward, terminated), …]

A transition flagged ``terminated`` pays its reward and is worth nothing after.
Where every transition into a state is flagged, that state is terminal; where
some are and some are not (Taxi's delivered states), the flagged ones lead to
one extra state behind all others.

Facts that the tables show are declared: that only ends pay, or, where steps that do not
end cost (or pay nothing), that no total exceeds the best reward (Taxi: 20), and
likewise from below. Let all rewards of steps that go on be at most 0, and u the largest
reward. If u > 0, an end pays it, at most once and with a weight of at most 1, and all
else is at most 0: the total is at most u. If u <= 0, the total is at most its first
reward, so at most u again.

Environments of other packages that register themselves with Gymnasium.

``gymnasium.make("MiniGrid-Empty-5x5-v0")`` knows the name only after ``import
minigrid``. Here the beginning of a name says which package to import, and which extra
installs it where it is missing. One more thing is known of Box2D: bodies of a compiled
physics engine are neither copied nor put back, so it cannot be planned in.

Out of scope: families that Gymnasium registers itself, and known facts of environments
that can be planned in (``environments``).

Names of the actions of a Gymnasium environment.

  ``get_action_meanings()``   where the environment has it (ALE: NOOP, FIRE, …)
  ``actions``                 an enumeration 0, 1, … (MiniGrid: left, right, forward, …)
  MEANINGS                    the names in Gymnasium's documentation of its own discrete
                              environments, by class
  a value                     of a continuous action that was chosen, such as [-2]

Others have no names: their actions are shown by number.

The observation of a state, for policies that were learned from observations.

An environment shows something at a reset and after a step, and not in between. The
observation of a state is computed anew, by the function that most environments have for
it (``_get_obs``, ``_get_ob``, ``gen_obs``), or from its state attribute, cast to the
observation space; then through the observation wrappers, from the inside out. Nothing
of this is a rule of Gymnasium. So wherever the last step led to the requested state,
the result is compared with the observation of that step, and a difference is refused:
memory in a wrapper, noise, or an environment that computes observations elsewhere.
"""

from __future__ import annotations

import enum
import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np

from smoothcruiser.adapters.gymnasium.copies import layers, title
from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.problem.facts import AT_THE_END, BOUNDS_ROUNDING, times
from smoothcruiser.problem.model.tabular import CompressedRows, TabularOracle, tabular
from smoothcruiser.problem.problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class GymTables(TabularOracle):
    """The tabular step, with the environment's own distribution of initial states."""

    start: tuple[float, ...]
    actions: tuple[Any, ...]
    digest: str  # of the tables, which differ from map to map

    def reset(self, rng: Any) -> int:
        """An initial state, sampled from ``rng``."""
        return int(rng.categorical(np.array(self.start)))

    def read(self, env: Any) -> int:
        """The state that the user's environment is in."""
        inner_env = env.unwrapped
        if _digest(getattr(inner_env, "P", None)) != self.digest:
            raise InvalidInput(
                f"The problem was made of other tables than those of {env}; make a "
                "problem of this one."
            )
        if getattr(inner_env, "s", None) is None:
            raise InvalidInput(f"{env} is in no state yet; reset it, then plan.")
        return int(inner_env.s)

    def observe(self, state: Any) -> int:
        """The state: a toy-text environment without wrappers shows it as it is."""
        return int(state)

    def parse(self, state: Any) -> Any:
        """``state``, or the state of a running environment in its place."""
        return self.read(state) if hasattr(state, "unwrapped") else state


def _digest(P: Any) -> str:
    return hashlib.sha256(repr(P).encode()).hexdigest()


def table_problem(
    env: Any,
    actions: Sequence[Any],
    reward: Callable[[float], float] | None,
    start: Any,
    /,
    **tabular_options: Any,
) -> Problem:
    """A tabular problem with the environment's model.

    Args:
        env: an environment with tables, in any state.
        actions: the actions of the tables for the problem's numbers 0, 1, and so on.
        reward: maps the rewards of the tables, or None.
        start: the initial state, or a stream that it is sampled from.
        tabular_options: arguments of ``tabular``.
    """
    inner_env = env.unwrapped
    P, end_state = inner_env.P, len(inner_env.P)
    K = len(actions)
    table_rows = _merge_rows(P, actions, reward)
    into_flagged = {z for s in table_rows for z, _, _, is_end in s if is_end}
    into_open = {z for s in table_rows for z, _, _, is_end in s if not is_end}
    terminal_states = into_flagged - into_open
    first_entry, next_states, probabilities, entry_rewards = [0], [], [], []
    for row in table_rows:
        for z, p, r, is_end in row:
            next_states.append(end_state if is_end and z not in terminal_states else z)
            probabilities.append(p)
            entry_rewards.append(r)
        first_entry.append(len(next_states))
    num_states = end_state + 1
    first_entry += [first_entry[-1]] * K  # the extra state's rows are empty
    terminal = np.array(
        [s in terminal_states or s == end_state for s in range(num_states)]
    )
    transition_rows = CompressedRows(
        np.array(first_entry),
        np.array(next_states),
        np.array(probabilities),
        (num_states * K, num_states),
    )
    start_weights = getattr(inner_env, "initial_state_distrib", None)
    start_distribution = (
        np.append(np.asarray(start_weights, dtype=float), 0.0)
        if start_weights is not None
        else np.eye(num_states)[int(inner_env.s)]
    )
    problem = tabular(
        transition_rows, np.array(entry_rewards), terminal=terminal, **tabular_options
    )
    assert problem.tables is not None
    oracle = GymTables(
        problem.tables, tuple(start_distribution.tolist()), tuple(actions), _digest(P)
    )
    return replace(
        problem,
        oracle=oracle,
        initial_state=start if isinstance(start, int) else oracle.reset(start),
        **_declare_totals(problem),
    )


def _declare_totals(problem: Problem) -> dict[str, Any]:
    """Declarations of totals that the tables prove, as arguments of a problem."""
    tables = problem.tables
    assert tables is not None
    live_pairs = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    used_entries = np.repeat(live_pairs, np.diff(tables.start)) & (tables.prob > 0.0)
    ends_play = tables.terminal[tables.next_state]
    on_the_way = tables.reward[used_entries & ~ends_play]
    if not (used_entries & ends_play).any():
        return {}
    if not on_the_way.any():
        return {"payoffs": AT_THE_END}
    steps = problem.facts.steps(problem.horizon)
    lowest_total, highest_total = (
        # outwards: the other end is the bound that the rewards imply anyway
        times(x, steps) * (1.0 + BOUNDS_ROUNDING)
        for x in problem.reward_range
    )
    lower_bound, upper_bound = min(0.0, lowest_total), max(0.0, highest_total)
    if on_the_way.max() <= 0.0:
        upper_bound = min(upper_bound, float(tables.reward[used_entries].max()))
    elif on_the_way.min() >= 0.0:
        lower_bound = max(lower_bound, float(tables.reward[used_entries].min()))
    else:
        return {}
    if not math.isfinite(upper_bound - lower_bound):
        return {}
    return {"total_reward_range": (lower_bound, upper_bound)}


# next state, probability, reward, terminated
Row = list[tuple[int, float, float, bool]]


def _merge_rows(P: Any, actions: Sequence[Any], reward: Any) -> list[Row]:
    """The successors of every pair; those with equal state, reward and flag merged."""
    table_rows: list[Row] = []
    for s in range(len(P)):
        missing_actions = [a for a in actions if a not in P[s]]
        if missing_actions:
            raise InvalidInput(
                f"State {s} of the environment's table has no action "
                f"{missing_actions[0]}; use access='state'."
            )
        for a in actions:
            merged_entries: dict[tuple[int, float, bool], float] = {}
            for p, z, r, is_end in P[s][a]:
                mapped_reward = float(r) if reward is None else float(reward(float(r)))
                entry_key = (int(z), mapped_reward, bool(is_end))
                merged_entries[entry_key] = merged_entries.get(entry_key, 0.0) + float(
                    p
                )
            table_rows.append(
                [
                    (z, p, r, is_end)
                    for (z, r, is_end), p in merged_entries.items()
                    if p > 0.0
                ]
            )
    return table_rows


# --- the tables against the environment ---------------------------------------

NUM_CHECKED_STEPS = 5000  # steps of a copy that are looked up in the tables
# probability that correct tables are refused for the frequencies of these steps
FALSE_ALARM = 1e-6


def check_tables(walker: Any, actions: Sequence[Any], choices: Any) -> None:
    """Refuse tables that a walk contradicts.

    Some step is not listed, or it occurs too often or too rarely.
    """
    inner_env, class_name = walker.unwrapped, type(walker.unwrapped).__name__
    visit_counts: Counter[tuple[int, Any]] = Counter()
    outcome_counts: Counter[tuple[int, Any, int, float, bool]] = Counter()
    for _ in range(NUM_CHECKED_STEPS):
        s, a = int(inner_env.s), actions[int(choices.integers(len(actions)))]
        _, reward, terminated, truncated, _ = walker.step(a)
        visit_counts[s, a] += 1
        outcome_counts[s, a, int(inner_env.s), float(reward), bool(terminated)] += 1
        if terminated or truncated:
            walker.reset()
    for (s, a, z, r, is_end), count in outcome_counts.items():
        n = visit_counts[s, a]
        p = math.fsum(
            p
            for p, listed_state, listed_reward, listed_end in inner_env.P[s][a]
            if (int(listed_state), float(listed_reward), bool(listed_end))
            == (z, r, is_end)
        )
        # Hoeffding
        radius = math.sqrt(math.log(2 * len(outcome_counts) / FALSE_ALARM) / (2 * n))
        if p == 0.0 or abs(count / n - p) > radius:
            raise InvalidInput(
                f"The tables of {class_name} give (state {z}, reward {r:g}) "
                f"probability {p:g} at state {s}, action {a}, and it "
                f"came {count} times in {n}: they are not its own steps; use "
                "access='state' or 'snapshot'."
            )


# the beginning of a name: the module that registers it, and the extra
FAMILIES = {
    "ALE/": ("ale_py", "ale"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
}


def find_family(text: str) -> tuple[str, str] | None:
    """The module that registers ``text`` and its extra; None for Gymnasium's own."""
    return next(
        (
            family
            for name_prefix, family in FAMILIES.items()
            if text.startswith(name_prefix)
        ),
        None,
    )


def missing_package(text: str, module: str, extra: str) -> MissingExtra:
    """The sentence for a package that is not installed."""
    return MissingExtra(
        f"{text} needs the package {module}: pip install 'smoothcruiser[{extra}]'."
    )


def register_family(text: str) -> None:
    """Import the package that registers ``text``; refuse unsupported families."""
    import gymnasium

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it greets on stdout
    family = find_family(text)
    if family is not None:
        try:
            gymnasium.register_envs(import_module(family[0]))
        except ImportError as error:
            raise missing_package(text, *family) from error
    env_spec = gymnasium.registry.get(text)
    if env_spec is not None and str(env_spec.entry_point).startswith(
        "gymnasium.envs.box2d"
    ):
        raise InvalidInput(
            f"{text} runs on Box2D, whose bodies can neither be copied nor put back, "
            "so it cannot be planned in; environments of MuJoCo, classic control, ALE "
            "and MiniGrid can."
        )


# Gymnasium 1.x, the section "Action Space" of each environment's page
MEANINGS: dict[str, tuple[str, ...]] = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
    "BlackjackEnv": ("stick", "hit"),
    "CartPoleEnv": ("push left", "push right"),
    "CartPoleFunctional": ("push left", "push right"),
    "MountainCarEnv": ("accelerate left", "coast", "accelerate right"),
    "AcrobotEnv": ("torque -1", "torque 0", "torque 1"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
}


def meanings(env: Any, actions: Sequence[Any]) -> tuple[str, ...] | None:
    """The names of the problem's actions; None where some have none.

    Args:
        env: the environment, wrapped or not.
        actions: the environment's actions for the problem's numbers 0, 1, and so on.
    """
    action_space = env.action_space
    if isinstance(action_space, gymnasium.spaces.Box):
        action_names = [_format_value(action) for action in actions]
    elif isinstance(action_space, gymnasium.spaces.Discrete):
        known_names = _look_up_names(
            getattr(env, "unwrapped", env), int(action_space.n)
        )
        if known_names is None:
            return None
        action_names = [
            known_names[int(action) - int(action_space.start)] for action in actions
        ]
    else:
        return None
    are_printable = all(
        isinstance(action_name, str)
        and action_name.strip()
        and action_name.isprintable()
        for action_name in action_names
    )
    return (
        tuple(action_names)
        if are_printable and len(set(action_names)) == len(action_names)
        else None
    )


def _look_up_names(inner: Any, num_actions: int) -> Sequence[str] | None:
    """A name for each action of the environment; None where there are not as many."""
    action_names: Any = None
    if callable(getattr(inner, "get_action_meanings", None)):
        with suppress(Exception):  # of a name, no problem should fail
            action_names = list(inner.get_action_meanings())
    elif isinstance(getattr(inner, "actions", None), enum.EnumMeta):
        enum_members: Any = list(inner.actions)
        if [member.value for member in enum_members] == list(range(len(enum_members))):
            action_names = [member.name for member in enum_members]
    elif type(inner).__module__.startswith("gymnasium.envs."):
        action_names = MEANINGS.get(type(inner).__name__)
    return (
        action_names
        if action_names is not None and len(action_names) == num_actions
        else None
    )


def _format_value(action: Any) -> str:
    """A continuous action as its value: [-2], or [0.5, 1]."""
    return f"[{', '.join(f'{number:g}' for number in np.ravel(action).tolist())}]"


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
