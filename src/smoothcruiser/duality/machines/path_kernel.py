"""One path with a learned value W: layers forward, U backward, the policy's walk.

This file is plain Python over arrays, with parts that stand for the problem (STEP,
LEGAL, TERMINAL, PLAYER), its operator (VALUE, GRADIENT, OMEGA), its states (LOAD, STORE,
HASH, SAME) and W (CRITIC). It runs in three forms with the same bits:

  all in machine code       one call for many paths (``compiled_machine``)
  with answers of Python    the same, where W or a policy is Python's: W is asked for a
                            whole batch (``compiled_machine.MixedMachine``)
  all interpreted           any step, any state (``plain_machine``)

``expand_nodes``, ``fill_values`` and the functions of states (``hash_row``,
``is_one_node``, ``is_same``, ``mover_sign``) are a problem's server in machine code. All
others are its driver, which reads no state and calls no step: it is compiled once for
all problems (``calls_kernel``).

``gap_rules`` has the formulas. A node is a state of a layer; states of a layer that are
equal are one node. Every decision about a node at time t (its cut, its place in a full
layer) is made before the streams of step t are opened, and an action is never judged by
its own Qhat: this is what the proof needs.

Chunks: ``expand_nodes`` fills a batch of rows, one for each node, action and stream;
``fill_values`` writes W of their next states; ``absorb_nodes`` reads both. A batch of
one node stays in the processor's first cache; a W in Python gets large batches.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.duality.machines.gap_rules import (
    CLIP_HIGH,
    CLIP_LOW,
    CUT_NODES,
    DEEPEST,
    FIRST_ACTION,
    INNER_CALLS,
    LOOKAHEAD_CALLS,
    LOWER,
    NODES,
    NOISE_CALLS,
    POLICY_HIGH,
    POLICY_LOW,
    POLICY_UPPER,
    SCORE_HIGH,
    SCORE_LOW,
    STEPS,
    TIME_COLUMNS,
    UPPER,
    VALUE_HIGH,
    VALUE_LOW,
    W_HIGH,
    W_LOW,
    WALK_CALLS,
    WALK_SCORE_HIGH,
    WALK_SCORE_LOW,
    GapRule,
    Role,
)
from smoothcruiser.engines.compiled.kernel import load, store, transition
from smoothcruiser.evaluation.kernel import sign_of, table_row
from smoothcruiser.evaluation.path_rules import path_length
from smoothcruiser.jit.primitives import (
    address_of_word,
    flag_at,
    floats_at,
    start_stream,
    tabular_legal,
    tabular_player,
    tabular_terminal,
)
from smoothcruiser.operators.dispatch import (
    builtin_gradient,
    builtin_omega,
    builtin_value,
)
from smoothcruiser.tree.kernels.kernel import (
    BAD_PLAYER,
    BAD_REWARD,
    CUT,
    DONE,
    FEW_ACTIONS,
    UNDECLARED_END,
    Floats,
    Ints,
)
from smoothcruiser.tree.kernels.parts_kernel import same, state_hash
from smoothcruiser.tree.search_numbers import Setting
from smoothcruiser.tree.selection import sample_slot

# further statuses, above those of the trees
GROW, BAD_VALUE, BAD_STATE, PYTHON_ERROR = 101, 102, 103, 104

# rows of a batch
ALIVE, OVER, ILLEGAL = 1, 0, -1
# children that are no nodes: none; beyond the layers or the cap; of a node that is cut
NONE, BEYOND, CUT_HERE = -1, -2, -3
# what follows a step
NOTHING, A_BOUND, A_LAYER = 0, 1, 2

# numbers that outlive a call (``meta``)
COUNT, TIME, NODE, SERIAL, CALLS, LENGTH, ROW_NUMBER, UNDERWAY = range(8)
FAULT_NODE, FAULT_ACTION, FAULT_ROW, WORDS_TIME = 8, 9, 10, 11
NOISE_COUNT, INNER_COUNT, WALK_COUNT, LOOK_COUNT, CUT_COUNT = 12, 13, 14, 15, 16
NUM_TIMES, CAPACITY, NUM_SLOTS = 17, 18, 19  # lengths of arrays
META = 20
# extremes
E_SCORE_HIGH, E_SCORE_LOW, E_WALK_HIGH, E_WALK_LOW, E_W_LOW, E_W_HIGH = range(6)
E_NEW_LOW, E_NEW_HIGH = 6, 7  # of W, since ``note_values``
EXTREMES = 8
# results of a walk
WALK_LOW, WALK_HIGH, WALK_STEPS = 0, 1, 2
# how a policy is known
NO_POLICY, TABLE_POLICY, GREEDY_POLICY, PYTHON_POLICY = 0, 1, 2, 3

# Numba compiles a function once for each number that is written in a call. Of NumPy's
# it knows the type alone. Interpreted, they are Python's (``plain_numbers``).
whole_number: Any = np.int64
truth_value: Any = np.bool_
NOISE, INNER, LOTS, LOOKAHEAD, COIN = (whole_number(role) for role in Role)
ZERO, ONE = whole_number(0), whole_number(1)
EVERY = whole_number(-1)  # action
NO_WALK = whole_number(-2)  # in the place of a walk's first action
NEVER, ALWAYS = truth_value(False), truth_value(True)


def plain_numbers() -> dict[str, Any]:
    """The constants of calls as Python's numbers, by their names."""
    return {
        name: value.item()
        for name, value in globals().items()
        if isinstance(value, np.int64 | np.bool_)
    }


class PathGraph(NamedTuple):
    """The nodes of a path; action a of node i is at i K + a of the arrays by action."""

    states: Any
    children: Ints  # by action: nodes, or NONE, BEYOND, CUT_HERE
    edges: Floats  # by action: W of the next state under the noise
    q: Floats  # by action: Qhat; NaN where not legal
    shares: Floats  # by action: the policy, where it was needed
    scores: Floats  # the largest over the ways to a node
    offsets: Floats  # the largest score less D W of the state that came that way
    values: Floats  # U
    w: Floats  # W of the node
    signs: Floats  # of the mover, in games
    layers: Ints  # layer t is the nodes layers[t] .. layers[t + 1] - 1
    slots: Ints  # a hash table of the layer under way: nodes
    serials: Ints  # the layers that wrote these slots


