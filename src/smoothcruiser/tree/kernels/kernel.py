"""The inner machine of compiled tree search: simulations over flat arrays.

It runs any method on any compiled problem. The file is plain Python that
``jit.build.compiled`` turns into machine code. STEP ... SAME are the problem's
parts: here the tabular ones, replaced by a user's functions when theirs are
compiled. A node is a decision of one player. The children of (node, action) are
the next states that chance has shown, found by a hash of (node, action, next
state). Alg. 5 of the paper is the loop in ``grow``. A path is backed up from
its end:

  Bellman backups, weights N(z)/N(s,a):
    total(s,a) += r + gamma (N(z) V(z), new minus old),   Q(s,a) = total(s,a) / N(s,a)
  mean returns (UCT, AR-BTS, AR-DENTS):
    total(s,a) += the return from (s,a)

A next state without a node (terminal, at the depth limit, beyond the memory)
adds r + gamma times its estimate, once and for all. The value of an untried action
follows from the first estimate u of its state: x = sign * u - F(0), so that F over
untried actions is that estimate. Edge visits are -1 where an action is illegal.
The same steps in plain Python, for any state: ``tree.plain.plain_tree``.

The arguments that every tree begins with, compiled or plain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.engines.compiled.kernel import (
    allocate,
    keep,
    load,
    middle_of,
    store,
    transition,
)
from smoothcruiser.jit.memory import (
    tabular_legal,
    tabular_player,
    tabular_terminal,
    uncounted,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.kernels.rules_kernel import (
    BROKEN,
    ROUNDED,
    bound_node,
    box_of,
    clip,
    clip_to_box,
    keep_undecided,
    open_boxes,
    prove,
    upper_action,
)
from smoothcruiser.tree.pruning import KnownBounds
from smoothcruiser.tree.search_rules import (
    MEAN,
    NO_PRIOR,
    PARENT_PRIOR,
    UPPER,
    TreeRule,
)
from smoothcruiser.tree.selection import (
    descent_policy,
    entropy_below,
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


class Setting(NamedTuple):
    """The problem and the limits in numbers."""

    num_actions: int
    fewest: int  # the least number of legal actions in any state
    discount: float
    low: float  # reward range
    high: float
    varies: bool  # whether legal actions vary
    ends: bool  # whether there are terminal states
    game: bool
    limit: int  # most steps from the root
    tail: float  # the estimate beyond the limit; 0 at a horizon
    expansion: int  # nodes added per simulation
    most_nodes: int
    # whether a leaf is worth the middle of bounds on V at its state
    bounded: bool = False
    beyond: bool = False  # the same at the limit, where steps may be left
    # of those bounds, as in ``engines.compiled.kernel.ScheduleTable``
    gap: float = 0.0
    value_low: float = 0.0
    value_high: float = 0.0
    slack: float = 0.0
    # when a move takes a stored next state (``tree.widening``)
    samples: int = 0
    widening: float = 0.0
    growth: float = 0.0
    # whether there are boxes (``rules_kernel``); whether a play ends at the limit; and
    # how many moves were made before the root
    solves: bool = False
    closes: bool = False
    elapsed: int = 0
    # whether boxes are bounds that are known (``rules_kernel``)
    bounds: bool = False
    # how many actions are open
    action_widening: float = 0.0
    action_growth: float = 0.0


def state_hash(state: int) -> Any:
    """The hash of a whole number, which is the number itself."""
    return state


def same(a: Any, b: Any) -> Any:
    """Whether two states are the same."""
    return a == b


STEP, LEGAL, TERMINAL, PLAYER = (
    transition,
    tabular_legal,
    tabular_terminal,
    tabular_player,
)
ALLOCATE, LOAD, STORE, KEEP = allocate, load, store, keep
HASH, SAME = state_hash, same
BOUNDED = False
# Whether a tree may have rare features: stored outcomes, boxes, actions that open one
# by one, first values of actions. A constant, so that other trees do not pay for them.
EXTRAS = False
# Whether nodes may know bounds: where states are numbers.
PRUNES = False


def with_extras(parts: dict[str, Any]) -> dict[str, Any]:
    """The parts of a machine with EXTRAS.

    It is cached on disk where it has no other parts, or a salt that tells them apart.
    """
    salt = parts.get("salt", None if parts else "")
    salted = {} if salt is None else {"salt": f"{salt}_extras"}
    return {**parts, "EXTRAS": True, "PRUNES": "STEP" not in parts, **salted}


def slot_of(node: int, action: int, state: Any, size: int) -> int:
    """The slot where the search for a child begins.

    This is Fibonacci hashing of the pair and the state's hash (Knuth, TAOCP
    6.4).
    """
    mixed_bits = np.uint64(HASH(state)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        node * 31 + action
    )
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(29))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed_bits = mixed_bits ^ (mixed_bits >> np.uint64(32))
    return np.int64(mixed_bits & np.uint64(size - 1))  # type: ignore[return-value]


def find_child(
    ints: Ints, table: Ints, states: Any, node: int, action: int, next_state: Any
) -> int:
    """The child's number, or -1 minus the free slot where it would go."""
    table_slot = slot_of(node, action, next_state, len(table))
    while table[table_slot] >= 0:
        child = table[table_slot]
        if (
            ints[child, PARENT] == node
            and ints[child, ACTION] == action
            and SAME(LOAD(states, child), next_state)
        ):
            return child  # type: ignore[no-any-return]
        table_slot = (table_slot + 1) & (len(table) - 1)
    return -1 - table_slot


