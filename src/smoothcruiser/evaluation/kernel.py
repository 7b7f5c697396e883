"""Rollouts of a policy in compiled code, from a table over states or a search tree.

One rollout is a path of ``path_rules``: it ends with its episode, or after the
number of steps that its coins allow. Omega is what ``exact.policy_value``
subtracts. A tree's policy is followed from its root for as long as the tree knows
the state. From there on the policy is blind: grad F(0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import keep, load, store, transition
from smoothcruiser.evaluation.path_rules import (
    BALANCE,
    LOWER,
    STEPS,
    TOTAL,
    UPPER,
    PathRule,
    X,
    path_length,
)
from smoothcruiser.jit.memory import flag_at
from smoothcruiser.operators.dispatch import (
    builtin_blind,
    builtin_gradient,
    builtin_omega,
    is_greedy,
)
from smoothcruiser.problem.tabular_kernel import (
    tabular_legal,
    tabular_player,
    tabular_terminal,
)
from smoothcruiser.tree.kernel import (
    BAD_PLAYER,
    BAD_REWARD,
    CALLS,
    CUT,
    DONE,
    EDGE,
    FAULT,
    FEW_ACTIONS,
    UNDECLARED_END,
    Floats,
    Ints,
    Setting,
    find_child,
    gather,
    opened,
    same,
    sign_of,
    state_hash,
)
from smoothcruiser.tree.searches import TreeRule
from smoothcruiser.tree.selection import drawn, recommended


def table_row(state: int) -> int:
    """The row of a table policy; states of other types have none."""
    return state


STEP, LEGAL, TERMINAL, PLAYER, ROW = (
    transition,
    tabular_legal,
    tabular_terminal,
    tabular_player,
    table_row,
)
GRADIENT, OMEGA, UNINFORMED = builtin_gradient, builtin_omega, builtin_blind
LOAD, STORE, KEEP, HASH, SAME = load, store, keep, state_hash, same


def node_policies(
    rule: TreeRule,
    setting: Setting,
    ints: Ints,
    floats: Floats,
    count: int,
    K: int,
    head: Floats,
    code: int,
    weights: Floats,
    t: float,
    out: Floats,
) -> None:
    """The policy of every node (``Tree.policy``), written to ``out`` (count, K)."""
    acts = np.empty(K, np.int64)
    n = np.empty(K, np.int64)
    x, h = np.zeros(K), np.zeros(K)
    y: Any = np.empty(K)
    w: Any = np.empty(K)
    p: Any = np.empty(K)
    for node in range(count):
        most = opened(setting, ints, node, 0)
        size = gather(rule, ints, floats, node, K, head, acts, n, x, h, most)
        for a in range(K):
            out[node, a] = 0.0
        if is_greedy(code):
            out[node, acts[recommended(rule, x, n, size)]] = 1.0
            continue
        for j in range(size):
            w[j] = weights[acts[j]]
            y[j] = x[j]
        GRADIENT(code, y[:size], w[:size], t, p)
        for j in range(size):
            out[node, acts[j]] = p[j]


def policy_rollouts(
    setting: Setting, code: int, t: float, weights: Floats, data: Any,
    table: Floats, follows: bool, ints: Ints, hashes: Ints, states: Any,
    scratch: Any, root_state: Any, meta: Ints, fault: Floats,
    rule: PathRule, most_calls: int, samples: Floats,
    lots: Floats, rng: Any, coins: Any, stop: int,
) -> tuple[int, int]:  # fmt: skip
    """(how it ended, the number of paths finished).

    Path i writes row i of ``samples``; its length comes from ``coins``. A path that
    the budget interrupts is not counted, nor is one that the flag at address ``stop``
    interrupts; none follows. ``lots[0]`` becomes 1 where the policy left something to
    chance.
    """
    K = setting.num_actions
    acts = np.empty(K, np.int64)
    p: Any = np.empty(K)
    w: Any = np.empty(K)
    zeros: Any = np.zeros(K)
    fee = 1.0 - setting.discount  # of the control variate, per step that goes on
    count = len(samples)
    for finished in range(count):
        STORE(scratch, 0, root_state)
        state = LOAD(scratch, 0)
        cursor = 0 if follows else -1
        x, balance, weight = rule.control, 1.0, 1.0
        total, discounted = 0.0, 1.0
        lower, upper = math.inf, -math.inf  # where it was cut
        depth, length = 0, path_length(rule, coins)
        while depth < length:
            if meta[CALLS] >= most_calls or flag_at(stop) != 0:
                return CUT, finished
            size = 0
            for a in range(K):
                if not setting.varies or LEGAL(data, state, a):
                    acts[size] = a
                    w[size] = weights[a]
                    size += 1
            if size < setting.fewest:
                STORE(scratch, 1, state)
                return FEW_ACTIONS, finished
            if follows and cursor < 0:
                UNINFORMED(code, zeros[:size], w[:size], t, p[:size])
            else:
                row = cursor if follows else ROW(state)
                for j in range(size):
                    p[j] = table[row, acts[j]]
            j = drawn(p, size, rng)
            if p[j] < 1.0:
                lots[0] = 1.0
            sign = sign_of(setting, data, state)
            if sign == 0.0:
                STORE(scratch, 1, state)
                return BAD_PLAYER, finished
            meta[CALLS] += 1
            reward, after, over = STEP(data, state, acts[j], rng)
            if not (setting.low <= reward <= setting.high) or (
                over and not setting.ends
            ):
                STORE(scratch, 1, state)
                meta[FAULT] = acts[j]
                fault[0] = reward
                return (
                    UNDECLARED_END
                    if setting.low <= reward <= setting.high
                    else BAD_REWARD
                ), finished
            income = reward - sign * OMEGA(code, p[:size], w[:size], t)
            total += discounted * income
            depth += 1
            if setting.ends and (over or TERMINAL(data, after)):
                x += weight * (income - rule.control)
                balance -= weight
                break
            x += weight * (income - fee * rule.control)
            balance -= weight * fee
            discounted *= setting.discount
            if depth <= rule.head:
                weight *= setting.discount
            if depth >= rule.head and depth < length:
                if x < rule.floor and lower == math.inf:
                    lower = x + weight * (rule.value_low - rule.control)
                if x > rule.ceiling and upper == -math.inf:
                    upper = x + weight * (rule.value_high - rule.control)
            if cursor >= 0:
                cursor = find_child(ints, hashes, states, cursor, acts[j], after)
                if cursor >= 0 and not tried(ints, cursor, K):
                    cursor = -1
            state = KEEP(scratch, 0, after)
        samples[finished, X] = x
        samples[finished, BALANCE] = balance
        samples[finished, LOWER] = x if lower == math.inf else lower
        samples[finished, UPPER] = x if upper == -math.inf else upper
        samples[finished, TOTAL] = total
        samples[finished, STEPS] = depth
    return DONE, count


def tried(ints: Ints, node: int, K: int) -> bool:
    """Whether the tree knows anything of a node's actions.

    It knows nothing of a leaf that only started a rollout.
    """
    known = 0
    for a in range(K):
        if ints[node, EDGE + a] > 0:
            known += 1
    return known > 0