class StepBatch(NamedTuple):
    """Results of steps, one row each."""

    rewards: Floats
    flags: Ints  # ALIVE, OVER, ILLEGAL
    values: Floats  # W
    states: Any


class PathNotes(NamedTuple):
    """Tables of words, numbers that outlive a call, and vectors with K elements."""

    words: Any  # five for each stream: the noise of a time and its inner samples
    look_words: Any  # the same of the lookahead
    spot: Any  # the same of one stream
    first: Any  # (2,) the words of the run
    meta: Ints
    extremes: Floats
    spans: Any  # two for each time: the lowest and highest W seen
    fault: Floats  # the reward of a fault
    weight: Floats  # (1,) D_t of the layer under way
    x: Floats
    y: Any
    p: Any
    weights: Floats  # of the operator, by action
    w: Any  # of the legal actions
    ids: Ints
    walk: Floats  # results of a walk


class StepSetting(NamedTuple):
    """The problem in numbers, as in ``tree.search_numbers.Setting``."""

    num_actions: int
    fewest: int
    low: float
    high: float
    varies: bool
    ends: bool
    game: bool


def step_setting(setting: Setting) -> StepSetting:
    """The numbers of a problem that paths need."""
    return StepSetting(*(getattr(setting, name) for name in StepSetting._fields))


class PathWorld(NamedTuple):
    """The constants of all paths of a machine."""

    code: int  # the operator
    t: float  # its strength
    policy: int  # how the policy is known
    chunk: int  # nodes of a batch at most
    steps_left: int  # at the root; -1 without a horizon
    by_key: bool  # a node may stand for several states of equal value
    asks_values: bool = False  # machine code asks Python for W
    size: int = 1  # words of a state in memory


def table_value(table: Any, steps_left: int, state: int) -> Any:
    """W of a state with a number; row ``steps_left``, or the last one."""
    return table[min(steps_left, len(table) - 1), state]


STEP, LEGAL, TERMINAL, PLAYER, ROW = (
    transition,
    tabular_legal,
    tabular_terminal,
    tabular_player,
    table_row,
)
VALUE, GRADIENT, OMEGA = builtin_value, builtin_gradient, builtin_omega
LOAD, STORE = load, store
HASH, SAME = state_hash, same  # of keys, where nodes are told apart by them
EQUAL = same
CRITIC = table_value

U27, U30, U31, U29, U32 = (np.uint64(k) for k in (27, 30, 31, 29, 32))
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1, MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


# --- words of streams -----------------------------------------------------------


def mix_word(bits: Any) -> Any:
    """``mirrored_streams.mix_bits`` in machine code."""
    bits = (bits ^ (bits >> U30)) * MIX1
    bits = (bits ^ (bits >> U27)) * MIX2
    return bits ^ (bits >> U31)


def write_position(
    words: Any, row: int, first: Any, role: int, path: int, time: int, index: int,
    mirrored: bool,
) -> None:  # fmt: skip
    """Write the words of a stream (``mirrored_streams.position_words``) and its mask."""
    for i in range(2):
        chain = first[i]
        chain = mix_word(chain + np.uint64(role + 1) * GOLDEN)
        chain = mix_word(chain + np.uint64(path + 1) * GOLDEN)
        chain = mix_word(chain + np.uint64(time + 1) * GOLDEN)
        chain = mix_word(chain + np.uint64(index + 1) * GOLDEN)
        words[5 * row + 2 * i] = mix_word(chain + GOLDEN)
        words[5 * row + 2 * i + 1] = mix_word(chain + GOLDEN + GOLDEN)
    words[5 * row + 4] = np.uint64(0) - np.uint64(mirrored)


def write_words(
    rule: GapRule, paper: PathNotes, path: int, time: int, looks: bool
) -> None:  # fmt: skip
    """Write the words of the noise and of the inner samples of a time.

    ``looks``: those of the lookahead instead.
    """
    first = paper.first
    if looks:
        for j in range(rule.num_lookahead):
            flips = rule.mirrored and j % 2 == 1
            index = j - 1 if flips else j
            write_position(
                paper.look_words, j, first, LOOKAHEAD, path, time, index, flips
            )
        return
    write_position(paper.words, ZERO, first, NOISE, path, time, ZERO, NEVER)
    for j in range(rule.num_inner):
        flips = rule.mirrored and j % 2 == 1
        index = j - 1 if flips else j
        write_position(paper.words, 1 + j, first, INNER, path, time, index, flips)
    paper.meta[WORDS_TIME] = time


# --- steps ------------------------------------------------------------------------


def expand_nodes(
    setting: StepSetting, data: Any, states: Any, first: int, last: int,
    one_action: int, words: Any, begin: int, end: int, batch: StepBatch, rng: Any,
    meta: Ints, fault: Floats, stop: Any,
) -> int:  # fmt: skip
    """The status after actions of nodes, each under the streams begin .. end - 1.

    They fill ``end - begin`` rows of the batch each: all legal actions, or
    ``one_action`` where that is not negative.
    """
    first_action = 0 if one_action < 0 else one_action
    end_action = setting.num_actions if one_action < 0 else one_action + 1
    rewards, flags, next_states = batch.rewards, batch.flags, batch.states
    row = 0
    for node in range(first, last):
        state = LOAD(states, node)
        num_legal = 0
        for a in range(first_action, end_action):
            if setting.varies and one_action < 0 and not LEGAL(data, state, a):
                for _ in range(begin, end):
                    flags[row] = ILLEGAL
                    row += 1
                continue
            num_legal += 1
            if flag_at(stop) != 0:
                return CUT
            for j in range(begin, end):
                start_stream(rng, words, j)
                reward, next_state, is_over = STEP(data, state, a, rng)
                if not (setting.low <= reward <= setting.high) or (
                    is_over and not setting.ends
                ):
                    meta[FAULT_NODE], meta[FAULT_ACTION] = node, a
                    fault[0] = reward
                    if setting.low <= reward <= setting.high:
                        return UNDECLARED_END
                    return BAD_REWARD
                rewards[row] = reward
                if setting.ends and (is_over or TERMINAL(data, next_state)):
                    flags[row] = OVER
                else:
                    flags[row] = ALIVE
                    STORE(next_states, row, next_state)
                row += 1
            meta[CALLS] += end - begin
        if one_action < 0 and num_legal < setting.fewest:
            meta[FAULT_NODE] = node
            return FEW_ACTIONS
    return DONE


