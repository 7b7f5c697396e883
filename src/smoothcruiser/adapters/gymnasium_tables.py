"""The tables of a toy-text environment (``unwrapped.P``) as a tabular problem.

    P[s][a] = [(probability, next state, reward, terminated), …]

A transition flagged ``terminated`` pays its reward and is worth nothing after. Where every transition into a state is flagged, that state
is terminal; where some are and some are not (Taxi's delivered states), the flagged ones lead to one extra state behind all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.execute.streams import stream
from smoothcruiser.problem.operators import Operator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import TabularOracle, tabular


@dataclass(frozen=True, eq=False, repr=False)
class GymTables(TabularOracle):
    """The tabular step, with the environment's own distribution of initial states."""

    start: tuple[float, ...]

    def reset(self, rng: Any) -> int:
        """An initial state, drawn from ``rng``."""
        return int(rng.categorical(np.array(self.start)))

    def read(self, env: Any) -> int:
        """The state that an environment is in."""
        return int(env.unwrapped.s)


def table_problem(
    env: Any,
    *,
    discount: float,
    operator: Operator,
    reward: Any,
    reward_range: tuple[float, float] | None,
    horizon: int | None,
    seed: int,
    name: str,
) -> Problem:
    """A tabular problem with the environment's model."""
    inner = env.unwrapped
    P, over = inner.P, len(inner.P)
    K = len(P[0])
    rows = _rows(P, K, reward)
    into_flagged = {z for s in rows for z, _, _, flag in s if flag}
    into_open = {z for s in rows for z, _, _, flag in s if not flag}
    dead = into_flagged - into_open
    start, target, prob, paid = [0], [], [], []
    for row in rows:
        for z, p, r, flag in row:
            target.append(over if flag and z not in dead else z)
            prob.append(p)
            paid.append(r)
        start.append(len(target))
    size = over + 1
    start += [start[-1]] * K
    terminal = np.array([s in dead or s == over for s in range(size)])
    matrix = _Rows(np.array(start), np.array(target), np.array(prob), (size * K, size))
    first = getattr(inner, "initial_state_distrib", None)
    weights = np.append(np.asarray(first, dtype=float), 0.0) if first is not None else np.eye(size)[int(inner.s)]
    made = tabular(
        matrix, np.array(paid), discount=discount, operator=operator, terminal=terminal, initial_state=0, reward_range=reward_range,
        horizon=horizon, name=name,
    )  # fmt: skip
    assert made.tables is not None
    oracle = GymTables(made.tables, tuple(weights.tolist()))
    return replace(made, oracle=oracle, initial_state=oracle.reset(stream(seed)))


Row = list[tuple[int, float, float, bool]]  # next state, probability, reward, terminated


def _rows(P: Any, K: int, reward: Any) -> list[Row]:
    """The successors of every pair, those of equal next state, reward and flag merged."""
    found: list[Row] = []
    for s in range(len(P)):
        if len(P[s]) != K:
            raise InvalidInput(f"State {s} of the environment's table has {len(P[s])} actions, state 0 has {K}; use access='state'.")
        for a in range(K):
            merged: dict[tuple[int, float, bool], float] = {}
            for p, z, r, flag in P[s][a]:
                paid = float(r) if reward is None else float(reward(float(r)))
                where = (int(z), paid, bool(flag))
                merged[where] = merged.get(where, 0.0) + float(p)
            found.append([(z, p, r, flag) for (z, r, flag), p in merged.items() if p > 0.0])
    return found


@dataclass(frozen=True)
class _Rows:
    """Compressed rows in the form that ``tabular`` reads (SciPy's CSR has it too, but would merge equal next states of unequal reward)."""

    indptr: Any
    indices: Any
    data: Any
    shape: tuple[int, int]
    format = "csr"

    def tocsr(self) -> _Rows:
        """Itself."""
        return self
