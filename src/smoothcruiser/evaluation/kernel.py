"""Rollouts of a policy in compiled code, from a table over states or a search tree.

One rollout is X = sum over t < H of gamma^t (r_t - sign Omega(pi(.|s_t))), plus
gamma^H times a constant where it was truncated at H. Its mean is the
regularized value of the policy, up to the truncation. Omega is what
``exact.policy_value`` subtracts. A tree's policy is followed from its root for as
long as the tree knows the state. From there on the policy is blind: grad F(0).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import keep, load, store, transition
from smoothcruiser.evaluation.confidence import take
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
    count: int, most_calls: int, low: float, spread: float,
    sequence: Floats, lots: Floats, rng: Any, stop: int,
) -> tuple[int, int]:  # fmt: skip
    """(how it ended, the number of rollouts finished).

    Each takes (X - low)/spread into ``sequence``. A rollout that the budget
    interrupts is not counted, nor is one that the flag at address ``stop``
    interrupts. ``lots[0]`` becomes 1 where the policy left
    something to chance; ``lots[1]`` is the last X, then come the least and the most.
    """
    K = setting.num_actions
    acts = np.empty(K, np.int64)
    p: Any = np.empty(K)
    w: Any = np.empty(K)
    zeros: Any = np.zeros(K)
    for finished in range(count):
        STORE(scratch, 0, root_state)
        state = LOAD(scratch, 0)
        cursor = 0 if follows else -1
        total = 0.0
        weight = 1.0
        depth = 0
        while depth < setting.limit:
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
            total += weight * (reward - sign * OMEGA(code, p[:size], w[:size], t))
            depth += 1
            weight *= setting.discount
            if setting.ends and (over or TERMINAL(data, after)):
                weight = 0.0
                break
            if cursor >= 0:
                cursor = find_child(ints, hashes, states, cursor, acts[j], after)
                if cursor >= 0 and not tried(ints, cursor, K):
                    cursor = -1
            state = KEEP(scratch, 0, after)
        total += weight * setting.tail
        lots[1] = total
        lots[2], lots[3] = min(lots[2], total), max(lots[3], total)
        take(
            sequence,
            min(max((total - low) / spread, 0.0), 1.0) if spread > 0.0 else 0.0,
        )
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