def fill_values(
    world: PathWorld, data: Any, critic: Any, steps_left: int, batch: StepBatch, count: int
) -> int:  # fmt: skip
    """The status after W of the next states in the first rows is in ``values``."""
    flags, values, states = batch.flags, batch.values, batch.states
    for row in range(count):
        if flags[row] == ALIVE:
            values[row] = CRITIC(critic, steps_left, LOAD(states, row))
    return DONE


def move_state(target: Any, to: int, source: Any, row: int, size: int) -> None:
    """Copy a state of so many words."""
    STORE(target, to, LOAD(source, row))


def is_same(data: Any, states: Any, node: int, others: Any, row: int) -> bool:
    """Whether two states are the same."""
    return EQUAL(LOAD(states, node), LOAD(others, row))  # type: ignore[no-any-return]


def is_one_node(data: Any, states: Any, node: int, others: Any, row: int) -> bool:
    """Whether two states are one node: they are the same, or their keys are."""
    return SAME(LOAD(states, node), LOAD(others, row))  # type: ignore[no-any-return]


# --- layers -----------------------------------------------------------------------


def clip_value(times: Any, time: int, value: float) -> float:
    """W as the path uses it at a time."""
    low, high = (
        times[time * TIME_COLUMNS + CLIP_LOW],
        times[time * TIME_COLUMNS + CLIP_HIGH],
    )
    return low if value < low else high if value > high else value


def mean_of_rows(
    discount: float, low: float, high: float, batch: StepBatch, begin: int, end: int,
    is_worth: bool, extremes: Floats,
) -> float:  # fmt: skip
    """Qhat over some rows; NaN where W is not finite."""
    rewards, flags, values = batch.rewards, batch.flags, batch.values
    total, lowest, highest = 0.0, extremes[E_NEW_LOW], extremes[E_NEW_HIGH]
    for row in range(begin, end):
        x = rewards[row]
        if is_worth and flags[row] == ALIVE:
            value = values[row]
            if not (-math.inf < value < math.inf):
                return math.nan
            lowest = value if value < lowest else lowest
            highest = value if value > highest else highest
            value = low if value < low else high if value > high else value
            x += discount * value
        total += x
    extremes[E_NEW_LOW], extremes[E_NEW_HIGH] = lowest, highest
    return total / (end - begin)


def hash_row(data: Any, states: Any, row: int) -> Any:
    """The hash of a state in memory."""
    return HASH(LOAD(states, row))


def slot_of(data: Any, states: Any, row: int, size: int) -> int:
    """The slot where the search for a state begins (as in ``parts_kernel``)."""
    bits = np.uint64(hash_row(data, states, row)) * GOLDEN
    bits = (bits ^ (bits >> U29)) * MIX1
    bits = bits ^ (bits >> U32)
    return np.int64(bits & np.uint64(size - 1))  # type: ignore[return-value]


def find_node(
    data: Any, states: Any, slots: Ints, serials: Ints, serial: int, size: int,
    others: Any, row: int,
) -> int:  # fmt: skip
    """The node of a state in the layer under way, or -1 minus its free slot.

    Slots that an earlier layer wrote are free.
    """
    slot = slot_of(data, others, row, size)
    while serials[slot] == serial:
        node = slots[slot]
        if is_one_node(data, states, node, others, row):
            return node  # type: ignore[no-any-return]
        slot = (slot + 1) & (size - 1)
    return -1 - slot


def enter_node(slots: Ints, serials: Ints, serial: int, slot: int, node: int) -> None:
    """Write a new node to its free slot."""
    slots[slot] = node
    serials[slot] = serial


