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
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.model.tabular import Bools, Floats, Ints
from smoothcruiser.problem.problem import Problem

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
    model = known_model(problem)
    tables = model.tables
    live_pairs = tables.legal & ~tables.terminal[:, None]
    checked_policy = check_policy(policy, live_pairs)
    entry_pair = np.repeat(np.arange(live_pairs.size), np.diff(tables.start))
    action_weight = checked_policy.reshape(-1)[entry_pair]
    is_used = action_weight > 0.0  # rows that are not live may hold anything
    from_state, to_state = (
        entry_pair[is_used] // live_pairs.shape[1],
        tables.next_state[is_used],
    )
    edge_flow = action_weight[is_used] * tables.prob[is_used]
    sign = np.where(tables.player == 1, 1.0, -1.0)
    income = np.bincount(
        from_state,
        weights=edge_flow * tables.reward[is_used],
        minlength=len(live_pairs),
    )
    income = np.where(
        tables.terminal,
        0.0,
        income - sign * regularizer(problem.operator, checked_policy, live_pairs),
    )

    def sweep(v: Floats) -> Floats:
        next_values: Floats = income + problem.discount * np.bincount(
            from_state, weights=edge_flow * v[to_state], minlength=len(live_pairs)
        )
        return next_values

    values = np.zeros(len(live_pairs))
    if problem.horizon is not None:
        for _ in range(problem.horizon):
            values = sweep(values)
        values[model.unknown(problem.horizon, problem.horizon)] = np.nan
        return values
    if is_undiscounted(problem):
        return _expected_totals(
            income.astype(np.float64),
            np.stack([from_state, to_state]),
            edge_flow,
            tables.terminal,
        )
    if len(live_pairs) <= LARGEST_SOLVE:
        matrix = np.eye(len(live_pairs))
        np.subtract.at(matrix, (from_state, to_state), problem.discount * edge_flow)
        return np.asarray(np.linalg.solve(matrix, income), dtype=np.float64)
    target_gap = tolerance * float(np.max(np.abs(income))) * (1.0 - problem.discount)
    while True:
        next_values = sweep(values)
        max_change = float(np.max(np.abs(next_values - values)))
        values = next_values
        if max_change * problem.discount <= max(
            target_gap, 4.0 * np.finfo(float).eps * float(np.max(np.abs(values)))
        ):
            return values


def _expected_totals(
    income: Floats, edge: Ints, flow: Floats, terminal: Bools
) -> Floats:
    """Expected totals of a chain at discount 1; ``edge`` leads from row 0 to row 1.

    States that reach no income are worth 0. Of the others those that cannot reach
    these, and all that may lead there, have incomes for ever: infinite where all
    have one sign, and refused where they do not.
    """
    from_state, to_state = edge[:, flow > 0.0]
    is_idle = (
        ~_reaching_states(from_state, to_state, (income != 0.0) & ~terminal) | terminal
    )
    is_endless = ~_reaching_states(from_state, to_state, is_idle)
    min_income, max_income = float(income.min()), float(income.max())
    if is_endless.any() and min_income < 0.0 < max_income:
        raise InvalidInput(
            f"The policy never ends from state {int(np.flatnonzero(is_endless)[0])}, and "
            "incomes have both signs: its total is not defined at discount 1; give "
            "horizon= or a discount below 1."
        )
    is_infinite = _reaching_states(from_state, to_state, is_endless)
    is_open = ~is_idle & ~is_infinite
    values = np.where(is_infinite, np.inf if max_income > 0.0 else -np.inf, 0.0)
    open_place = np.cumsum(is_open) - 1
    is_move = is_open[edge[0]] & (edge[0] != edge[1])
    # divided by the chance to leave a state, so that a rare exit keeps its digits
    leaving_flow = np.bincount(edge[0][is_move], flow[is_move], len(is_open))
    is_inside = is_move & is_open[edge[1]]
    matrix = np.eye(int(is_open.sum()))
    move_share = flow[is_inside] / leaving_flow[edge[0][is_inside]]
    np.subtract.at(matrix, tuple(open_place[edge[:, is_inside]]), move_share)
    try:
        values[is_open] = np.linalg.solve(
            matrix, income[is_open] / leaving_flow[is_open]
        )
    except np.linalg.LinAlgError:
        raise InvalidInput(
            "The policy's plays are too long for float64 at discount 1; give horizon= "
            "or a discount below 1."
        ) from None
    return values


def _reaching_states(state: Ints, target: Ints, goal: Bools) -> Bools:
    """(S,): where a chain with these edges may lead to ``goal``."""
    is_reaching = goal.copy()
    while True:
        new_states = state[is_reaching[target] & ~is_reaching[state]]
        if not len(new_states):
            return is_reaching
        is_reaching[new_states] = True


def check_policy(policy: Any, live: Bools) -> Floats:
    """The policy (S, A) as an array with rows that sum to 1; refuse any other."""
    policy_array = np.asarray(policy, dtype=float)
    if policy_array.shape != live.shape:
        raise InvalidInput(
            f"policy must have shape (S, A) = {live.shape}, got {policy_array.shape}."
        )
    legal_policy = np.where(live, policy_array, 0.0)
    is_acting = live.any(axis=1)
    if (
        not np.all(np.isfinite(policy_array))
        or np.any(policy_array < 0.0)
        or np.any(policy_array[is_acting] * ~live[is_acting] > 0.0)
    ):
        raise InvalidInput(
            "policy must hold probabilities of legal actions; it has a negative, "
            "undefined or illegal entry."
        )
    row_sums = legal_policy.sum(axis=1)
    if np.any(np.abs(row_sums[is_acting] - 1.0) > POLICY_TOLERANCE):
        bad_state = int(
            np.flatnonzero(is_acting & (np.abs(row_sums - 1.0) > POLICY_TOLERANCE))[0]
        )
        raise InvalidInput(
            f"policy must sum to 1 over the legal actions, but state {bad_state} sums to "
            f"{row_sums[bad_state]:.6g}."
        )
    normalized: Floats = legal_policy / np.where(is_acting, row_sums, 1.0)[:, None]
    return normalized
