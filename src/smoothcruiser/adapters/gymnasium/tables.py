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
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, times
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import CompressedRows, TabularOracle, tabular
from smoothcruiser.problem.totals import AT_THE_END


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