def absorb_nodes(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, times: Any,
    graph: PathGraph, batch: StepBatch, paper: PathNotes, first: int, last: int, time: int,
    follows: int, is_worth: bool, weight: float, num_slots: int,
) -> int:  # fmt: skip
    """The status after the rows of nodes became Qhat, edges, children and scores.

    ``follows``: what comes after this step; without anything no row is the noise's.
    """
    K, m = setting.num_actions, rule.num_inner
    next_time = min(time + 1, paper.meta[NUM_TIMES] - 1)
    low, high = (
        times[next_time * TIME_COLUMNS + CLIP_LOW],
        times[next_time * TIME_COLUMNS + CLIP_HIGH],
    )
    states, meta, extremes = graph.states, paper.meta, paper.extremes
    children, edges, q = graph.children, graph.edges, graph.q
    scores, offsets, w = graph.scores, graph.offsets, graph.w
    sign = 1.0 if rule.relaxed == 1 else -1.0
    num_noise = 0 if follows == NOTHING else 1
    serial, layer = meta[SERIAL], graph.layers[time + 1]
    next_weight = weight * rule.discount if time < rule.head else weight
    row = ZERO
    for node in range(first, last):
        for a in range(K):
            at = node * K + a
            children[at] = NONE
            edges[at] = 0.0
            noise_row = row
            row += num_noise + m
            if batch.flags[noise_row] == ILLEGAL:
                q[at] = math.nan
                continue
            mean = mean_of_rows(
                rule.discount, low, high, batch, noise_row + num_noise, row, is_worth,
                extremes,
            )  # fmt: skip
            q[at] = mean
            if not (-math.inf < mean < math.inf):
                meta[FAULT_NODE], meta[FAULT_ACTION] = node, a
                meta[FAULT_ROW] = noise_row
                return BAD_VALUE
            if num_noise == 0 or batch.flags[noise_row] != ALIVE:
                continue
            value = batch.values[noise_row]
            if not (-math.inf < value < math.inf):
                meta[FAULT_NODE], meta[FAULT_ACTION] = node, a
                meta[FAULT_ROW] = noise_row
                return BAD_VALUE
            if value < extremes[E_NEW_LOW]:
                extremes[E_NEW_LOW] = value
            if value > extremes[E_NEW_HIGH]:
                extremes[E_NEW_HIGH] = value
            value = low if value < low else high if value > high else value
            edges[at] = value
            if follows == A_BOUND:
                children[at] = BEYOND
                continue
            child = find_node(
                data, states, graph.slots, graph.serials, serial, num_slots,
                batch.states, noise_row,
            )  # fmt: skip
            if child < 0:
                node_number = meta[COUNT]
                if node_number - layer >= rule.most_nodes:
                    children[at] = BEYOND
                    meta[CUT_COUNT] += 1
                    continue
                if not is_one_node(
                    data, batch.states, noise_row, batch.states, noise_row
                ):
                    meta[FAULT_ROW] = noise_row
                    return BAD_STATE
                enter_node(graph.slots, graph.serials, serial, -1 - child, node_number)
                child = node_number
                move_state(states, child, batch.states, noise_row, world.size)
                scores[child], offsets[child] = -math.inf, -math.inf
                w[child] = value
                meta[COUNT] = child + 1
            children[at] = child
            score = offsets[node] + weight * sign * mean
            if score > scores[child]:
                scores[child] = score
            # W of the state that came, not of the one that stands for it
            offset = score - next_weight * sign * value
            if offset > offsets[child]:
                offsets[child] = offset
    return DONE


def average_nodes(
    setting: StepSetting, rule: GapRule, times: Any, batch: StepBatch, paper: PathNotes,
    first: int, last: int, time: int, count: int, is_worth: bool, out: Floats,
) -> int:  # fmt: skip
    """The status after the means of ``count`` rows per action are in ``out``."""
    K = setting.num_actions
    next_time = min(time + 1, paper.meta[NUM_TIMES] - 1)
    low, high = (
        times[next_time * TIME_COLUMNS + CLIP_LOW],
        times[next_time * TIME_COLUMNS + CLIP_HIGH],
    )
    row = ZERO
    for node in range(first, last):
        for a in range(K):
            out[node * K + a] = math.nan
            if batch.flags[row] != ILLEGAL:
                mean = mean_of_rows(
                    rule.discount, low, high, batch, row, row + count, is_worth,
                    paper.extremes,
                )  # fmt: skip
                out[node * K + a] = mean
                if not (-math.inf < mean < math.inf):
                    paper.meta[FAULT_NODE], paper.meta[FAULT_ACTION] = node, a
                    paper.meta[FAULT_ROW] = row
                    return BAD_VALUE
            row += count
    return DONE


def what_follows(rule: GapRule, time: int, length: int) -> int:
    """NOTHING, A_BOUND or A_LAYER after the step at a time."""
    if time + 1 < length:
        return A_LAYER
    return A_BOUND if rule.fixed and not rule.ends_at_horizon else NOTHING


def steps_after(world: PathWorld, time: int) -> int:
    """The steps that are left after the step at a time; -1 without a horizon."""
    return -1 if world.steps_left < 0 else world.steps_left - time - 1


def has_worth(rule: GapRule, time: int) -> bool:
    """Whether next states of the step at a time are worth W: not at the horizon."""
    return not (rule.fixed and rule.ends_at_horizon and time + 1 == rule.head)


def grow_layers(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any,
    policy: Any, times: Any, graph: PathGraph, batch: StepBatch, paper: PathNotes, path: int,
    most_calls: int, rng: Any, stop: Any,
) -> int:  # fmt: skip
    """The status after all layers of a path; GROW: call again with larger arrays."""
    K, meta, layers = setting.num_actions, paper.meta, graph.layers
    length = meta[LENGTH]
    capacity = meta[CAPACITY] - 1  # the last one is the walk's
    time = meta[TIME]
    while time < length and layers[time] < layers[time + 1]:
        first, last = layers[time], layers[time + 1]
        follows = what_follows(rule, time, length)
        begin = 1 if follows == NOTHING else 0
        rows = 1 + rule.num_inner - begin
        is_worth = has_worth(rule, time)
        weight = paper.weight[0]
        if meta[NODE] == first:
            write_words(rule, paper, path, time, NEVER)
            meta[SERIAL] += 1
        num_slots = 8
        while num_slots < 2 * K * (last - first):
            num_slots *= 2
        if num_slots > meta[NUM_SLOTS]:
            return GROW
        time_row = min(time, meta[NUM_TIMES] - 1)
        column = VALUE_HIGH if rule.relaxed == 1 else VALUE_LOW
        bound = times[time_row * TIME_COLUMNS + column]
        while meta[NODE] < last:
            node = meta[NODE]
            if time > 0 and graph.scores[node] >= rule.upper_cut:
                graph.values[node] = bound
                graph.children[node * K] = CUT_HERE
                meta[CUT_COUNT] += 1
                meta[NODE] = node + 1
                continue
            end = node + 1
            while (
                end < last
                and end - node < world.chunk
                and not (time > 0 and graph.scores[end] >= rule.upper_cut)
            ):
                end += 1
            if meta[COUNT] + (end - node) * K > capacity:
                return GROW
            if meta[CALLS] + (end - node) * K * rows > most_calls:
                return CUT
            calls_before = meta[CALLS]
            status = expand_nodes(
                setting, data, graph.states, node, end, EVERY, paper.words, begin,
                1 + rule.num_inner, batch, rng, meta, paper.fault, stop,
            )  # fmt: skip
            calls = meta[CALLS] - calls_before
            num_noise = 0 if begin == 1 else calls // rows
            meta[NOISE_COUNT] += num_noise
            meta[INNER_COUNT] += calls - num_noise
            if status != DONE:
                return status
            if is_worth:
                status = fill_values(
                    world, data, critic, steps_after(world, time), batch,
                    (end - node) * K * rows,
                )  # fmt: skip
                if status != DONE:
                    return status
            status = absorb_nodes(
                setting, rule, world, data, times, graph, batch, paper, node, end, time, follows,
                is_worth, weight, num_slots,
            )  # fmt: skip
            if status != DONE:
                return status
            if setting.game:
                status = assign_fixed(
                    setting, rule, world, data, critic, policy, times, graph, batch,
                    paper, path, node, end, time, is_worth, most_calls, rng, stop,
                )  # fmt: skip
                if status != DONE:
                    return status
            meta[NODE] = end
        for node in range(first, last):
            score = graph.scores[node]
            if score > paper.extremes[E_SCORE_HIGH]:
                paper.extremes[E_SCORE_HIGH] = score
            if score < paper.extremes[E_SCORE_LOW]:
                paper.extremes[E_SCORE_LOW] = score
        note_values(paper, min(time + 1, meta[NUM_TIMES] - 1))
        time += 1
        if time <= rule.head:
            paper.weight[0] = weight * rule.discount
        meta[TIME] = time
        layers[time + 1] = meta[COUNT]
    return DONE


