"""The machine of trees that ask an evaluator: leaves of simulations wait for it.

It is the loop of ``tree.kernels.kernel.grow`` with one difference: a new leaf is not valued at
once. It waits, with its path, until ``leaf_setting.batch`` leaves wait, or the simulations
are all under way, or too many arrived at a leaf that waits already. Then all are
answered (by EVALUATE inside, or by Python after ASK) and backed up in the order in
which they came. Meanwhile their visits count: an action with n visits and o that wait
is selected as if it had n + o, and its value is lowered by loss * o / (n + o) (Liu et
al. 2020 for loss = 0; a virtual loss otherwise). With a batch of 1 nothing ever waits.

Nodes have up to three more blocks of K columns among their floats: priors (or the
entropies of DENTS), visits that wait, first values of actions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.tree.kernels import kernel
from smoothcruiser.tree.kernels.kernel import (
    ADDED,
    AT_NODE,
    BAD_BOUNDS,
    CALLS,
    COUNT,
    CUT,
    DEEPEST,
    DONE,
    EDGE,
    FIRST,
    HELD,
    IN_ROLLOUT,
    IN_TREE,
    NO_ROOM,
    NOTHING_HELD,
    ROLLED,
    SIGN,
    SIMULATIONS,
    STEPS,
    TOTAL,
    VALUE,
    VISITS,
    Floats,
    Ints,
    Nodes,
    Workspace,
    add_node,
    backup,
    blind_rollout,
    borrow_array,
    first_estimate,
    gather,
    node_policy,
    note_fault,
    note_policy,
    set_prior,
)
from smoothcruiser.tree.kernels.rules_kernel import (
    best_untried,
    clip,
    halving_pick,
    improved_pick,
    prior_pick,
    shares_of,
)
from smoothcruiser.tree.search_numbers import (
    IMPROVED,
    NO_PRIOR,
    OWN_PICK,
    PARENT_PRIOR,
    PRIOR_UPPER,
    UPPER,
    LeafSetting,
    Setting,
    TreeRule,
)
from smoothcruiser.tree.selection import own_pick, sample_slot, upper_pick

# as in ``tree.kernels.kernel``
STEP, TERMINAL, LOAD, STORE = kernel.STEP, kernel.TERMINAL, kernel.LOAD, kernel.STORE
FIND, ENTER = kernel.FIND, kernel.ENTER
LEAF_VALUE, KNOWN_BOUNDS = kernel.LEAF_VALUE, kernel.KNOWN_BOUNDS
BOUNDED, PRUNES = kernel.BOUNDED, kernel.PRUNES

# further ends of a call: Python is to answer, or an answer cannot be used
ASK, BAD_ANSWER = 100, 101
# slots of ``Waiting.counts``
QUEUED, COLLIDED, ASKED, CLIPPED, BAD_ROW = range(5)


class Waiting(NamedTuple):
    """Leaves that wait, with room for B of them."""

    paths: Ints  # (B, steps, 3) as in ``Workspace``
    rewards: Floats  # (B, steps)
    steps: Ints  # (B,) lengths of the paths
    rolled: Floats  # (B,) returns of rollouts
    answers: Floats  # (B, 1 + 2 K), see ``evaluator_queue``
    counts: Ints  # (5,)
    states: Any  # (B,) in the machine's form
    tables: Any  # read by EVALUATE


class GumbelRoot(NamedTuple):
    """Numbers of the root of Gumbel MuZero."""

    gumbels: Floats  # (K,)
    since: Ints  # (K,) visits when the node became the root
    plan: Ints  # visits considered, one per simulation


def no_answer(tables: Any, state: Any, row: Floats) -> bool:
    """No answer, and none is needed."""
    return True


def answer_from_tables(tables: Any, state: int, row: Floats) -> bool:
    """The rows of arrays over states; an array without rows says nothing."""
    value_table, prior_table, first_table = tables
    if len(value_table) > 0:
        row[0] = value_table[state, 0]
    K = (len(row) - 1) // 2
    if len(prior_table) > 0:
        for a in range(K):
            row[1 + a] = prior_table[state, a]
    if len(first_table) > 0:
        for a in range(K):
            row[1 + K + a] = first_table[state, a]
    return True


EVALUATE = no_answer


def count_waiting(
    floats: Floats, node: int, K: int, acts: Ints, size: int, loss: float, n: Ints,
    x: Floats,
) -> int:  # fmt: skip
    """Visits below a node that wait; they are added to ``n``, the loss to ``x``."""
    total_waiting = 0
    for j in range(size):
        num_waiting = int(floats[node, TOTAL + 2 * K + acts[j]])
        if num_waiting > 0:
            total_waiting += num_waiting
            n[j] += num_waiting
            x[j] -= loss * num_waiting / n[j]
    return total_waiting


def select_action(
    rule: TreeRule, setting: Setting, leaf_setting: LeafSetting, ints: Ints, floats: Floats,
    boxes: Floats, node: int, depth: int, head: Floats, weights: Floats, policies: Floats,
    root: GumbelRoot, acts: Ints, n: Ints, x: Floats, h: Floats, y: Floats, p: Floats,
    w: Floats, rng: Any,
) -> int:  # fmt: skip
    """The action that the method's tree policy selects at a node."""
    K = setting.num_actions
    num_legal = gather(rule, ints, floats, node, K, head, acts, n, x, h, K)
    if PRUNES and setting.bounds:
        clip(boxes, node, floats[node, SIGN], K, acts, x, num_legal)
    node_visits = ints[node, VISITS]
    if leaf_setting.batch > 1:
        node_visits += count_waiting(
            floats, node, K, acts, num_legal, leaf_setting.loss, n, x
        )
    if leaf_setting.by_prior:
        for j in range(num_legal):
            w[j] = floats[node, TOTAL + K + acts[j]]
    j = -1
    if rule.descent == PRIOR_UPPER:
        j = prior_pick(rule, x, n, w, num_legal)
    elif rule.descent == IMPROVED:
        first_value = floats[node, SIGN] * floats[node, FIRST]
        if node == 0:
            j = halving_pick(rule, x, n, w, first_value, acts, num_legal, root, y)
        if j < 0:
            j = improved_pick(rule, x, n, w, first_value, num_legal, y, p)
    elif rule.descent == UPPER:
        if rule.warm:
            j = best_untried(x, n, num_legal)
        if j < 0:
            j = upper_pick(rule, x, n, num_legal, node_visits, rng)
    elif rule.descent == OWN_PICK:
        j = own_pick(rule, x, n, num_legal, node_visits, rng)
    else:
        if rule.prior != NO_PRIOR:
            set_prior(rule, weights, policies, depth, acts, n, num_legal, w)
        node_policy(rule, x, w, h, num_legal, K, node_visits, y, p)
        j = sample_slot(p, num_legal, rng)
        if rule.prior == PARENT_PRIOR:
            note_policy(policies, depth, acts, p, num_legal)
    return acts[j]  # type: ignore[no-any-return]


