"""Rollouts of a policy, in machine code and interpreted.

Machine code reads the policy from a table over states or from a search tree. Interpreted
(``plain_rollouts``), the policy, the problem and the arrays are Python's.

One rollout is a path of ``path_rules``: it ends with its episode, with the horizon, or
after the number of steps that its coins allow. ``CRITIC`` is the control variate W
(``critics``), which a rule that clips it to [0, 0] does without. Omega is that of
``exact.policy_value``. A tree's policy is followed from its root for as long as the tree
knows the state. From there on the policy is blind: grad F(0).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.kernel import keep, load, store, transition
from smoothcruiser.evaluation.critic_kernel import array_value
from smoothcruiser.evaluation.path_rules import (
    BALANCE,
    LOWER,
    STEPS,
    TOTAL,
    UPPER,
    WORTH_HIGH,
    WORTH_LOW,
    PathRule,
    X,
    path_length,
)
from smoothcruiser.jit.primitives import (
    flag_at,
    tabular_legal,
    tabular_player,
    tabular_terminal,
)
from smoothcruiser.operators.dispatch import (
    builtin_blind,
    builtin_gradient,
    builtin_omega,
    is_greedy,
)
from smoothcruiser.tree.kernels.kernel import (
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
    count_open_actions,
    gather,
)
from smoothcruiser.tree.kernels.parts_kernel import find_child, same, state_hash
from smoothcruiser.tree.search_numbers import Setting, TreeRule
from smoothcruiser.tree.selection import recommended_slot, sample_slot


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
CRITIC = array_value
BAD_WORTH = 30  # how a call ended: the critic gave no finite number


def clip_worth(rule: PathRule, worth: float) -> float:
    """The critic's value, brought into the range of the rule."""
    return min(max(worth, rule.worth_low), rule.worth_high)


def expected_surplus(
    rule: PathRule,
    state: Any,
    action: int,
    steps_left: int,
    reward: float,
    next_worth: float,
) -> float:
    """E[r + gamma W(z)] - r where the law is known, else the sample: gamma W(z)."""
    return rule.discount * next_worth


def sign_of(setting: Setting, data: Any, state: Any) -> float:
    """+1 where the max player moves, -1 where the min player does, 0 otherwise."""
    if not setting.game:
        return 1.0
    player = PLAYER(data, state)
    return 1.0 if player == 1 else -1.0 if player == 2 else 0.0


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
    action_ids = np.empty(K, np.int64)
    n = np.empty(K, np.int64)
    x, h = np.zeros(K), np.zeros(K)
    y: Any = np.empty(K)
    w: Any = np.empty(K)
    p: Any = np.empty(K)
    for node in range(count):
        max_actions = count_open_actions(setting, ints, node, 0)
        num_legal = gather(
            rule, ints, floats, node, K, head, action_ids, n, x, h, max_actions
        )
        for a in range(K):
            out[node, a] = 0.0
        if is_greedy(code):
            out[node, action_ids[recommended_slot(rule, x, n, num_legal)]] = 1.0
            continue
        for j in range(num_legal):
            w[j] = weights[action_ids[j]]
            y[j] = x[j]
        GRADIENT(code, y[:num_legal], w[:num_legal], t, p)
        for j in range(num_legal):
            out[node, action_ids[j]] = p[j]


def list_actions(
    setting: Setting, data: Any, state: Any, weights: Any, action_ids: Any, w: Any
) -> int:
    """The number of legal actions, which are written in order with their weights."""
    num_legal = 0
    for a in range(setting.num_actions):
        if not setting.varies or LEGAL(data, state, a):
            action_ids[num_legal] = a
            w[num_legal] = weights[a]
            num_legal += 1
    return num_legal


def fill_policy(
    code: int, t: float, table: Floats, follows: bool, tree_node: int, state: Any,
    action_ids: Any, num_legal: int, zeros: Any, w: Any, p: Any,
) -> None:  # fmt: skip
    """The probabilities of the legal actions, written to ``p``."""
    if follows and tree_node < 0:
        UNINFORMED(code, zeros[:num_legal], w[:num_legal], t, p[:num_legal])
    else:
        row = tree_node if follows else ROW(state)
        for j in range(num_legal):
            p[j] = table[row, action_ids[j]]