def note_values(paper: PathNotes, row: int) -> None:
    """Count the values of W that were new among those of a time and of the path."""
    extremes, spans = paper.extremes, paper.spans
    low, high = extremes[E_NEW_LOW], extremes[E_NEW_HIGH]
    if low < extremes[E_W_LOW]:
        extremes[E_W_LOW] = low
    if high > extremes[E_W_HIGH]:
        extremes[E_W_HIGH] = high
    if low < spans[2 * row]:
        spans[2 * row] = low
    if high > spans[2 * row + 1]:
        spans[2 * row + 1] = high
    extremes[E_NEW_LOW], extremes[E_NEW_HIGH] = math.inf, -math.inf


def assign_fixed(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, policy: Any,
    times: Any, graph: PathGraph, batch: StepBatch, paper: PathNotes, path: int, first: int,
    last: int, time: int, is_worth: bool, most_calls: int, rng: Any, stop: Any,
) -> int:  # fmt: skip
    """The status after movers and the policies of the other player are written."""
    for node in range(first, last):
        sign = mover_sign(setting, data, graph.states, node)
        graph.signs[node] = sign
        if sign == 0.0:
            paper.meta[FAULT_NODE] = node
            return BAD_PLAYER
        if (sign > 0.0) != (rule.relaxed == 1):
            status = assign_policy(
                setting, rule, world, data, critic, policy, times, graph, batch, paper,
                path, node, time, sign, is_worth, most_calls, rng, stop,
            )  # fmt: skip
            if status != DONE:
                return status
    return DONE


def mover_sign(setting: StepSetting, data: Any, states: Any, node: int) -> float:
    """+1 where the max player moves, -1 where the min player does, 0 otherwise."""
    return sign_of(setting, data, LOAD(states, node))  # type: ignore[arg-type]


# --- policies -----------------------------------------------------------------------


def list_legal(
    setting: StepSetting, graph: PathGraph, paper: PathNotes, node: int
) -> int:
    """The number of legal actions of a node with Qhat: their numbers and weights."""
    K, num_legal = setting.num_actions, 0
    for a in range(K):
        if graph.q[node * K + a] == graph.q[node * K + a]:
            paper.ids[num_legal] = a
            paper.w[num_legal] = paper.weights[a]
            num_legal += 1
    return num_legal


def assign_policy(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, policy: Any,
    times: Any, graph: PathGraph, batch: StepBatch, paper: PathNotes, path: int, node: int,
    time: int, sign: float, is_worth: bool, most_calls: int, rng: Any, stop: Any,
) -> int:  # fmt: skip
    """The status after the policy at a node is in ``shares``."""
    if world.policy == TABLE_POLICY:
        read_table(setting, policy, graph.states, node, graph.shares)
        return DONE
    if world.policy == PYTHON_POLICY:
        return ask_policy(critic, graph, node)
    status = look_ahead(
        setting, rule, world, data, critic, times, graph, batch, paper, path, node,
        time, is_worth, most_calls, rng, stop,
    )  # fmt: skip
    if status == DONE:
        respond_greedily(setting, world, graph, paper, node, sign)
    return status


def first_floats(words: Any, size: int) -> Any:
    """The first of some floats, as a vector."""
    return floats_at(address_of_word(words, 0), (size,))


def read_table(
    setting: StepSetting, policy: Any, states: Any, node: int, shares: Floats
) -> None:
    """Write the row of a table policy at a node to ``shares``."""
    row, at = ROW(LOAD(states, node)), node * setting.num_actions
    for a in range(setting.num_actions):
        shares[at + a] = policy[row * setting.num_actions + a]


def respond_greedily(
    setting: StepSetting,
    world: PathWorld,
    graph: PathGraph,
    paper: PathNotes,
    node: int,
    sign: float,
) -> None:
    """Turn action values at a node in ``shares`` into grad F of them."""
    K, at, shares = setting.num_actions, node * setting.num_actions, graph.shares
    num_legal = list_legal(setting, graph, paper, node)
    for j in range(num_legal):
        paper.y[j] = sign * shares[at + paper.ids[j]]
    y, w = first_floats(paper.y, num_legal), first_floats(paper.w, num_legal)
    GRADIENT(world.code, y, w, world.t, first_floats(paper.p, K))
    for a in range(K):
        shares[at + a] = 0.0
    for j in range(num_legal):
        shares[at + paper.ids[j]] = paper.p[j]