def clip_value(leaf_setting: LeafSetting, value: float, counts: Ints) -> float:
    """A value inside its bounds; counts those that were not."""
    if value < leaf_setting.low:
        counts[CLIPPED] += 1
        return leaf_setting.low
    if value > leaf_setting.high:
        counts[CLIPPED] += 1
        return leaf_setting.high
    return value


def inform_node(
    leaf_setting: LeafSetting, ints: Ints, floats: Floats, node: int, K: int, row: Floats,
    acts: Ints, p: Floats,
) -> bool:  # fmt: skip
    """Give a node its priors and first values; False where they cannot be used."""
    num_legal = 0
    for a in range(K):
        if ints[node, EDGE + a] >= 0:
            acts[num_legal] = a
            num_legal += 1
    if leaf_setting.by_prior:
        if leaf_setting.priors:
            if not shares_of(row[1 : 1 + K], acts, num_legal, p):
                return False
        else:
            for j in range(num_legal):
                p[j] = 1.0 / num_legal
        for j in range(num_legal):
            floats[node, TOTAL + K + acts[j]] = p[j]
    if leaf_setting.firsts:
        for j in range(num_legal):
            first_value = row[1 + K + acts[j]]
            if not math.isfinite(first_value):
                return False
            floats[node, TOTAL + 3 * K + acts[j]] = first_value
    return True


