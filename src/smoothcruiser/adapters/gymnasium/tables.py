"""The tables of a toy-text environment (``unwrapped.P``) as a tabular problem.

    P[s][a] = [(probability, next state, reward, terminated), …]

A transition flagged ``terminated`` pays its reward and is worth nothing after.
Where every transition into a state is flagged, that state is terminal; where
some are and some are not (Taxi's delivered states), the flagged ones lead to
one extra state behind all others.

What the tables show is declared: that only ends pay, or, where steps that do not end cost
(or pay nothing), that no total exceeds the best reward (Taxi: 20), and likewise from below.
Let all rewards of steps that go on be at most 0, and u the largest reward. If u > 0, an
end pays it, at most once and with a weight of at most 1, and all else is at most 0: the
total is at most u. If u <= 0, the total is at most its first reward, so at most u again.
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
        inner = env.unwrapped
        if _digest(getattr(inner, "P", None)) != self.digest:
            raise InvalidInput(
                f"The problem was made of other tables than those of {env}; make a "
                "problem of this one."
            )
        if getattr(inner, "s", None) is None:
            raise InvalidInput(f"{env} is in no state yet; reset it, then plan.")
        return int(inner.s)

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
    **rest: Any,
) -> Problem:
    """A tabular problem with the environment's model.

    Args:
        env: an environment with tables, in any state.
        actions: what the problem's actions 0, 1, … are in the tables.
        reward: maps the rewards of the tables, or None.
        start: the initial state, or a stream that it is sampled from.
        rest: arguments of ``tabular``.
    """
    inner = env.unwrapped
    P, over = inner.P, len(inner.P)
    K = len(actions)
    rows = _rows(P, actions, reward)
    into_flagged = {z for s in rows for z, _, _, flag in s if flag}
    into_open = {z for s in rows for z, _, _, flag in s if not flag}
    dead = into_flagged - into_open
    first_entry, target, prob, paid = [0], [], [], []
    for row in rows:
        for z, p, r, flag in row:
            target.append(over if flag and z not in dead else z)
            prob.append(p)
            paid.append(r)
        first_entry.append(len(target))
    size = over + 1
    first_entry += [first_entry[-1]] * K  # the extra state's rows are empty
    terminal = np.array([s in dead or s == over for s in range(size)])
    matrix = CompressedRows(
        np.array(first_entry), np.array(target), np.array(prob), (size * K, size)
    )
    first = getattr(inner, "initial_state_distrib", None)
    weights = (
        np.append(np.asarray(first, dtype=float), 0.0)
        if first is not None
        else np.eye(size)[int(inner.s)]
    )
    problem = tabular(matrix, np.array(paid), terminal=terminal, **rest)
    assert problem.tables is not None
    oracle = GymTables(
        problem.tables, tuple(weights.tolist()), tuple(actions), _digest(P)
    )
    return replace(
        problem,
        oracle=oracle,
        initial_state=start if isinstance(start, int) else oracle.reset(start),
        **_shown_totals(problem),
    )


def _shown_totals(problem: Problem) -> dict[str, Any]:
    """What the tables show of totals, as arguments of a problem."""
    tables = problem.tables
    assert tables is not None
    live = (tables.legal & ~tables.terminal[:, None]).reshape(-1)
    used = np.repeat(live, np.diff(tables.start)) & (tables.prob > 0.0)
    ends = tables.terminal[tables.next_state]
    on_the_way = tables.reward[used & ~ends]
    if not (used & ends).any():
        return {}
    if not on_the_way.any():
        return {"payoffs": AT_THE_END}
    steps = problem.facts.steps(problem.horizon)
    least, most = (
        # outwards: the other end is what the rewards allow anyway
        times(x, steps) * (1.0 + BOUNDS_ROUNDING)
        for x in problem.reward_range
    )
    low, high = min(0.0, least), max(0.0, most)
    if on_the_way.max() <= 0.0:
        high = min(high, float(tables.reward[used].max()))
    elif on_the_way.min() >= 0.0:
        low = max(low, float(tables.reward[used].min()))
    else:
        return {}
    if not math.isfinite(high - low):
        return {}
    return {"total_reward_range": (low, high)}


# next state, probability, reward, terminated
Row = list[tuple[int, float, float, bool]]


def _rows(P: Any, actions: Sequence[Any], reward: Any) -> list[Row]:
    """The successors of every pair; those with equal state, reward and flag merged."""
    found: list[Row] = []
    for s in range(len(P)):
        missing = [a for a in actions if a not in P[s]]
        if missing:
            raise InvalidInput(
                f"State {s} of the environment's table has no action {missing[0]}; "
                "use access='state'."
            )
        for a in actions:
            merged: dict[tuple[int, float, bool], float] = {}
            for p, z, r, flag in P[s][a]:
                paid = float(r) if reward is None else float(reward(float(r)))
                where = (int(z), paid, bool(flag))
                merged[where] = merged.get(where, 0.0) + float(p)
            found.append(
                [(z, p, r, flag) for (z, r, flag), p in merged.items() if p > 0.0]
            )
    return found


# --- the tables against the environment ---------------------------------------

WALKED = 5000  # steps of a copy that are looked up in the tables
# probability that correct tables are refused for the frequencies of these steps
FALSE_ALARM = 1e-6


def check_tables(walker: Any, actions: Sequence[Any], choices: Any) -> None:
    """Refuse tables that a walk contradicts.

    A step is not listed, or it comes too often or too rarely.
    """
    inner, name = walker.unwrapped, type(walker.unwrapped).__name__
    seen: Counter[tuple[int, Any]] = Counter()
    came: Counter[tuple[int, Any, int, float, bool]] = Counter()
    for _ in range(WALKED):
        s, a = int(inner.s), actions[int(choices.integers(len(actions)))]
        _, reward, terminated, truncated, _ = walker.step(a)
        seen[s, a] += 1
        came[s, a, int(inner.s), float(reward), bool(terminated)] += 1
        if terminated or truncated:
            walker.reset()
    for (s, a, z, r, flag), count in came.items():
        n = seen[s, a]
        p = math.fsum(
            p
            for p, y, x, end in inner.P[s][a]
            if (int(y), float(x), bool(end)) == (z, r, flag)
        )
        radius = math.sqrt(math.log(2 * len(came) / FALSE_ALARM) / (2 * n))  # Hoeffding
        if p == 0.0 or abs(count / n - p) > radius:
            raise InvalidInput(
                f"The tables of {name} give (state {z}, reward {r:g}) probability "
                f"{p:g} at state {s}, action {a}, and it "
                f"came {count} times in {n}: they are not its own steps; use "
                "access='state' or 'snapshot'."
            )