def look_ahead(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, times: Any,
    graph: PathGraph, batch: StepBatch, paper: PathNotes, path: int, node: int, time: int,
    is_worth: bool, most_calls: int, rng: Any, stop: Any,
) -> int:  # fmt: skip
    """The status after the lookahead's means at a node are in ``shares``."""
    meta, m = paper.meta, rule.num_lookahead
    if meta[CALLS] + setting.num_actions * m > most_calls:
        return CUT
    write_words(rule, paper, path, time, ALWAYS)
    calls_before = meta[CALLS]
    status = expand_nodes(
        setting, data, graph.states, node, node + 1, EVERY, paper.look_words, ZERO, m, batch,
        rng, meta, paper.fault, stop,
    )  # fmt: skip
    meta[LOOK_COUNT] += meta[CALLS] - calls_before
    if status != DONE:
        return status
    if is_worth:
        status = fill_values(
            world,
            data,
            critic,
            steps_after(world, time),
            batch,
            setting.num_actions * m,
        )
        if status != DONE:
            return status
    return average_nodes(
        setting, rule, times, batch, paper, node, node + 1, time, m, is_worth,
        graph.shares,
    )  # fmt: skip


def weigh_policy(
    setting: StepSetting,
    world: PathWorld,
    graph: PathGraph,
    paper: PathNotes,
    node: int,
    sign: float,
) -> float:
    """The mean of Qhat under the policy at a node, with its regularizer."""
    at, num_legal = node * setting.num_actions, list_legal(setting, graph, paper, node)
    total = 0.0
    for j in range(num_legal):
        share = graph.shares[at + paper.ids[j]]
        paper.p[j] = share
        total += share * graph.q[at + paper.ids[j]]
    p, w = first_floats(paper.p, num_legal), first_floats(paper.w, num_legal)
    omega = OMEGA(world.code, p, w, world.t)
    return total - sign * omega


def choose_action(
    setting: StepSetting, graph: PathGraph, paper: PathNotes, path: int, node: int, time: int,
    rng: Any,
) -> int:  # fmt: skip
    """An action by the policy at a node."""
    at, num_legal = node * setting.num_actions, list_legal(setting, graph, paper, node)
    for j in range(num_legal):
        paper.p[j] = graph.shares[at + paper.ids[j]]
    write_position(paper.spot, ZERO, paper.first, LOTS, path, time, ZERO, NEVER)
    start_stream(rng, paper.spot, ZERO)
    return paper.ids[sample_slot(paper.p, num_legal, rng)]  # type: ignore[no-any-return]


# --- backward -----------------------------------------------------------------------


def fold_layers(
    setting: StepSetting, rule: GapRule, world: PathWorld, times: Any, graph: PathGraph,
    paper: PathNotes, num_layers: int, samples: Any, start: int,
) -> None:  # fmt: skip
    """Write U of all nodes, and the root's x_a into the row of samples at ``start``."""
    K = setting.num_actions
    children, edges, q = graph.children, graph.edges, graph.q
    values, x, y, p, w, ids = (
        graph.values,
        paper.x,
        paper.y,
        paper.p,
        paper.w,
        paper.ids,
    )
    column = VALUE_HIGH if rule.relaxed == 1 else VALUE_LOW
    last_row = paper.meta[NUM_TIMES] - 1
    for time in range(num_layers - 1, -1, -1):
        factor = rule.discount if time < rule.head else 1.0
        bound = times[min(time + 1, last_row) * TIME_COLUMNS + column]
        for node in range(graph.layers[time], graph.layers[time + 1]):
            at = node * K
            if children[at] == CUT_HERE:
                continue
            num_legal = 0
            for a in range(K):
                number = q[at + a]
                if number != number:
                    continue
                child = children[at + a]
                if child >= 0:
                    number += factor * (values[child] - edges[at + a])
                elif child == BEYOND:
                    number += factor * (bound - edges[at + a])
                x[num_legal] = number
                w[num_legal] = paper.weights[a]
                ids[num_legal] = a
                num_legal += 1
            sign = graph.signs[node] if setting.game else 1.0
            if (sign > 0.0) == (rule.relaxed == 1):
                for j in range(num_legal):
                    y[j] = sign * x[j]
                values[node] = sign * VALUE(
                    world.code,
                    first_floats(y, num_legal),
                    first_floats(w, num_legal),
                    world.t,
                )
            else:
                total = 0.0
                for j in range(num_legal):
                    p[j] = graph.shares[at + ids[j]]
                    total += p[j] * x[j]
                values[node] = total - sign * OMEGA(
                    world.code,
                    first_floats(p, num_legal),
                    first_floats(w, num_legal),
                    world.t,
                )
            if node == 0:
                for j in range(num_legal):
                    samples[start + FIRST_ACTION + ids[j]] = x[j]


# --- the walk -----------------------------------------------------------------------