def rehash(ints: Ints, table: Ints, states: Any, count: int) -> None:
    """Empty the hash table and fill it again; the root (node 0) needs no entry."""
    table[:] = -1
    for i in range(1, count):
        table[
            -1
            - find_child(
                ints, table, states, ints[i, PARENT], ints[i, ACTION], LOAD(states, i)
            )
        ] = i


def move_states(old_states: Any, capacity: int, count: int) -> Any:
    """Memory for ``capacity`` states that begins with the first ``count`` old ones."""
    new_states = ALLOCATE(capacity)
    for i in range(count):
        STORE(new_states, i, LOAD(old_states, i))
    return new_states


def sign_of(setting: Setting, data: Any, state: Any) -> float:
    """+1 where the max player moves, -1 where the min player does, 0 otherwise.

    0 means that the problem names neither player.
    """
    if not setting.game:
        return 1.0
    player = PLAYER(data, state)
    return 1.0 if player == 1 else -1.0 if player == 2 else 0.0


def add_node(
    setting: Setting,
    data: Any,
    ints: Ints,
    floats: Floats,
    states: Any,
    meta: Ints,
    parent: int,
    action: int,
    state: Any,
) -> int:
    """The number of a new node, for a state that is not terminal.

    It is -FEW_ACTIONS where too few actions are legal, and -BAD_PLAYER where
    the problem names no player to move.
    """
    i = meta[COUNT]
    STORE(states, i, state)
    for column in range(floats.shape[1]):
        floats[i, column] = 0.0
    floats[i, SIGN] = sign_of(setting, data, state)
    if floats[i, SIGN] == 0.0:
        return -BAD_PLAYER
    ints[i, VISITS], ints[i, PARENT], ints[i, ACTION] = 0, parent, action
    num_legal = 0
    for a in range(setting.num_actions):
        is_legal = not setting.varies or LEGAL(data, state, a)
        ints[i, EDGE + a] = 0 if is_legal else -1
        ints[i, EDGE + setting.num_actions + a] = -1
        if is_legal:
            num_legal += 1
    if num_legal < setting.fewest:
        return -FEW_ACTIONS
    meta[COUNT] = i + 1
    return i  # type: ignore[no-any-return]


def compact(nodes: Nodes, states: Any, meta: Ints, root: int) -> None:
    """Make ``root`` node 0 and drop the nodes that are not below it.

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
    rehash(ints, nodes.table, states, num_kept)


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
            num_legal = 0
            # Written before it is known to be legal: a branch here is mispredicted
            # again and again, since boards differ.
            for a in range(K):
                acts[num_legal] = a
                if LEGAL(data, state, a):
                    num_legal += 1
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


def leaf_value(setting: Setting, data: Any, state: Any) -> tuple[float, bool]:
    """The middle of the bounds on V at a leaf, and whether they keep their claim."""
    return middle_of(
        data, state, setting.gap, setting.value_low, setting.value_high, setting.slack
    )


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
        uncounted(nodes.ints),
        uncounted(nodes.floats),
        uncounted(nodes.table),
    )
    outcomes, paid = uncounted(nodes.outcomes), uncounted(nodes.paid)
    remembers = EXTRAS and limits_chance(setting)
    solves = EXTRAS and setting.solves
    path, rewards, policies = (
        uncounted(workspace.path),
        uncounted(workspace.rewards),
        uncounted(workspace.policies),
    )
    acts, n, x, h = (
        uncounted(workspace.acts),
        uncounted(workspace.n),
        uncounted(workspace.x),
        uncounted(workspace.h),
    )
    y, p, w, held_slots, carry = (
        uncounted(workspace.y),
        uncounted(workspace.p),
        uncounted(workspace.w),
        uncounted(workspace.held),
        uncounted(workspace.carry),
    )
    head, weights, meta, fault = (
        uncounted(head),
        uncounted(weights),
        uncounted(meta),
        uncounted(fault),
    )
    states, scratch = uncounted(states), uncounted(scratch)
    boxes, spans = uncounted(nodes.boxes), uncounted(workspace.spans)
    known_states, known_bounds = uncounted(workspace.known), uncounted(workspace.ends)
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
            leaf_estimate, status = blind_rollout(
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
                    and (is_over or not SAME(LOAD(states, known_child), next_state))
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
                    leaf_estimate, bounds_hold = leaf_value(setting, data, next_state)
                    if not bounds_hold:
                        STORE(scratch, 1, next_state)
                        return BAD_BOUNDS
                break
            # The latest child is tried first: where moves are certain, it is
            # the only one.
            child = ints[node, EDGE + K + action]
            if child < 0 or not SAME(LOAD(states, child), next_state):
                child = find_child(ints, table, states, node, action, next_state)
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
                    setting, data, ints, floats, states, meta, node, action, next_state
                )
                if child < 0:
                    STORE(scratch, 1, next_state)
                    return -child
                table[free_slot] = child
                if PRUNES and setting.bounds:
                    num_moves = setting.elapsed + depth
                    bound_node(
                        known_states,
                        known_bounds,
                        num_moves,
                        next_state,
                        ints,
                        EDGE,
                        boxes,
                        child,
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
                leaf_estimate, bounds_hold = leaf_value(setting, data, next_state)
                if not bounds_hold:
                    STORE(scratch, 1, next_state)
                    return BAD_BOUNDS
            else:
                leaf_estimate, status = blind_rollout(
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


@dataclass(frozen=True, eq=False)
class TreeStart:
    """The search in numbers, its root and its stream."""

    problem: Problem
    rule: TreeRule
    setting: Setting
    head: Any  # F(0) over k actions, k = 0..K
    weights: Any  # of the actions, where the problem's operator has a prior
    state: Any  # the root
    rng: Any
    bounds: KnownBounds  # which exclude actions