def policy_rollouts(
    setting: Setting, code: int, t: float, weights: Floats, data: Any,
    table: Floats, follows: bool, ints: Ints, hashes: Ints, states: Any,
    scratch: Any, root_state: Any, meta: Ints, fault: Floats,
    rule: PathRule, most_calls: int, samples: Floats,
    lots: Floats, rng: Any, coins: Any, stop: int, critic_data: Any,
) -> tuple[int, int]:  # fmt: skip
    """(the status at the end, the number of paths finished).

    Path i writes row i of ``samples``; its length comes from ``coins``. A path that
    the budget interrupts is not counted, nor is one that the flag at address ``stop``
    interrupts; none follows. ``lots[0]`` becomes 1 where the policy left something to
    chance.
    """
    K = setting.num_actions
    action_ids = np.empty(K, np.int64)
    p: Any = np.empty(K)
    w: Any = np.empty(K)
    zeros: Any = np.zeros(K)
    control_fee = (
        1.0 - setting.discount
    )  # of the control variate, per step that goes on
    num_paths = len(samples)
    has_critic = rule.worth_low != 0.0 or rule.worth_high != 0.0
    for finished in range(num_paths):
        STORE(scratch, 0, root_state)
        state = LOAD(scratch, 0)
        tree_node = 0 if follows else -1
        x, balance, weight = rule.control, 1.0, 1.0
        path_total, step_discount = 0.0, 1.0
        cut_lower, cut_upper = math.inf, -math.inf  # where it was cut
        depth, length = 0, min(path_length(rule, coins), rule.horizon)
        steps_left = rule.horizon if rule.has_horizon else -1
        worth, worth_low, worth_high = 0.0, math.inf, -math.inf
        if has_critic and (rule.head == 0 or rule.from_start):
            raw_worth = CRITIC(critic_data, steps_left, state)
            if not abs(raw_worth) < math.inf:
                STORE(scratch, 1, state)
                return BAD_WORTH, finished
            worth_low = worth_high = raw_worth
            worth = clip_worth(rule, raw_worth)
            x += worth
        while depth < length:
            if meta[CALLS] >= most_calls or flag_at(stop) != 0:
                return CUT, finished
            num_legal = list_actions(setting, data, state, weights, action_ids, w)
            if num_legal < setting.fewest:
                STORE(scratch, 1, state)
                return FEW_ACTIONS, finished
            fill_policy(
                code,
                t,
                table,
                follows,
                tree_node,
                state,
                action_ids,
                num_legal,
                zeros,
                w,
                p,
            )
            j = sample_slot(p, num_legal, rng)
            if p[j] < 1.0:
                lots[0] = 1.0
            sign = sign_of(setting, data, state)
            if sign == 0.0:
                STORE(scratch, 1, state)
                return BAD_PLAYER, finished
            meta[CALLS] += 1
            reward, next_state, is_over = STEP(data, state, action_ids[j], rng)
            if not (setting.low <= reward <= setting.high) or (
                is_over and not setting.ends
            ):
                STORE(scratch, 1, state)
                meta[FAULT] = action_ids[j]
                fault[0] = reward
                return (
                    UNDECLARED_END
                    if setting.low <= reward <= setting.high
                    else BAD_REWARD
                ), finished
            income = reward - sign * OMEGA(code, p[:num_legal], w[:num_legal], t)
            path_total += step_discount * income
            depth += 1
            is_last = setting.ends and (is_over or TERMINAL(data, next_state))
            if rule.has_horizon:
                steps_left -= 1
                is_last = is_last or steps_left == 0
            next_worth = 0.0
            if has_critic:
                if not is_last and (depth >= rule.head or rule.from_start):
                    raw_worth = CRITIC(critic_data, steps_left, next_state)
                    if not abs(raw_worth) < math.inf:
                        STORE(scratch, 1, next_state)
                        return BAD_WORTH, finished
                    worth_low = min(worth_low, raw_worth)
                    worth_high = max(worth_high, raw_worth)
                    next_worth = clip_worth(rule, raw_worth)
                x += weight * (
                    expected_surplus(
                        rule, state, action_ids[j], steps_left, reward, next_worth
                    )
                    - worth
                )
                worth = next_worth
            if is_last:
                x += weight * (income - rule.control)
                balance -= weight
                break
            x += weight * (income - control_fee * rule.control)
            balance -= weight * control_fee
            step_discount *= setting.discount
            if depth <= rule.head:
                weight *= setting.discount
            if (depth >= rule.head or rule.from_start) and depth < length:
                if x < rule.floor and cut_lower == math.inf:
                    cut_lower = x + weight * (rule.value_low - rule.control - worth)
                if x > rule.ceiling and cut_upper == -math.inf:
                    cut_upper = x + weight * (rule.value_high - rule.control - worth)
            if tree_node >= 0:
                tree_node = find_child(
                    ints, hashes, states, tree_node, action_ids[j], next_state
                )
                if tree_node >= 0 and not is_tried(ints, tree_node, K):
                    tree_node = -1
            state = KEEP(scratch, 0, next_state)
        samples[finished, X] = x
        samples[finished, BALANCE] = balance
        samples[finished, LOWER] = x if cut_lower == math.inf else cut_lower
        samples[finished, UPPER] = x if cut_upper == -math.inf else cut_upper
        samples[finished, TOTAL] = path_total
        samples[finished, STEPS] = depth
        samples[finished, WORTH_LOW] = worth_low
        samples[finished, WORTH_HIGH] = worth_high
    return DONE, num_paths


def is_tried(ints: Ints, node: int, K: int) -> bool:
    """Whether the tree knows anything of a node's actions.

    It knows nothing of a leaf that only started a rollout.
    """
    num_tried = 0
    for a in range(K):
        if ints[node, EDGE + a] > 0:
            num_tried += 1
    return num_tried > 0