def play_walk(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, policy: Any,
    times: Any, graph: PathGraph, batch: StepBatch, paper: PathNotes, path: int, first_action: int,
    most_calls: int, rng: Any, stop: Any,
) -> int:  # fmt: skip
    """The status after a walk of the policy, whose sums are in ``paper.walk``.

    It begins with ``first_action``, where that is not negative.
    """
    K, meta, length, walk = (
        setting.num_actions,
        paper.meta,
        paper.meta[LENGTH],
        paper.walk,
    )
    spare = meta[CAPACITY] - 1
    node, weight = ZERO, 1.0
    worth = graph.w[0]
    x = worth
    walk[WALK_LOW], walk[WALK_HIGH] = math.nan, math.nan
    begin_walk(world, critic, path, first_action)
    time = ZERO
    while time < length:
        row = min(time, meta[NUM_TIMES] - 1)
        follows, is_worth = what_follows(rule, time, length), has_worth(rule, time)
        steps_left = steps_after(world, time)
        next_row = min(time + 1, meta[NUM_TIMES] - 1)
        score = x - graph.w[0]
        if time > 0:
            if score > paper.extremes[E_WALK_HIGH]:
                paper.extremes[E_WALK_HIGH] = score
            if score < paper.extremes[E_WALK_LOW]:
                paper.extremes[E_WALK_LOW] = score
            is_low = walk[WALK_LOW] == walk[WALK_LOW]
            is_high = walk[WALK_HIGH] == walk[WALK_HIGH]
            if not is_low and score <= -rule.lower_cut:
                walk[WALK_LOW] = x + weight * (
                    times[row * TIME_COLUMNS + POLICY_LOW] - worth
                )
                is_low = True
            if not is_high and score >= rule.lower_cut:
                walk[WALK_HIGH] = x + weight * (
                    times[row * TIME_COLUMNS + POLICY_HIGH] - worth
                )
                is_high = True
            if is_low and is_high:
                break
        if node != spare and graph.children[node * K] == CUT_HERE:
            move_state(graph.states, spare, graph.states, node, world.size)
            node = spare
        if node == spare:
            if meta[CALLS] + K * rule.num_inner + 1 > most_calls:
                return CUT
            if meta[WORDS_TIME] != time:
                write_words(rule, paper, path, time, NEVER)
            calls_before = meta[CALLS]
            status = expand_nodes(
                setting, data, graph.states, node, node + 1, EVERY, paper.words, ONE,
                1 + rule.num_inner, batch, rng, meta, paper.fault, stop,
            )  # fmt: skip
            meta[WALK_COUNT] += meta[CALLS] - calls_before
            if status == DONE and is_worth:
                status = fill_values(
                    world, data, critic, steps_left, batch, K * rule.num_inner
                )
            if status == DONE:
                status = average_nodes(
                    setting, rule, times, batch, paper, node, node + 1, time,
                    rule.num_inner, is_worth, graph.q,
                )  # fmt: skip
            if status != DONE:
                return status
        sign = mover_sign(setting, data, graph.states, node)
        if sign == 0.0:
            meta[FAULT_NODE] = node
            return BAD_PLAYER
        status = assign_policy(
            setting, rule, world, data, critic, policy, times, graph, batch, paper,
            path, node, time, sign, is_worth, most_calls, rng, stop,
        )  # fmt: skip
        if status != DONE:
            return status
        if time == 0 and first_action >= 0:
            action, income = first_action, graph.q[first_action]
        else:
            action, income = -1, weigh_policy(setting, world, graph, paper, node, sign)
        x += weight * (income - worth)
        time += 1
        if follows == NOTHING:
            break
        if action < 0:
            action = choose_action(setting, graph, paper, path, node, time - 1, rng)
        note_action(world, critic, action)
        child = BEYOND
        if node != spare:
            child = graph.children[node * K + action]
            worth = graph.edges[node * K + action]
        if child == NONE:
            break
        if child >= 0 and not world.by_key:
            node = child
        elif child >= 0 or node == spare or follows == A_LAYER:
            if meta[CALLS] >= most_calls:
                return CUT
            if meta[WORDS_TIME] != time - 1:
                write_words(rule, paper, path, time - 1, NEVER)
            status = expand_nodes(
                setting, data, graph.states, node, node + 1, action, paper.words, ZERO, ONE,
                batch, rng, meta, paper.fault, stop,
            )  # fmt: skip
            meta[WALK_COUNT] += 1
            if status != DONE:
                return status
            if batch.flags[0] == OVER:
                break
            status = fill_values(world, data, critic, steps_left, batch, ONE)
            if status != DONE:
                return status
            value = batch.values[0]
            if not (-math.inf < value < math.inf):
                meta[FAULT_ROW] = 0
                return BAD_VALUE
            worth = clip_value(times, next_row, value)
            paper.extremes[E_NEW_LOW] = min(paper.extremes[E_NEW_LOW], value)
            paper.extremes[E_NEW_HIGH] = max(paper.extremes[E_NEW_HIGH], value)
            if child < 0 or not is_same(data, graph.states, child, batch.states, ZERO):
                move_state(graph.states, spare, batch.states, ZERO, world.size)
                child = spare
            node = child
        note_values(paper, next_row)
        if time <= rule.head:
            weight *= rule.discount
        if follows == A_BOUND:
            if walk[WALK_LOW] != walk[WALK_LOW]:
                walk[WALK_LOW] = x + weight * (
                    times[next_row * TIME_COLUMNS + POLICY_LOW] - worth
                )
            if walk[WALK_HIGH] != walk[WALK_HIGH]:
                walk[WALK_HIGH] = x + weight * (
                    times[next_row * TIME_COLUMNS + POLICY_HIGH] - worth
                )
            break
    if walk[WALK_LOW] != walk[WALK_LOW]:
        walk[WALK_LOW] = x
    if walk[WALK_HIGH] != walk[WALK_HIGH]:
        walk[WALK_HIGH] = x
    walk[WALK_STEPS] = time
    return DONE


def begin_walk(world: PathWorld, critic: Any, path: int, first_action: int) -> None:
    """Do nothing: a policy in Python begins its walk here."""


def ask_policy(critic: Any, graph: PathGraph, node: int) -> int:
    """The status after a policy in Python wrote its probabilities at a node."""
    return NOTHING


def note_action(world: PathWorld, critic: Any, action: int) -> None:
    """Do nothing: a policy in Python hears of its actions here."""


# --- paths --------------------------------------------------------------------------


def begin_path(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, times: Any,
    graph: PathGraph, batch: StepBatch, paper: PathNotes, root: Any, path: int, rng: Any,
) -> int:  # fmt: skip
    """The status after the root is node 0 of a path."""
    meta, extremes = paper.meta, paper.extremes
    begin_walk(world, critic, path, NO_WALK)
    for k in range(NOISE_COUNT, CUT_COUNT + 1):
        meta[k] = 0
    for k in (E_SCORE_HIGH, E_WALK_HIGH, E_W_HIGH, E_NEW_HIGH):
        extremes[k] = -math.inf
    for k in (E_SCORE_LOW, E_WALK_LOW, E_W_LOW, E_NEW_LOW):
        extremes[k] = math.inf
    if not rule.fixed:
        write_position(paper.spot, ZERO, paper.first, COIN, path, ZERO, ZERO, NEVER)
        start_stream(rng, paper.spot, ZERO)
    meta[LENGTH] = path_length(rule, rng)  # type: ignore[arg-type]
    place_root(batch, root, world.size)
    batch.flags[0] = ALIVE
    status = fill_values(world, data, critic, world.steps_left, batch, ONE)
    if status != DONE:
        return status
    value = batch.values[0]
    if not (-math.inf < value < math.inf):
        meta[FAULT_ROW] = 0
        return BAD_VALUE
    extremes[E_NEW_LOW], extremes[E_NEW_HIGH] = value, value
    note_values(paper, ZERO)
    paper.weight[0] = 1.0
    move_state(graph.states, ZERO, batch.states, ZERO, world.size)
    graph.w[0] = clip_value(times, ZERO, value)
    sign = 1.0 if rule.relaxed == 1 else -1.0
    graph.scores[0], graph.offsets[0] = 0.0, -sign * graph.w[0]
    graph.layers[0], graph.layers[1] = 0, 1
    meta[COUNT], meta[TIME], meta[NODE], meta[WORDS_TIME] = 1, 0, 0, -1
    return DONE


