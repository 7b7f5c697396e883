"""The inner machine of the ``compiled`` executor: one shard of any schedule table, on an explicit stack.

This file is plain Python that ``problem.jit.compiled`` turns into machine code. The names STEP ... KEEP are the problem's parts: here
the tabular ones, replaced by a user's functions when theirs are compiled. Nothing recurses: a frame of the stack is a node that is
collecting its Q-hat; a rollout is a loop at one depth; an action whose draws end in a constant is a tight loop (``leaf_total``).

The machine moves between four phases:

  ENTER    a level is drawn at ``state``: constants and leaf nodes are finished on the spot, others open a frame
  DRAW     the frame at ``depth`` makes its next draw, which enters its child one deeper
  FINISH   its Q-hat is complete: a plug-in returns F(Q-hat), a rollout draws an action and goes on at the same depth
  RETURN   a value ``v`` arrives at the frame above; at depth 0 it is a root draw

Arithmetic is scalar and in the order of ``reference``: the two return the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.problem.operators import (
    ENTROPY,
    KL_PRIOR,
    MAX,
    SPARSEMAX,
    SQUARE_ROOT,
    builtin_both,
    builtin_value,
)
from smoothcruiser.problem.tabular_kernel import tabular_legal, tabular_player, tabular_step, tabular_terminal

CONSTANT, PLUGIN, ROLLOUT, BLIND = range(4)  # schedule.Kind, as plain numbers for the compiler
ENTER, DRAW, FINISH, RETURN = range(4)
DONE, BAD_REWARD, STOPPED, UNDECLARED_END, NO_ACTION = range(5)  # how a shard ended


class Plan(NamedTuple):
    """A schedule and the facts it needs, as arrays and numbers."""

    kind: NDArray[np.int64]
    samples: NDArray[np.int64]
    query: NDArray[np.int64]
    continuation: NDArray[np.int64]
    constant: NDArray[np.float64]
    shift: NDArray[np.float64]
    weights: NDArray[np.float64]  # prior weights of the K actions
    blind_head: NDArray[np.float64]  # F(0) over k actions, k = 0..K
    depth: int
    num_actions: int
    root_row: int
    discount: float
    low: float  # reward range
    high: float
    clips: bool
    clip_low: float
    clip_high: float
    operator: int
    temperature: float
    unit: bool  # gradients sum to one
    varies: bool  # legal actions vary
    ends: bool  # there are terminal states
    game: bool


def transition(data: Any, state: int, action: int, rng: Any) -> Any:
    """The tabular step with the flag every step has inside the engine."""
    reward, after = tabular_step(data, state, action, rng)
    return reward, after, False


def allocate(depth: int) -> NDArray[np.int64]:
    """Room for integer states."""
    return np.empty(depth, np.int64)


def load(stack: Any, i: int) -> Any:
    """The state at depth ``i``."""
    return stack[i]


def store(stack: Any, i: int, state: Any) -> None:
    """Keep a state at depth ``i``."""
    stack[i] = state


def keep(stack: Any, i: int, state: Any) -> Any:
    """Hand a next state on."""
    return state


STEP, LEGAL, TERMINAL, PLAYER = transition, tabular_legal, tabular_terminal, tabular_player
ALLOCATE, LOAD, STORE, KEEP = allocate, load, store, keep
VALUE: Any = builtin_value
BOTH: Any = builtin_both


def pick(g: Any, size: int, rng: Any) -> tuple[int, float]:
    """A slot drawn in proportion to the gradient by one uniform and a running sum, and the gradient's norm."""
    norm = 0.0
    for j in range(size):
        norm += g[j]
    u = rng.random() * norm
    running = 0.0
    slot = 0
    for j in range(size):
        if g[j] > 0.0:
            slot = j
            running += g[j]
            if u < running:
                break
    return slot, norm


def leaf_total(data: Any, state: Any, action: int, count: int, tail: float, low: float, high: float, rng: Any) -> tuple[float, int]:
    """Sum of ``count`` backups reward + ``tail`` of one action, and how it ended: the loop that most calls are made in."""
    total = 0.0
    for _ in range(count):
        reward, _after, over = STEP(data, state, action, rng)
        if not (low <= reward <= high):
            return total, BAD_REWARD
        if over:
            return total, UNDECLARED_END
        total += reward + tail
    return total, DONE


def careful_leaf_total(
    data: Any, state: Any, action: int, count: int, constant: float, shift: float, discount: float, low: float, high: float,
    ends: bool, game: bool, rng: Any,
) -> tuple[float, int]:  # fmt: skip
    """The same where the next state matters: it may be terminal, or its mover may set the sign of the shift."""
    total = 0.0
    for _ in range(count):
        reward, after, over = STEP(data, state, action, rng)
        if not (low <= reward <= high):
            return total, BAD_REWARD
        if over and not ends:
            return total, UNDECLARED_END
        if ends and (over or TERMINAL(data, after)):
            total += reward
        else:
            value = constant
            if shift != 0.0:
                value += (1.0 if not game or PLAYER(data, after) == 1 else -1.0) * shift
            total += reward + discount * value
    return total, DONE


