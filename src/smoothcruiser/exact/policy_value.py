"""The regularized value of a stationary policy, in NumPy alone.

It is an independent check of the solver and of other planners.

V_pi(s) = sum_a pi(a|s) (r + gamma P V_pi) - Omega(pi(.|s)) where the max player
moves, + Omega where the min player does, because F(Q) = max <pi, Q> - Omega(pi)
and the min player has -F(-Q) = min <pi, Q> + Omega(pi). Omega is the
operator's (``operators``).

V_pi <= V* in an MDP, with equality at the optimal policy: a lower bound that
does not depend on the sweeps of the solver. A ``CustomOperator`` has no Omega,
so it is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.exact.reachable import known_model
from smoothcruiser.operators import Operator
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.tabular import Bools, Floats, Ints
from smoothcruiser.problem.undiscounted import is_undiscounted

LARGEST_SOLVE = 2_000  # states of a dense linear solve, 32 MB; larger problems iterate
# how far a policy's rows may be from summing to 1; printed decimals are that far off
POLICY_TOLERANCE = 1e-6


def regularizer(operator: Operator, policy: Floats, live: Bools) -> Floats:
    """Omega(pi(.|s)) of every state (S,), over its live actions."""
    if not operator.has_omega:
        raise InvalidInput(
            f"The operator {operator.name!r} gives no regularizer Omega; "
            "policy_value needs a built-in operator."
        )
    weights = np.array(operator.weights(policy.shape[1]))
    omega = operator.omega_rows(
        np.where(live, policy, 0.0), np.where(live, weights, 0.0)
    )
    return np.where(live.any(axis=1), omega, 0.0)


def policy_value(problem: Problem, policy: Any, *, tolerance: float = 1e-12) -> Floats:
    """V_pi (S,) of a stationary ``policy`` (S, A) of both players; 0 at the ends.

    With a horizon it is the value with all steps left, and NaN where they lead
    beyond the states that were explored. ``tolerance`` is relative to the
    largest income of one step. At discount 1 without a horizon it is the expected
    total, perhaps infinite, with a rounding that grows with the length of plays.
    """
    known = known_model(problem)
    tables = known.tables
    live = tables.legal & ~tables.terminal[:, None]
    chosen = _checked(policy, live)
    pair = np.repeat(np.arange(live.size), np.diff(tables.start))
    weight = chosen.reshape(-1)[pair]
    keep = weight > 0.0  # rows that are not live may hold anything
    state, target = pair[keep] // live.shape[1], tables.next_state[keep]
    flow = weight[keep] * tables.prob[keep]
    sign = np.where(tables.player == 1, 1.0, -1.0)
    income = np.bincount(state, weights=flow * tables.reward[keep], minlength=len(live))
    income = np.where(
        tables.terminal,
        0.0,
        income - sign * regularizer(problem.operator, chosen, live),
    )

    def sweep(v: Floats) -> Floats:
        moved: Floats = income + problem.discount * np.bincount(
            state, weights=flow * v[target], minlength=len(live)
        )
        return moved

    values = np.zeros(len(live))
    if problem.horizon is not None:
        for _ in range(problem.horizon):
            values = sweep(values)
        values[known.unknown(problem.horizon, problem.horizon)] = np.nan
        return values
    if is_undiscounted(problem):
        return _total(
            income.astype(np.float64), np.stack([state, target]), flow, tables.terminal
        )
    if len(live) <= LARGEST_SOLVE:
        matrix = np.eye(len(live))
        np.subtract.at(matrix, (state, target), problem.discount * flow)
        return np.asarray(np.linalg.solve(matrix, income), dtype=np.float64)
    aim = tolerance * float(np.max(np.abs(income))) * (1.0 - problem.discount)
    while True:
        moved = sweep(values)
        gap = float(np.max(np.abs(moved - values)))
        values = moved
        if gap * problem.discount <= max(
            aim, 4.0 * np.finfo(float).eps * float(np.max(np.abs(values)))
        ):
            return values


def _total(income: Floats, edge: Ints, flow: Floats, terminal: Bools) -> Floats:
    """Expected totals of a chain at discount 1; ``edge`` leads from row 0 to row 1.

    States that reach no income are worth 0. Of the others those that cannot reach
    these, and all that may lead there, have incomes for ever: infinite where all
    have one sign, and refused where they do not.
    """
    state, target = edge[:, flow > 0.0]
    idle = ~_reaching(state, target, (income != 0.0) & ~terminal) | terminal
    endless = ~_reaching(state, target, idle)
    low, high = float(income.min()), float(income.max())
    if endless.any() and low < 0.0 < high:
        raise InvalidInput(
            f"The policy never ends from state {int(np.flatnonzero(endless)[0])}, and "
            "incomes have both signs: its total is not defined at discount 1; give "
            "horizon= or a discount below 1."
        )
    infinite = _reaching(state, target, endless)
    rest = ~idle & ~infinite
    values = np.where(infinite, np.inf if high > 0.0 else -np.inf, 0.0)
    place = np.cumsum(rest) - 1
    moves = rest[edge[0]] & (edge[0] != edge[1])
    # divided by the chance to leave a state, so that a rare exit keeps its digits
    leave = np.bincount(edge[0][moves], flow[moves], len(rest))
    inside = moves & rest[edge[1]]
    matrix = np.eye(int(rest.sum()))
    share = flow[inside] / leave[edge[0][inside]]
    np.subtract.at(matrix, tuple(place[edge[:, inside]]), share)
    try:
        values[rest] = np.linalg.solve(matrix, income[rest] / leave[rest])
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "The policy's plays are too long for float64 at discount 1; give horizon= "
            "or a discount below 1."
        ) from None
    return values


def _reaching(state: Ints, target: Ints, goal: Bools) -> Bools:
    """(S,): where a chain with these edges may lead to ``goal``."""
    found = goal.copy()
    while True:
        more = state[found[target] & ~found[state]]
        if not len(more):
            return found
        found[more] = True


def _checked(policy: Any, live: Bools) -> Floats:
    array = np.asarray(policy, dtype=float)
    if array.shape != live.shape:
        raise InvalidInput(
            f"policy must have shape (S, A) = {live.shape}, got {array.shape}."
        )
    kept = np.where(live, array, 0.0)
    acting = live.any(axis=1)
    if (
        not np.all(np.isfinite(array))
        or np.any(array < 0.0)
        or np.any(array[acting] * ~live[acting] > 0.0)
    ):
        raise InvalidInput(
            "policy must hold probabilities of legal actions; it has a negative, "
            "undefined or illegal entry."
        )
    sums = kept.sum(axis=1)
    if np.any(np.abs(sums[acting] - 1.0) > POLICY_TOLERANCE):
        bad = int(np.flatnonzero(acting & (np.abs(sums - 1.0) > POLICY_TOLERANCE))[0])
        raise InvalidInput(
            f"policy must sum to 1 over the legal actions, but state {bad} sums to "
            f"{sums[bad]:.6g}."
        )
    normalized: Floats = kept / np.where(acting, sums, 1.0)[:, None]
    return normalized