def place_root(batch: StepBatch, root: Any, size: int) -> None:
    """Write the root's state into the first row of a batch."""
    STORE(batch.states, 0, root)


def play_walks(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, policy: Any,
    times: Any, graph: PathGraph, batch: StepBatch, paper: PathNotes, path: int, most_calls: int,
    rng: Any, stop: Any, samples: Any, start: int,
) -> int:  # fmt: skip
    """The status after the walks of a path are in a row of samples."""
    K, walk = setting.num_actions, paper.walk
    if not rule.walks_every_action:
        status = play_walk(
            setting, rule, world, data, critic, policy, times, graph, batch, paper,
            path, EVERY, most_calls, rng, stop,
        )  # fmt: skip
        samples[start + LOWER] = walk[WALK_LOW]
        samples[start + POLICY_UPPER] = walk[WALK_HIGH]
        samples[start + STEPS] = walk[WALK_STEPS]
        return status
    lower, upper, steps = 0.0, 0.0, 0.0
    for a in range(K):
        if graph.q[a] != graph.q[a]:
            continue
        status = play_walk(
            setting, rule, world, data, critic, policy, times, graph, batch, paper,
            path, a, most_calls, rng, stop,
        )  # fmt: skip
        if status != DONE:
            return status
        # the far end of Q: from below for player 1, from above for player 2
        far_end = WALK_LOW if rule.relaxed == 1 else WALK_HIGH
        samples[start + FIRST_ACTION + K + a] = walk[far_end]
        lower += graph.shares[a] * walk[WALK_LOW]
        upper += graph.shares[a] * walk[WALK_HIGH]
        steps = max(steps, walk[WALK_STEPS])
    sign = mover_sign(setting, data, graph.states, ZERO)
    # the regularizer of the first action: the mean of Qhat is taken out again
    own_mean, num_legal = 0.0, list_legal(setting, graph, paper, ZERO)
    for j in range(num_legal):
        own_mean += graph.shares[paper.ids[j]] * graph.q[paper.ids[j]]
    income = weigh_policy(setting, world, graph, paper, ZERO, sign) - own_mean
    samples[start + LOWER], samples[start + POLICY_UPPER] = (
        lower + income,
        upper + income,
    )
    samples[start + STEPS] = steps
    return DONE


def play_paths(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: Any, policy: Any,
    times: Any, graph: PathGraph, batch: StepBatch, paper: PathNotes, root: Any, first_path: int,
    most_calls: int, count: int, samples: Any, rng: Any, stop: Any,
) -> int:  # fmt: skip
    """The status at the end; ``meta[ROW_NUMBER]`` is the number of paths finished.

    After GROW the same call goes on, with larger arrays.
    """
    meta, K = paper.meta, setting.num_actions
    while meta[ROW_NUMBER] < count:
        row = meta[ROW_NUMBER]
        path, start = first_path + row, row * (FIRST_ACTION + 2 * K)
        if meta[UNDERWAY] == 0:
            status = begin_path(
                setting, rule, world, data, critic, times, graph, batch, paper, root,
                path, rng,
            )  # fmt: skip
            if status != DONE:
                return status
            meta[UNDERWAY] = 1
        status = grow_layers(
            setting, rule, world, data, critic, policy, times, graph, batch, paper,
            path, most_calls, rng, stop,
        )  # fmt: skip
        if status != DONE:
            return status
        for k in range(FIRST_ACTION + 2 * K):
            samples[start + k] = math.nan
        fold_layers(
            setting, rule, world, times, graph, paper, meta[TIME], samples, start
        )
        samples[start + UPPER] = graph.values[0]
        if world.policy != NO_POLICY and rule.walks:
            status = play_walks(
                setting, rule, world, data, critic, policy, times, graph, batch, paper,
                path, most_calls, rng, stop, samples, start,
            )  # fmt: skip
            if status != DONE:
                return status
        write_counts(paper, samples, start)
        meta[UNDERWAY] = 0
        meta[ROW_NUMBER] = row + 1
    return DONE


def write_counts(paper: PathNotes, samples: Any, start: int) -> None:
    """Write the counts and extremes of a path into a row of samples."""
    meta, extremes = paper.meta, paper.extremes
    samples[start + NOISE_CALLS] = meta[NOISE_COUNT]
    samples[start + INNER_CALLS] = meta[INNER_COUNT]
    samples[start + WALK_CALLS] = meta[WALK_COUNT]
    samples[start + LOOKAHEAD_CALLS] = meta[LOOK_COUNT]
    samples[start + NODES] = meta[COUNT]
    samples[start + CUT_NODES] = meta[CUT_COUNT]
    samples[start + DEEPEST] = meta[TIME] - 1
    samples[start + SCORE_HIGH] = extremes[E_SCORE_HIGH]
    samples[start + SCORE_LOW] = extremes[E_SCORE_LOW]
    samples[start + WALK_SCORE_HIGH] = extremes[E_WALK_HIGH]
    samples[start + WALK_SCORE_LOW] = extremes[E_WALK_LOW]
    samples[start + W_LOW] = extremes[E_W_LOW]
    samples[start + W_HIGH] = extremes[E_W_HIGH]