def run_shard(
    plan: Plan, data: Any, root_state: Any, action: int, count: int, center: float, rng: Any, stop: NDArray[np.uint8]
) -> tuple[int, int, float, float]:
    """(how it ended, oracle calls, sum of the root draws, sum of their squared distances to ``center``); action -1 draws X itself."""
    # Arrays and numbers out of the tuple once: Numba counts a reference each time an array is taken from it.
    kinds, samples, query, continuation = plan.kind, plan.samples, plan.query, plan.continuation
    constants, shifts, weights, blind_head = plan.constant, plan.shift, plan.weights, plan.blind_head
    K, discount, unit, low, high = plan.num_actions, plan.discount, plan.unit, plan.low, plan.high
    clips, clip_low, clip_high = plan.clips, plan.clip_low, plan.clip_high
    operator, temperature, root_row = plan.operator, plan.temperature, plan.root_row
    varies, ends, game = plan.varies, plan.ends, plan.game
    rooms = plan.depth + 2
    stack = ALLOCATE(rooms)
    frame_row = np.empty(rooms, np.int64)
    frame_slot = np.empty(rooms, np.int64)  # which of the legal actions is being drawn
    frame_left = np.empty(rooms, np.int64)  # draws left for it
    frame_size = np.empty(rooms, np.int64)  # number of legal actions
    frame_sign = np.empty(rooms)
    frame_reward = np.empty(rooms)
    frame_sum = np.empty(rooms)
    frame_total = np.empty(rooms)
    frame_weight = np.empty(rooms)
    actions = np.empty((rooms, K), np.int64)
    q = np.empty((rooms, K))
    x = np.empty(K)
    g = np.empty(K)
    w = weights.copy()
    for i in range(rooms):
        for a in range(K):
            actions[i, a] = a
    zeros = np.zeros(K)
    uniform_at_zero = operator in (ENTROPY, SPARSEMAX, SQUARE_ROOT, MAX)

    calls = 0
    grand_total = 0.0
    grand_square = 0.0
    STORE(stack, 0, root_state)
    state = LOAD(stack, 0)
    for _draw in range(count):
        if stop[0] != 0:
            return STOPPED, calls, grand_total, grand_square
        state = LOAD(stack, 0)
        root_reward = 0.0
        phase = ENTER
        v = 0.0
        depth = 1
        row = root_row
        total = 0.0
        weight = 1.0
        sign = 1.0
        size = K
        if action >= 0:
            reward, after, over = STEP(data, state, action, rng)
            calls += 1
            if not (low <= reward <= high):
                return BAD_REWARD, calls, grand_total, grand_square
            if over and not ends:
                return UNDECLARED_END, calls, grand_total, grand_square
            root_reward = reward
            if ends and (over or TERMINAL(data, after)):
                grand_total += root_reward
                distance = root_reward - center
                grand_square += distance * distance
                continue
            state = KEEP(stack, 1, after)
        while True:
            if phase == ENTER:
                kind = kinds[row]
                if kind == CONSTANT:
                    v = constants[row]
                    if shifts[row] != 0.0:
                        v += (1.0 if not game or PLAYER(data, state) == 1 else -1.0) * shifts[row]
                    v = total + weight * v
                    phase = RETURN
                else:
                    sign = 1.0 if not game or PLAYER(data, state) == 1 else -1.0
                    size = K
                    if varies:
                        size = 0
                        for a in range(K):
                            if LEGAL(data, state, a):
                                actions[depth, size] = a
                                size += 1
                        if size == 0:
                            return NO_ACTION, calls, grand_total, grand_square
                    if kind == BLIND:
                        norm = 1.0
                        if uniform_at_zero:
                            slot = rng.integers(size)
                        else:
                            if operator == KL_PRIOR and varies:
                                for j in range(size):
                                    w[j] = weights[actions[depth, j]]
                            BOTH(operator, zeros[:size], w[:size], temperature, g)
                            slot, norm = pick(g, size, rng)
                            if unit:
                                norm = 1.0
                        head = sign * blind_head[size] + sign * shifts[row]
                        reward, after, over = STEP(data, state, actions[depth, slot], rng)
                        calls += 1
                        if not (low <= reward <= high):
                            return BAD_REWARD, calls, grand_total, grand_square
                        if over and not ends:
                            return UNDECLARED_END, calls, grand_total, grand_square
                        total += weight * (head + norm * reward)
                        if ends and (over or TERMINAL(data, after)):
                            v = total
                            phase = RETURN
                        else:
                            weight *= discount * norm
                            row = continuation[row]
                            state = KEEP(stack, depth, after)
                    else:
                        child = query[row]
                        number = samples[row]
                        if kinds[child] == CONSTANT:
                            constant, shift = constants[child], shifts[child]
                            simple = not ends and not (game and shift != 0.0)
                            tail = discount * (constant + shift if shift != 0.0 else constant)
                            for j in range(size):
                                if simple:
                                    subtotal, status = leaf_total(data, state, actions[depth, j], number, tail, low, high, rng)
                                else:
                                    subtotal, status = careful_leaf_total(
                                        data, state, actions[depth, j], number, constant, shift, discount, low, high, ends, game, rng
                                    )
                                if status != DONE:
                                    return status, calls, grand_total, grand_square
                                calls += number
                                mean = subtotal / number
                                if clips:
                                    if mean < clip_low:
                                        mean = clip_low
                                    if mean > clip_high:
                                        mean = clip_high
                                x[j] = sign * mean
                            phase = FINISH
                        else:
                            STORE(stack, depth, state)
                            frame_row[depth] = row
                            frame_size[depth] = size
                            frame_sign[depth] = sign
                            frame_total[depth] = total
                            frame_weight[depth] = weight
                            frame_slot[depth] = 0
                            frame_left[depth] = number
                            frame_sum[depth] = 0.0
                            phase = DRAW
            elif phase == DRAW:
                row = frame_row[depth]
                if frame_left[depth] == 0:
                    slot = frame_slot[depth]
                    mean = frame_sum[depth] / samples[row]
                    if clips:
                        if mean < clip_low:
                            mean = clip_low
                        if mean > clip_high:
                            mean = clip_high
                    q[depth, slot] = mean
                    slot += 1
                    if slot == frame_size[depth]:
                        size, sign = frame_size[depth], frame_sign[depth]
                        total, weight = frame_total[depth], frame_weight[depth]
                        state = LOAD(stack, depth)
                        for j in range(size):
                            x[j] = sign * q[depth, j]
                        phase = FINISH
                        continue
                    frame_slot[depth] = slot
                    frame_left[depth] = samples[row]
                    frame_sum[depth] = 0.0
                frame_left[depth] -= 1
                reward, after, over = STEP(data, LOAD(stack, depth), actions[depth, frame_slot[depth]], rng)
                calls += 1
                if not (low <= reward <= high):
                    return BAD_REWARD, calls, grand_total, grand_square
                if over and not ends:
                    return UNDECLARED_END, calls, grand_total, grand_square
                if ends and (over or TERMINAL(data, after)):
                    frame_sum[depth] += reward
                else:
                    frame_reward[depth] = reward
                    row = query[row]
                    depth += 1
                    total = 0.0
                    weight = 1.0
                    state = KEEP(stack, depth, after)
                    phase = ENTER
            elif phase == FINISH:  # row, state, size, sign, total, weight and x = sign * Q-hat are those of the node
                if operator == KL_PRIOR and varies:
                    for j in range(size):
                        w[j] = weights[actions[depth, j]]
                # Slices are counted references: only states with fewer actions pay for them.
                if kinds[row] == PLUGIN:
                    value = VALUE(operator, x, w, temperature) if size == K else VALUE(operator, x[:size], w[:size], temperature)
                    v = total + weight * (sign * value + sign * shifts[row])
                    phase = RETURN
                    continue
                value = BOTH(operator, x, w, temperature, g) if size == K else BOTH(operator, x[:size], w[:size], temperature, g)
                inner = 0.0
                for j in range(size):
                    inner += x[j] * g[j]
                slot, norm = pick(g, size, rng)
                if unit:
                    norm = 1.0
                head = sign * (value - inner) + sign * shifts[row]
                reward, after, over = STEP(data, state, actions[depth, slot], rng)
                calls += 1
                if not (low <= reward <= high):
                    return BAD_REWARD, calls, grand_total, grand_square
                if over and not ends:
                    return UNDECLARED_END, calls, grand_total, grand_square
                total += weight * (head + norm * reward)
                if ends and (over or TERMINAL(data, after)):
                    v = total
                    phase = RETURN
                else:
                    weight *= discount * norm
                    row = continuation[row]
                    state = KEEP(stack, depth, after)
                    phase = ENTER
            else:  # RETURN
                depth -= 1
                if depth == 0:
                    break
                if stop[0] != 0:
                    return STOPPED, calls, grand_total, grand_square
                frame_sum[depth] += frame_reward[depth] + discount * v
                phase = DRAW
        result = v if action < 0 else root_reward + discount * v
        grand_total += result
        distance = result - center
        grand_square += distance * distance
    return DONE, calls, grand_total, grand_square
