"""The machine of tree search: simulations over flat arrays, in two forms.

It runs any method on any problem. The file is plain Python: interpreted over memoryviews
(``jit.forms``), with ``kernels.simulator`` as its ``data``, it takes any step and any
state; ``jit.build`` turns it into machine code for compiled problems, with other functions in
the place of STEP ... ROLLOUT. Both do the same arithmetic in the same order, so their
trees agree to the last bit. A node is a decision of one player. The children of
(node, action) are the next states that chance has shown. Alg. 5 of the paper is the
loop in ``grow``. A path is backed up from its end:

  Bellman backups, weights N(z)/N(s,a):
    total(s,a) += r + gamma (N(z) V(z), new minus old),   Q(s,a) = total(s,a) / N(s,a)
  mean returns (UCT, AR-BTS, AR-DENTS):
    total(s,a) += the return from (s,a)

A next state without a node (terminal, at the depth limit, beyond the memory)
adds r + gamma times its estimate, once and for all. The value of an untried action
follows from the first estimate u of its state: x = sign * u - F(0), so that F over
untried actions is that estimate. Edge visits are -1 where an action is illegal.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.tree.kernels.rules_kernel import (
    BROKEN,
    ROUNDED,
    box_of,
    clip,
    clip_to_box,
    keep_undecided,
    open_boxes,
    prove,
    upper_action,
)
from smoothcruiser.tree.search_numbers import (
    MEAN,
    NO_PRIOR,
    OWN_PICK,
    PARENT_PRIOR,
    UPPER,
    Setting,
    TreeRule,
)
from smoothcruiser.tree.selection import (
    descent_policy,
    entropy_below,
    own_pick,
    passed_up,
    sample_slot,
    upper_pick,
    visit_shares,
)
from smoothcruiser.tree.widening import (
    limits_chance,
    must_sample,
    note_child,
    note_end,
    open_count,
    renumber,
    stored_outcome,
)

# how a call of ``grow`` ended
DONE, BAD_REWARD, UNDECLARED_END, FEW_ACTIONS, NO_ROOM, CUT, BAD_PLAYER, BAD_BOUNDS = (
    range(8)
)
# of trees with boxes: the root is proven, a move had two outcomes, a play broke a claim
PROVEN, TWO_OUTCOMES, BROKEN_CLAIM = 20, 21, 22
# slots of ``meta``; INEXACT is 1 once a number in a box was rounded
COUNT, SIMULATIONS, CALLS, FAULT, DEEPEST, INEXACT = range(6)
# where a simulation was interrupted when the calls were used up
NOTHING_HELD, IN_TREE, IN_ROLLOUT = range(3)
# slots of ``held``: that place, and the numbers that the simulation needs to continue
HELD, AT_NODE, STEPS, ADDED, ROLLED = range(5)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


# Columns of the two tables that hold the nodes, one row per node: numbers that are
# read together lie together. The ints are arrivals, parent, the parent's action,
# then K edge visits and K latest children.
VISITS, PARENT, ACTION, EDGE = range(4)
# The floats are the value passed up, the first estimate, +1 max or -1 min, the
# signed entropy, then K totals (and K sums of entropies in DENTS).
VALUE, FIRST, SIGN, ENTROPY, TOTAL = range(5)


class Nodes(NamedTuple):
    """A tree as arrays, with room for C nodes of K actions."""

    ints: Ints  # (C, 3 + 2 K)
    floats: Floats  # (C, 4 + K), or (C, 4 + 2 K) with the sums of N(z) H(z) (DENTS)
    # (T,) hash table of node numbers, -1 if empty; T is a power of two, at
    # least 2 C
    table: Ints
    # (C, ...) answers to moves (``tree.widening``); (0, ...) where they always sample
    outcomes: Ints
    paid: Floats
    # (C, 3 K) of ``rules_kernel`` where the tree solves or knows bounds, else (1, 1)
    boxes: Floats


class Workspace(NamedTuple):
    """Workspace of a tree: a path, vectors of K, and a simulation that waits.

    The path has room for one step more than the limit. The simulation waits for
    more calls.
    """

    path: Ints  # node, action, child of each step
    rewards: Floats
    policies: Floats  # of the descent, where the prior is the parent's
    acts: Ints  # legal actions, their visits, signed values, signed entropies below
    n: Ints
    x: Floats
    h: Floats
    y: Floats
    p: Floats
    w: Floats  # prior weights
    held: Ints  # a simulation that ran out of calls, to be resumed
    carry: Floats  # the return of its rollout so far, and the weight of later rewards
    spans: Floats  # (T, 2): the box of an untried action after t moves; (1, 2): any t
    known: Ints  # (R, 2 + K) of ``rules_kernel``: known states
    ends: Floats  # (R, 2 K): their bounds


def workspace_for(
    rule: TreeRule, setting: Setting, weights: Floats, spans: Floats, known: Ints,
    ends: Floats,
) -> Workspace:  # fmt: skip
    """The workspace of a tree with these limits."""
    K, path_length = setting.num_actions, setting.limit + 1
    policies = np.empty((path_length if rule.prior == PARENT_PRIOR else 1, K))
    return Workspace(
        path=np.empty((path_length, 3), np.int64),
        rewards=np.empty(path_length),
        policies=policies,
        acts=np.empty(K, np.int64),
        n=np.empty(K, np.int64),
        x=np.zeros(K),
        h=np.zeros(K),
        y=np.zeros(K),
        p=np.zeros(K),
        w=weights.copy(),
        held=np.zeros(5, np.int64),
        carry=np.zeros(2),
        spans=spans,
        known=known,
        ends=ends,
    )


def step_of(simulator: Any, state: Any, action: int, rng: Any) -> Any:
    """(reward, next state, whether it is over): a checked call of a plain step."""
    return simulator.step(state, action, rng)


def legal_actions(simulator: Any, state: Any, acts: Any, K: int) -> int:
    """The number of legal actions, which are written to ``acts``."""
    return simulator.write_legal(state, acts)  # type: ignore[no-any-return]


def terminal_of(simulator: Any, state: Any) -> Any:
    """Whether the episode is over."""
    return simulator.is_terminal(state)


def player_of(simulator: Any, state: Any) -> Any:
    """The player to move."""
    return simulator.mover(state)


def middle_value(simulator: Any, setting: Setting, state: Any) -> tuple[float, bool]:
    """The middle of the bounds on V at a leaf, and whether they keep their claim."""
    return simulator.middle_of(state), True


def load_object(states: Any, i: int) -> Any:
    """The state in row ``i``."""
    return states[i]


def store_object(states: Any, i: int, state: Any) -> None:
    """Write a state to row ``i``."""
    states[i] = state


def keep_object(states: Any, i: int, state: Any) -> Any:
    """The state itself: nobody writes into the memory of an object."""
    return state


def look_up(
    simulator: Any, ints: Ints, table: Any, states: Any, node: int, action: int, state: Any
) -> int:  # fmt: skip
    """The number of a child, or -1."""
    return simulator.find_child(node, action, state)  # type: ignore[no-any-return]


def enter(
    simulator: Any, table: Any, slot: int, node: int, action: int, state: Any, child: int
) -> None:  # fmt: skip
    """Let a new child be found."""
    simulator.enter_child(child)


def apply_bounds(
    simulator: Any, workspace: Workspace, num_moves: int, state: Any, ints: Ints,
    boxes: Floats, node: int,
) -> None:  # fmt: skip
    """Give a new node the bounds that are known of its state."""
    simulator.apply_bounds(num_moves, state, ints, boxes, node)


def keep_table(ints: Ints, table: Any, states: Any, count: int) -> None:
    """Do nothing: a dictionary of children is renumbered by its owner."""


def borrow_array(array: Any) -> Any:
    """The array itself; in compiled code, without a count of its references."""
    return array


# The parts of the interpreted form. Those of compiled ones: ``kernels.compiled_parts``.
STEP, LEGAL_ACTIONS, TERMINAL, PLAYER = step_of, legal_actions, terminal_of, player_of
LOAD, STORE, KEEP = load_object, store_object, keep_object
FIND, ENTER, REHASH = look_up, enter, keep_table
LEAF_VALUE, KNOWN_BOUNDS = middle_value, apply_bounds
# Whether a tree may have rare features: stored outcomes, boxes, actions that open one
# by one, first values of actions. A constant, so that other trees do not pay for them.
EXTRAS = False
# Whether leaves may be worth the middle of bounds, and nodes may know bounds.
BOUNDED, PRUNES = True, True


def sign_of(setting: Setting, data: Any, state: Any) -> float:
    """+1 where the max player moves, -1 where the min player does, 0 otherwise.

    0 means that the problem names neither player.
    """
    if not setting.game:
        return 1.0
    player = PLAYER(data, state)
    return 1.0 if player == 1 else -1.0 if player == 2 else 0.0


def add_node(
    setting: Setting, data: Any, ints: Ints, floats: Floats, states: Any, meta: Ints,
    acts: Ints, parent: int, action: int, state: Any,
) -> int:  # fmt: skip
    """The number of a new node, for a state that is not terminal.

    It is -FEW_ACTIONS where too few actions are legal, and -BAD_PLAYER where
    the problem names no player to move.
    """
    i = meta[COUNT]
    K = setting.num_actions
    STORE(states, i, state)
    for column in range(floats.shape[1]):
        floats[i, column] = 0.0
    floats[i, SIGN] = sign_of(setting, data, state)
    if floats[i, SIGN] == 0.0:
        return -BAD_PLAYER
    ints[i, VISITS], ints[i, PARENT], ints[i, ACTION] = 0, parent, action
    initial_visits = -1 if setting.varies else 0
    for a in range(K):
        ints[i, EDGE + a] = initial_visits
        ints[i, EDGE + K + a] = -1
    if setting.varies:
        num_legal = LEGAL_ACTIONS(data, state, acts, K)
        if num_legal < setting.fewest:
            return -FEW_ACTIONS
        for j in range(num_legal):
            ints[i, EDGE + acts[j]] = 0
    meta[COUNT] = i + 1
    return i  # type: ignore[no-any-return]


def compact(nodes: Nodes, states: Any, meta: Ints, root: int) -> Ints:
    """The new number of each node, with ``root`` as 0 and -1 for those not below it.

    A child's number is above its parent's, so one pass upwards is enough.
    """
    ints, floats = nodes.ints, nodes.floats
    new_number = np.full(meta[COUNT], -1, np.int64)
    node_depth = np.zeros(
        meta[COUNT], np.int64
    )  # of the kept nodes, by their old numbers
    new_number[root] = 0
    num_kept = 1
    meta[DEEPEST] = 0
    for i in range(root + 1, meta[COUNT]):
        if new_number[ints[i, PARENT]] >= 0:
            new_number[i] = num_kept
            num_kept += 1
            node_depth[i] = node_depth[ints[i, PARENT]] + 1
            if node_depth[i] > meta[DEEPEST]:
                meta[DEEPEST] = node_depth[i]
    for i in range(root, meta[COUNT]):
        j = new_number[i]
        if j >= 0:
            parent = new_number[ints[i, PARENT]] if j > 0 else -1
            ints[j] = ints[i]
            floats[j] = floats[i]
            if len(nodes.boxes) > 1:
                nodes.boxes[j] = nodes.boxes[i]
            ints[j, PARENT] = parent
            for column in range(EDGE + (ints.shape[1] - EDGE) // 2, ints.shape[1]):
                if ints[j, column] >= 0:
                    ints[j, column] = new_number[ints[j, column]]
            STORE(states, j, LOAD(states, i))
    if len(nodes.outcomes) > 0:
        renumber(nodes.outcomes, nodes.paid, new_number, root, num_kept)
    meta[COUNT] = num_kept
    REHASH(ints, nodes.table, states, num_kept)
    return new_number


def count_open_actions(setting: Setting, ints: Ints, node: int, begun: int) -> int:
    """The number of open actions; ``begun`` decisions are not counted yet."""
    K = setting.num_actions
    if setting.action_widening <= 0.0:
        return K
    num_decisions = begun
    for a in range(K):
        if ints[node, EDGE + a] > 0:
            num_decisions += ints[node, EDGE + a]
    return open_count(setting, K, num_decisions)


def gather(
    rule: TreeRule,
    ints: Ints,
    floats: Floats,
    node: int,
    K: int,
    head: Floats,
    acts: Ints,
    n: Ints,
    x: Floats,
    h: Floats,
    max_actions: int,
) -> int:
    """The number of a node's first ``max_actions`` legal actions, written to ``acts``.

    Their visits go to ``n``, their signed values to ``x``, and the signed
    entropies below them to ``h``.
    """
    sign = floats[node, SIGN]
    num_legal = 0
    num_untried = 0
    for a in range(K):
        edge_visits = ints[node, EDGE + a]
        if edge_visits >= 0 and (not EXTRAS or num_legal < max_actions):
            acts[num_legal] = a
            n[num_legal] = edge_visits
            if edge_visits > 0:
                x[num_legal] = sign * (floats[node, TOTAL + a] / edge_visits)
                h[num_legal] = (
                    sign * (floats[node, TOTAL + K + a] / edge_visits)
                    if rule.entropy > 0.0
                    else 0.0
                )
            else:
                num_untried += 1
                x[num_legal] = sign * rule.initial
                if EXTRAS and rule.warm:
                    x[num_legal] = sign * floats[node, TOTAL + 3 * K + a]
                h[num_legal] = 0.0
            num_legal += 1
    if num_untried > 0 and math.isnan(rule.initial):
        untried_value = sign * floats[node, FIRST] - head[num_legal]
        for j in range(num_legal):
            if n[j] == 0:
                x[j] = untried_value
    return num_legal


def note_fault(
    setting: Setting, scratch: Any, state: Any, action: int, reward: float, meta: Ints,
    fault: Floats,
) -> int:  # fmt: skip
    """Note the state, action and reward of a bad answer, and return its status."""
    STORE(scratch, 1, state)
    meta[FAULT] = action
    fault[0] = reward
    inside_range = setting.low <= reward <= setting.high
    return UNDECLARED_END if inside_range else BAD_REWARD


def blind_rollout(
    setting: Setting, head: Floats, data: Any, state: Any, scratch: Any, depth: int,
    total: float, weight: float, held: Ints, carry: Floats, meta: Ints, fault: Floats,
    most_calls: int, acts: Ints, rng: Any,
) -> tuple[float, int]:  # fmt: skip
    """(return of the uniform policy, how it ended), from a state that is not terminal.

    The regularizer adds F(0) per step. ``total`` and ``weight`` are 0 and 1, or
    those of a rollout that is resumed after it ran out of calls.
    """
    K = setting.num_actions
    state = KEEP(scratch, 0, state)
    while depth < setting.limit:
        if meta[CALLS] >= most_calls:
            held[HELD], held[ROLLED] = IN_ROLLOUT, depth
            carry[0], carry[1] = total, weight
            STORE(scratch, 2, state)
            return total, CUT
        num_legal = K
        if setting.varies:
            num_legal = LEGAL_ACTIONS(data, state, acts, K)
            if num_legal < setting.fewest:
                STORE(scratch, 1, state)
                return total, FEW_ACTIONS
        action = rng.integers(num_legal)
        if setting.varies:
            action = acts[action]
        sign = sign_of(setting, data, state)
        if sign == 0.0:
            STORE(scratch, 1, state)
            return total, BAD_PLAYER
        meta[CALLS] += 1
        reward, next_state, is_over = STEP(data, state, action, rng)
        if not (setting.low <= reward <= setting.high) or (
            is_over and not setting.ends
        ):
            return total, note_fault(
                setting, scratch, state, action, reward, meta, fault
            )
        total += weight * (sign * head[num_legal] + reward)
        if setting.ends and (is_over or TERMINAL(data, next_state)):
            return total, DONE
        weight *= setting.discount
        state = KEEP(scratch, 0, next_state)
        depth += 1
    return total + weight * setting.tail, DONE


ROLLOUT = blind_rollout


def grow(
    rule: TreeRule, setting: Setting, head: Floats, weights: Floats, data: Any,
    nodes: Nodes, workspace: Workspace, states: Any, scratch: Any, meta: Ints,
    fault: Floats, most_simulations: int, most_calls: int, rng: Any,
) -> int:  # fmt: skip
    """Run simulations from node 0, and return how the call ended.

    It ends when ``meta`` counts ``most_simulations`` or ``most_calls``, or when
    something is wrong. A simulation that runs out of calls waits in the
    workspace and is resumed next time: dropping it would drop the long ones.
    """
    # Helpers that are not inlined count references to their arguments,
    # atomically. That took a quarter of the time before these lines.
    ints, floats, table = (
        borrow_array(nodes.ints),
        borrow_array(nodes.floats),
        borrow_array(nodes.table),
    )
    outcomes, paid = borrow_array(nodes.outcomes), borrow_array(nodes.paid)
    remembers = EXTRAS and limits_chance(setting)
    solves = EXTRAS and setting.solves
    path, rewards, policies = (
        borrow_array(workspace.path),
        borrow_array(workspace.rewards),
        borrow_array(workspace.policies),
    )
    acts, n, x, h = (
        borrow_array(workspace.acts),
        borrow_array(workspace.n),
        borrow_array(workspace.x),
        borrow_array(workspace.h),
    )
    y, p, w, held_slots, carry = (
        borrow_array(workspace.y),
        borrow_array(workspace.p),
        borrow_array(workspace.w),
        borrow_array(workspace.held),
        borrow_array(workspace.carry),
    )
    head, weights, meta, fault = (
        borrow_array(head),
        borrow_array(weights),
        borrow_array(meta),
        borrow_array(fault),
    )
    states, scratch = borrow_array(states), borrow_array(scratch)
    boxes, spans = borrow_array(nodes.boxes), borrow_array(workspace.spans)
    K = setting.num_actions
    if solves:
        root_low, root_high = box_of(ints, EDGE, boxes, 0, floats[0, SIGN], K)
        if root_low == root_high:
            return PROVEN
    capacity = len(ints)
    nodes_needed = min(setting.expansion, setting.limit)
    while meta[SIMULATIONS] < most_simulations:
        if meta[COUNT] + nodes_needed > capacity and capacity < setting.most_nodes:
            return NO_ROOM
        node, depth, nodes_added, leaf_estimate, play_ended = 0, 0, 0, 0.0, False
        stopped_in, held_slots[HELD] = held_slots[HELD], NOTHING_HELD
        if stopped_in != NOTHING_HELD:
            node, depth, nodes_added = (
                held_slots[AT_NODE],
                held_slots[STEPS],
                held_slots[ADDED],
            )
        if stopped_in == IN_ROLLOUT:
            leaf_estimate, status = ROLLOUT(
                setting, head, data, LOAD(scratch, 2), scratch, held_slots[ROLLED],
                carry[0], carry[1], held_slots, carry, meta, fault, most_calls, acts, rng,
            )  # fmt: skip
            if status != DONE:
                return status
            first_estimate(ints, floats, path[depth - 1, 2], leaf_estimate)
        while stopped_in != IN_ROLLOUT:
            if meta[CALLS] >= most_calls:
                (
                    held_slots[HELD],
                    held_slots[AT_NODE],
                    held_slots[STEPS],
                    held_slots[ADDED],
                ) = (IN_TREE, node, depth, nodes_added)
                return CUT
            if rule.descent == UPPER and not EXTRAS:
                action = upper_action(
                    rule, ints, EDGE, floats, TOTAL, node, K, floats[node, SIGN],
                    ints[node, VISITS], rng,
                )  # fmt: skip
            else:
                max_open = count_open_actions(setting, ints, node, 1) if EXTRAS else K
                num_open = gather(
                    rule, ints, floats, node, K, head, acts, n, x, h, max_open
                )
                if solves:
                    sign = floats[node, SIGN]
                    num_open = keep_undecided(
                        boxes, node, sign, K, acts, n, x, h, num_open
                    )
                if PRUNES and setting.bounds:
                    clip(boxes, node, floats[node, SIGN], K, acts, x, num_open)
                if rule.descent == UPPER:
                    j = upper_pick(rule, x, n, num_open, ints[node, VISITS], rng)
                elif rule.descent == OWN_PICK:
                    j = own_pick(rule, x, n, num_open, ints[node, VISITS], rng)
                else:
                    if rule.prior != NO_PRIOR:
                        set_prior(rule, weights, policies, depth, acts, n, num_open, w)
                    node_policy(rule, x, w, h, num_open, K, ints[node, VISITS], y, p)
                    j = sample_slot(p, num_open, rng)
                    if rule.prior == PARENT_PRIOR:
                        note_policy(policies, depth, acts, p, num_open)
                action = acts[j]
            if (
                remembers
                and depth + 1 < setting.limit
                and not must_sample(
                    setting, outcomes, node, action, ints[node, EDGE + action]
                )
            ):
                child, reward = stored_outcome(outcomes, paid, node, action, rng)
                path[depth, 0], path[depth, 1], path[depth, 2], rewards[depth] = (
                    node,
                    action,
                    child,
                    reward,
                )
                depth += 1
                leaf_estimate = 0.0
                if child < 0:
                    break
                node = child
                continue
            state = LOAD(states, node)
            meta[CALLS] += 1
            reward, next_state, is_over = STEP(data, state, action, rng)
            if not (setting.low <= reward <= setting.high) or (
                is_over and not setting.ends
            ):
                return note_fault(setting, scratch, state, action, reward, meta, fault)
            path[depth, 0], path[depth, 1], path[depth, 2], rewards[depth] = (
                node,
                action,
                -1,
                reward,
            )
            depth += 1
            leaf_estimate = 0.0
            is_over = setting.ends and (is_over or TERMINAL(data, next_state))
            if solves:
                known_child = ints[node, EDGE + K + action]
                # an end decides an action: one that is still open did not end before
                is_open = boxes[node, action] < boxes[node, K + action]
                if (
                    ints[node, EDGE + action] > 0
                    and (
                        boxes[node, 2 * K + action] != reward or (is_over and is_open)
                    )
                ) or (
                    known_child >= 0
                    and (
                        is_over
                        or known_child
                        != FIND(data, ints, table, states, node, action, next_state)
                    )
                ):
                    STORE(scratch, 1, state)
                    meta[FAULT] = action
                    return TWO_OUTCOMES
                boxes[node, 2 * K + action] = reward
                play_ended = is_over or (depth == setting.limit and setting.closes)
            if is_over:
                if remembers and depth < setting.limit:
                    note_end(outcomes, paid, node, action, reward)
                break
            if depth == setting.limit:
                leaf_estimate = setting.tail
                if BOUNDED and setting.beyond:
                    leaf_estimate, bounds_hold = LEAF_VALUE(data, setting, next_state)
                    if not bounds_hold:
                        STORE(scratch, 1, next_state)
                        return BAD_BOUNDS
                break
            child = FIND(data, ints, table, states, node, action, next_state)
            if child >= 0:
                ints[node, EDGE + K + action] = child
                path[depth - 1, 2] = child
                if remembers:
                    note_child(outcomes, paid, node, action, child, reward)
                node = child
                continue
            if nodes_added < setting.expansion and meta[COUNT] < capacity:
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
                if solves:
                    num_moves = min(setting.elapsed + depth, len(spans) - 1)
                    open_boxes(
                        boxes, child, K, spans[num_moves, 0], spans[num_moves, 1]
                    )
                ints[node, EDGE + K + action] = child
                path[depth - 1, 2] = child
                if remembers:
                    note_child(outcomes, paid, node, action, child, reward)
                nodes_added += 1
                if depth > meta[DEEPEST]:
                    meta[DEEPEST] = depth
                if nodes_added < setting.expansion and meta[COUNT] < capacity:
                    node = child
                    continue
            if BOUNDED and setting.bounded:
                leaf_estimate, bounds_hold = LEAF_VALUE(data, setting, next_state)
                if not bounds_hold:
                    STORE(scratch, 1, next_state)
                    return BAD_BOUNDS
            else:
                leaf_estimate, status = ROLLOUT(
                    setting, head, data, next_state, scratch, depth, 0.0, 1.0,
                    held_slots, carry, meta, fault, most_calls, acts, rng,
                )  # fmt: skip
                if status != DONE:
                    held_slots[STEPS] = depth
                    return status
            first_estimate(ints, floats, path[depth - 1, 2], leaf_estimate)
            break
        if solves and play_ended:
            status = prove(
                ints, EDGE, floats, SIGN, boxes, path, rewards, depth, setting.discount,
                setting.slack, K,
            )  # fmt: skip
            if status == BROKEN:
                STORE(scratch, 1, LOAD(states, 0))
                return BROKEN_CLAIM
            if status == ROUNDED:
                meta[INEXACT] = 1
        backup(
            rule,
            setting,
            head,
            weights,
            ints,
            floats,
            boxes,
            path,
            rewards,
            policies,
            depth,
            leaf_estimate,
            acts,
            n,
            x,
            h,
            y,
            p,
            w,
        )
        meta[SIMULATIONS] += 1
        if solves and play_ended:
            root_low, root_high = box_of(ints, EDGE, boxes, 0, floats[0, SIGN], K)
            if root_low == root_high:
                return PROVEN
    return DONE


def first_estimate(ints: Ints, floats: Floats, child: int, leaf: float) -> None:
    """Set a new node's one arrival and its value.

    Nothing is set for a state without a node (-1).
    """
    if child >= 0:
        ints[child, VISITS] = 1
        floats[child, VALUE] = leaf
        floats[child, FIRST] = leaf


def backup(
    rule: TreeRule, setting: Setting, head: Floats, weights: Floats, ints: Ints,
    floats: Floats, boxes: Floats, path: Ints, rewards: Floats, policies: Floats,
    depth: int, leaf: float, acts: Ints, n: Ints, x: Floats, h: Floats, y: Floats,
    p: Floats, w: Floats,
) -> None:  # fmt: skip
    """Pass the end of a path of ``depth`` steps, worth ``leaf``, up to the root."""
    K, discount = setting.num_actions, setting.discount
    path_return = leaf  # the return from this step on
    child_below = -1  # the child with new numbers; the next line has its old ones
    old_visits, old_value, old_entropy = 0, 0.0, 0.0
    for i in range(depth - 1, -1, -1):
        node, action, reward = path[i, 0], path[i, 1], rewards[i]
        path_return = reward + discount * path_return
        if EXTRAS and setting.solves:
            path_return = clip_to_box(boxes, node, action, K, path_return)
        if rule.up == MEAN:
            floats[node, TOTAL + action] += path_return
        # The path ends in a new leaf with its one arrival, or in a state
        # without a node.
        elif child_below < 0:
            floats[node, TOTAL + action] += reward + discount * leaf
        else:
            value_change = (
                ints[child_below, VISITS] * floats[child_below, VALUE]
                - old_visits * old_value
            )
            floats[node, TOTAL + action] += reward + discount * value_change
        if rule.entropy > 0.0 and child_below >= 0:
            value_change = (
                ints[child_below, VISITS] * floats[child_below, ENTROPY]
                - old_visits * old_entropy
            )
            floats[node, TOTAL + K + action] += discount * value_change
        ints[node, EDGE + action] += 1
        old_visits, old_value, old_entropy = (
            ints[node, VISITS],
            floats[node, VALUE],
            floats[node, ENTROPY],
        )
        ints[node, VISITS] = old_visits + 1
        sign = floats[node, SIGN]
        child_below = node
        if old_visits == 0 and rule.up == MEAN:
            floats[node, FIRST] = path_return
        if rule.up == MEAN:
            floats[node, VALUE] += (path_return - floats[node, VALUE]) / (
                old_visits + 1
            )
            if rule.entropy <= 0.0:
                continue
        max_open = count_open_actions(setting, ints, node, 0) if EXTRAS else K
        num_open = gather(rule, ints, floats, node, K, head, acts, n, x, h, max_open)
        # The node's path below is new as well, so the return is a blind
        # rollout's.
        if old_visits == 0 and rule.up != MEAN:
            path_return += sign * head[num_open]
            floats[node, FIRST] = path_return
            num_open = gather(
                rule, ints, floats, node, K, head, acts, n, x, h, max_open
            )
        if EXTRAS and (setting.solves or setting.bounds):
            clip(boxes, node, sign, K, acts, x, num_open)
        if rule.prior != NO_PRIOR:
            set_prior(rule, weights, policies, i, acts, n, num_open, w)
        if rule.up != MEAN:
            floats[node, VALUE] = sign * node_value(rule, x, n, w, num_open, K)
        if rule.entropy > 0.0:
            node_policy(rule, x, w, h, num_open, K, old_visits + 1, y, p)
            floats[node, ENTROPY] = sign * entropy_below(p, h, num_open)


def node_policy(
    rule: TreeRule,
    x: Floats,
    w: Floats,
    h: Floats,
    size: int,
    K: int,
    visits: int,
    y: Floats,
    p: Floats,
) -> None:
    """Write ``descent_policy`` over the first ``size`` entries to ``p``.

    A slice is a counted reference, so only states with fewer actions pay for
    one.
    """
    if size < K:
        x, w, h, y, p = x[:size], w[:size], h[:size], y[:size], p[:size]
    descent_policy(rule, x, w, h, visits, y, p)


def node_value(
    rule: TreeRule, x: Floats, n: Ints, w: Floats, size: int, K: int
) -> float:
    """The value ``passed_up`` over the first ``size`` entries."""
    if size < K:
        x, n, w = x[:size], n[:size], w[:size]
    return passed_up(rule, x, n, w)


def set_prior(
    rule: TreeRule,
    weights: Floats,
    policies: Floats,
    depth: int,
    acts: Ints,
    n: Ints,
    size: int,
    w: Floats,
) -> None:
    """Write the prior weights of the legal actions to ``w``.

    They are the parent's descent policy or the shares of visits, and the
    problem's prior where there is neither.
    """
    if rule.prior == PARENT_PRIOR and depth > 0:
        for j in range(size):
            w[j] = policies[depth - 1, acts[j]]
    elif rule.prior == PARENT_PRIOR or visit_shares(n, size, w) == 0:
        for j in range(size):
            w[j] = weights[acts[j]]


def note_policy(
    policies: Floats, depth: int, acts: Ints, p: Floats, size: int
) -> None:
    """Keep the policy of this depth.

    An action that is not legal here counts as an average one.
    """
    for a in range(policies.shape[1]):
        policies[depth, a] = 1.0 / size
    for j in range(size):
        policies[depth, acts[j]] = p[j]