def count_arrival(ints: Ints, floats: Floats, node: int, leaf: float) -> None:
    """Count an arrival at a leaf: the first sets its value, others wait with it."""
    if node < 0:
        return
    if ints[node, VISITS] == 0:
        first_estimate(ints, floats, node, leaf)
        return
    ints[node, VISITS] += 1
    floats[node, VALUE] += (leaf - floats[node, VALUE]) / ints[node, VISITS]
    floats[node, FIRST] = floats[node, VALUE]


def back_up_waiting(
    rule: TreeRule, setting: Setting, leaf_setting: LeafSetting, head: Floats,
    weights: Floats, ints: Ints, floats: Floats, boxes: Floats, waiting: Waiting,
    policies: Floats, meta: Ints, acts: Ints, n: Ints, x: Floats, h: Floats, y: Floats,
    p: Floats, w: Floats,
) -> int:  # fmt: skip
    """Back up the leaves that wait, which were answered, in their order."""
    K, counts = setting.num_actions, waiting.counts
    num_queued = counts[QUEUED]
    for i in range(num_queued):  # all are good before any is used
        answer_row, path = waiting.answers[i], waiting.paths[i]
        child = path[waiting.steps[i] - 1, 2]
        is_usable = not leaf_setting.values or math.isfinite(answer_row[0])
        if is_usable and child >= 0 and ints[child, VISITS] == 0:
            is_usable = inform_node(
                leaf_setting, ints, floats, child, K, answer_row, acts, p
            )
        if not is_usable:
            counts[BAD_ROW] = i
            return BAD_ANSWER
    for i in range(num_queued):
        num_steps, path = waiting.steps[i], waiting.paths[i]
        if leaf_setting.batch > 1:
            for d in range(num_steps):
                floats[path[d, 0], TOTAL + 2 * K + path[d, 1]] -= 1.0
        leaf_estimate = waiting.rolled[i]
        if leaf_setting.values:
            value = clip_value(leaf_setting, waiting.answers[i][0], counts)
            leaf_estimate = (
                (1.0 - leaf_setting.mix) * value + leaf_setting.mix * leaf_estimate
                if leaf_setting.mix > 0.0
                else value
            )
        count_arrival(ints, floats, path[num_steps - 1, 2], leaf_estimate)
        backup(
            rule, setting, head, weights, ints, floats, boxes, path, waiting.rewards[i],
            policies, num_steps, leaf_estimate, acts, n, x, h, y, p, w,
        )  # fmt: skip
        meta[SIMULATIONS] += 1
    counts[ASKED] += num_queued
    counts[QUEUED], counts[COLLIDED] = 0, 0
    return DONE


def enqueue(
    leaf_setting: LeafSetting, K: int, floats: Floats, waiting: Waiting, path: Ints,
    rewards: Floats, depth: int, rolled: float, collides: bool,
) -> None:  # fmt: skip
    """Let the leaf at the end of a path wait; its state is stored already."""
    i = waiting.counts[QUEUED]
    waiting_path, waiting_rewards = waiting.paths[i], waiting.rewards[i]
    for d in range(depth):
        for column in range(3):
            waiting_path[d, column] = path[d, column]
        waiting_rewards[d] = rewards[d]
        if leaf_setting.batch > 1:
            floats[path[d, 0], TOTAL + 2 * K + path[d, 1]] += 1.0
    waiting.steps[i], waiting.rolled[i] = depth, rolled
    waiting.counts[QUEUED] = i + 1
    if collides:
        waiting.counts[COLLIDED] += 1


