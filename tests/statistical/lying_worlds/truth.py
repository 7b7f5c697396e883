"""Exact values by value iteration on dictionaries: the library is never its own
witness.

    V(s) = F(Q(s, .)),   Q(s, a) = sum over outcomes of p (r + discount V(z)),   V = 0 after an end

F is a function of the legal action values; the min player has -F(-Q). Iterated
until nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Outcome = tuple[float, float, Any]  # probability, reward, next state (None: the end)
Smooth = Callable[[Sequence[float]], float]
SWEEPS = 20_000  # discount 0.99 needs about 3,300 for 1e-14


@dataclass(frozen=True)
class Truth:
    """The value of the asked state and of its actions (NaN where illegal)."""

    value: float
    q_values: tuple[float, ...] = ()


def entropy(temperature: float) -> Smooth:
    """F(Q) = t log sum exp(Q / t)."""

    def smooth(q: Sequence[float]) -> float:
        top = max(q)
        return top + temperature * math.log(
            math.fsum(math.exp((x - top) / temperature) for x in q)
        )

    return smooth


def mellowmax(temperature: float) -> Smooth:
    """F(Q) = t log mean exp(Q / t): relative entropy to the uniform policy."""
    soft = entropy(temperature)
    return lambda q: soft(q) - temperature * math.log(len(q))


def solve(
    outcomes: Callable[[Any, int], Sequence[Outcome]],
    start,
    *,
    discount: float,
    smooth: Smooth,
    actions: int = 2,
    legal: Callable[[Any, int], bool] = lambda state, action: True,
    player: Callable[[Any], int] = lambda state: 1,
    horizon: int | None = None,
) -> Truth:
    """The truth at ``start`` of the world that ``outcomes`` describes."""
    table = _table(outcomes, start, actions, legal)
    values = dict.fromkeys(table, 0.0)

    def q_of(state, action: int) -> float:
        found = table[state][action]
        return math.fsum(p * (r + discount * values.get(z, 0.0)) for p, r, z in found)

    def value_of(state) -> float:
        sign = 1.0 if player(state) == 1 else -1.0
        return sign * smooth([sign * q_of(state, action) for action in table[state]])

    for _ in range(SWEEPS if horizon is None else horizon - 1):
        swept = {state: value_of(state) for state in table}
        moved = max(abs(swept[state] - values[state]) for state in table)
        values = swept
        if horizon is None and moved <= 1e-15 * max(
            1.0, max(map(abs, values.values()))
        ):
            break
    q_values = [
        q_of(start, a) if a in table[start] else math.nan for a in range(actions)
    ]
    return Truth(value_of(start), tuple(q_values))


def _table(
    outcomes: Callable[[Any, int], Sequence[Outcome]],
    start,
    actions: int,
    legal: Callable[[Any, int], bool],
) -> dict[Any, dict[int, Sequence[Outcome]]]:
    """The outcomes of every legal pair that can be reached."""
    table: dict[Any, dict[int, Sequence[Outcome]]] = {}
    ahead = [start]
    while ahead:
        state = ahead.pop()
        if state in table:
            continue
        table[state] = {
            a: outcomes(state, a) for a in range(actions) if legal(state, a)
        }
        ahead += [
            z for found in table[state].values() for _, _, z in found if z is not None
        ]
    return table