def grow(
    rule: TreeRule, setting: Setting, leaf_setting: LeafSetting, root: GumbelRoot,
    head: Floats, weights: Floats, data: Any, nodes: Nodes, workspace: Workspace,
    states: Any, scratch: Any, waiting: Waiting, meta: Ints, fault: Floats,
    most_simulations: int, most_calls: int, answered: bool, rng: Any,
) -> int:  # fmt: skip
    """Run simulations from node 0, and return how the call ended.

    It ends as ``tree.kernels.kernel.grow`` does, or with ASK where leaves wait for Python, which
    writes ``waiting.answers`` and calls again with ``answered``.
    """
    ints, floats, table = (
        borrow_array(nodes.ints),
        borrow_array(nodes.floats),
        borrow_array(nodes.table),
    )
    path, rewards = borrow_array(workspace.path), borrow_array(workspace.rewards)
    policies, held_slots, carry = (
        borrow_array(workspace.policies),
        borrow_array(workspace.held),
        borrow_array(workspace.carry),
    )
    acts, n, x, h = (
        borrow_array(workspace.acts),
        borrow_array(workspace.n),
        borrow_array(workspace.x),
        borrow_array(workspace.h),
    )
    y, p, w = (
        borrow_array(workspace.y),
        borrow_array(workspace.p),
        borrow_array(workspace.w),
    )
    head, weights, meta, fault = (
        borrow_array(head),
        borrow_array(weights),
        borrow_array(meta),
        borrow_array(fault),
    )
    states, scratch = borrow_array(states), borrow_array(scratch)
    counts, boxes = borrow_array(waiting.counts), borrow_array(nodes.boxes)
    K = setting.num_actions
    capacity = len(ints)
    while True:
        num_queued = counts[QUEUED]
        if num_queued > 0 and (
            num_queued == leaf_setting.batch
            or counts[COLLIDED] >= leaf_setting.collisions
            or meta[SIMULATIONS] + num_queued >= most_simulations
        ):
            if not answered:
                if not leaf_setting.inside:
                    return ASK
                for i in range(num_queued):
                    answer_row = waiting.answers[i]
                    if not EVALUATE(
                        waiting.tables, LOAD(waiting.states, i), answer_row
                    ):
                        counts[BAD_ROW] = i
                        return BAD_ANSWER
            answered = False
            status = back_up_waiting(
                rule, setting, leaf_setting, head, weights, ints, floats, boxes, waiting,
                policies, meta, acts, n, x, h, y, p, w,
            )  # fmt: skip
            if status != DONE:
                return status
            continue
        if meta[SIMULATIONS] >= most_simulations:
            return DONE
        if meta[COUNT] + 1 > capacity and capacity < setting.most_nodes:
            return NO_ROOM
        node, depth, leaf_estimate, rollout_return, leaf_waits, collides = (
            0,
            0,
            0.0,
            0.0,
            False,
            False,
        )
        stopped_in, held_slots[HELD] = held_slots[HELD], NOTHING_HELD
        if stopped_in != NOTHING_HELD:
            node, depth = held_slots[AT_NODE], held_slots[STEPS]
        if stopped_in == IN_ROLLOUT:
            collides, leaf_waits = held_slots[ADDED] == 1, True
            rollout_return, status = blind_rollout(
                setting, head, data, LOAD(scratch, 2), scratch, held_slots[ROLLED],
                carry[0], carry[1], held_slots, carry, meta, fault, most_calls, acts, rng,
            )  # fmt: skip
            if status != DONE:
                return status
            # leaves before it may have been answered since
            STORE(waiting.states, counts[QUEUED], LOAD(scratch, 3))
        while stopped_in != IN_ROLLOUT:
            if meta[CALLS] >= most_calls:
                held_slots[HELD], held_slots[AT_NODE], held_slots[STEPS] = (
                    IN_TREE,
                    node,
                    depth,
                )
                return CUT
            action = select_action(
                rule, setting, leaf_setting, ints, floats, boxes, node, depth, head,
                weights, policies, root, acts, n, x, h, y, p, w, rng,
            )  # fmt: skip
            state = LOAD(states, node)
            meta[CALLS] += 1
            reward, next_state, is_over = STEP(data, state, action, rng)
            if not (setting.low <= reward <= setting.high) or (
                is_over and not setting.ends
            ):
                return note_fault(setting, scratch, state, action, reward, meta, fault)
            path[depth, 0], path[depth, 1], path[depth, 2] = node, action, -1
            rewards[depth] = reward
            depth += 1
            if setting.ends and (is_over or TERMINAL(data, next_state)):
                break
            if depth == setting.limit:
                leaf_waits, rollout_return = leaf_setting.deep, setting.tail
                if leaf_waits:
                    STORE(waiting.states, counts[QUEUED], next_state)
                if BOUNDED and setting.beyond:
                    rollout_return, bounds_hold = LEAF_VALUE(data, setting, next_state)
                    if not bounds_hold:
                        STORE(scratch, 1, next_state)
                        return BAD_BOUNDS
                leaf_estimate = rollout_return
                break
            child = FIND(data, ints, table, states, node, action, next_state)
            if child >= 0:
                ints[node, EDGE + K + action] = child
                path[depth - 1, 2] = child
                if ints[child, VISITS] > 0:
                    node = child
                    continue
                collides = True
            elif meta[COUNT] < capacity:
                free_slot = -1 - child
                child = add_node(
                    setting, data, ints, floats, states, meta, acts, node, action,
                    next_state,
                )  # fmt: skip
                if child < 0:
                    STORE(scratch, 1, next_state)
                    return -child
                ENTER(data, table, free_slot, node, action, next_state, child)
                if PRUNES and setting.bounds:
                    num_moves = setting.elapsed + depth
                    KNOWN_BOUNDS(
                        data, workspace, num_moves, next_state, ints, boxes, child
                    )
                ints[node, EDGE + K + action] = child
                path[depth - 1, 2] = child
                if depth > meta[DEEPEST]:
                    meta[DEEPEST] = depth
            leaf_waits = True
            STORE(waiting.states, counts[QUEUED], next_state)
            if leaf_setting.mix > 0.0:
                if BOUNDED and setting.bounded:
                    rollout_return, bounds_hold = LEAF_VALUE(data, setting, next_state)
                    if not bounds_hold:
                        STORE(scratch, 1, next_state)
                        return BAD_BOUNDS
                else:
                    rollout_return, status = blind_rollout(
                        setting, head, data, next_state, scratch, depth, 0.0, 1.0,
                        held_slots, carry, meta, fault, most_calls, acts, rng,
                    )  # fmt: skip
                    if status != DONE:
                        STORE(scratch, 3, next_state)
                        held_slots[STEPS], held_slots[ADDED] = (
                            depth,
                            1 if collides else 0,
                        )
                        return status
            break
        if leaf_waits:
            enqueue(
                leaf_setting,
                K,
                floats,
                waiting,
                path,
                rewards,
                depth,
                rollout_return,
                collides,
            )
            continue
        backup(
            rule, setting, head, weights, ints, floats, boxes, path, rewards, policies,
            depth, leaf_estimate, acts, n, x, h, y, p, w,
        )  # fmt: skip
        meta[SIMULATIONS] += 1


def blank_waiting(
    setting: Setting, leaf_setting: LeafSetting, states: Any, tables: Any
) -> Waiting:
    """Room for the leaves that wait."""
    B, K, path_length = leaf_setting.batch, setting.num_actions, setting.limit + 1
    return Waiting(
        paths=np.zeros((B, path_length, 3), np.int64),
        rewards=np.zeros((B, path_length)),
        steps=np.zeros(B, np.int64),
        rolled=np.zeros(B),
        answers=np.zeros((B, 1 + 2 * K)),
        counts=np.zeros(5, np.int64),
        states=states,
        tables=tables,
    )


def empty_gumbel_root(K: int) -> GumbelRoot:
    """The root of a search without Gumbel numbers, or before they are drawn."""
    return GumbelRoot(np.zeros(K), np.zeros(K, np.int64), np.zeros(0, np.int64))
