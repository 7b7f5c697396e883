"""The machine that runs schedules: one shard, on an explicit stack.

This file is plain Python that runs any schedule table, in two forms with the same
bits: ``jit.build`` turns it into machine code, and executor ``python`` interprets it
(``engines.interpreted.python``). The names STEP ... BOTH are the problem's parts:
here the tabular ones, replaced by a user's functions when theirs are compiled.
Nothing recurses. A frame of the stack is a node that is collecting its Q-hat
(the bottom frame is the root), and a rollout is a loop at one depth. Samples that
end in a constant are a tight loop per action (``leaf_total``).

The machine runs in turns. A turn begins in one of these ways:

  ENTER    a level is sampled at ``state``: constants are finished on the spot
  HALVES   a randomized level asks again, for two halves
  COMPLETE all means of a frame are there
  END      the step before led to a terminal state
  ROOT     nothing is under way: the first turn

It goes on through phases that stand in the order in which they follow each other, so
that a compiler can jump from one to the next:

  ASK      means of samples are wanted: those of leaves are taken on the spot, others
           open a frame
  FINISH   a Q-hat is complete: a plug-in returns F(Q-hat), a rollout samples an
           action; a randomized level may ask again
  CORRECT  two halves are complete: their distance to the whole is added, and a
           rollout enters its continuation one frame higher (DESCEND)
  RETURN   a value ``v`` arrives at the frame below
  ROOT     the root takes its next sample
  DRAW     a frame takes its next sample, which enters its child one frame higher
  ACT      the sampled action is taken and the rollout continues at the same depth

A turn hands the frame, the row, the state, the total and the weight to the next.
Every other number is set in the turn that uses it. Numbers that live on would take
registers from the steps. ``hidden`` stands where a compiler would otherwise compute
addresses and loop counts of rare phases at the beginning of every turn.

Vectors and frames lie in one block of words: plain memory in machine code
(``jit.memory`` says why), a list where the machine is interpreted, whose words may be
any objects, states for example. A frame is a row of words:

  ROW                            level of the schedule (its complement while a correction
                                 samples the continuation)
  LEFT, REWARD, SUM, CENTER      samples left of the mean under way, the reward of the
                                 sample under way, the sum so far, its center
  CHILD, ACTION                  level and action of every sample of this mean
  SLOT, NUMBER, GOAL             the mean being sampled, samples of a mean, number of
                                 means: one per legal action, for two halves twice as many
  SIZE, SIGN                     number of legal actions, +1 where max moves and -1 where
                                 min does
  TOTAL, WEIGHT                  the sum that the rollout through this node has
                                 collected, and gamma**t for its continuation
  MARK                           digest of the state, where a step could write into it
  HEAD, CHOSEN, NORM             results of FINISH, kept while a correction is sampled
  CHANCE, BRACKET, FACTOR        the chance of its rung, its sum so far, and
                                 the factor of the continuation's sample
  the state, K actions, 2K means legal actions in order; means that are complete

Arithmetic is scalar and in the order of ``reference``: the two return the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.engines.root_scores import BINNED, LOGGED, WHOLE, bin_of
from smoothcruiser.jit.primitives import (
    Inlined,
    address_of_word,
    flag_at,
    float_words,
    floats_at,
    hidden,
    int_at,
    int_words,
    put_int,
    tabular_legal,
    tabular_player,
    tabular_reward,
    tabular_step,
    tabular_terminal,
)
from smoothcruiser.operators.dispatch import (
    builtin_both,
    builtin_value,
    inlined_both,
    inlined_value,
    is_inlined,
)
from smoothcruiser.theory.stopping import psi

if TYPE_CHECKING:
    from smoothcruiser.engines.compiled.schedule_table import ScheduleTable

# schedule.Kind as plain numbers, for the compiler
KINDS = range(7)
CONSTANT, PLUGIN, ROLLOUT, BLIND, MIDDLE, RANDOM_PLUGIN, RANDOM_ROLLOUT = KINDS
ENTER, HALVES, COMPLETE, END, ROOT = range(5)  # how a turn begins
ASK, FINISH, CORRECT, RETURN, DRAW, ACT, DESCEND = range(5, 12)
# how a shard ended
(
    DONE,
    BAD_REWARD,
    STOPPED,
    UNDECLARED_END,
    FEW_ACTIONS,
    BAD_PLAYER,
    WRITTEN,
    BAD_BOUNDS,
) = range(8)

# words of a frame; the state and 3 K words follow
ROW, LEFT, REWARD, SUM, CENTER, CHILD, ACTION = range(7)
SLOT, NUMBER, GOAL, SIZE, SIGN, TOTAL, WEIGHT, MARK = range(7, 15)
HEAD, CHOSEN, NORM, CHANCE, BRACKET, FACTOR, FIELDS = range(15, 22)
# words of the vectors before the frames, each times K: x (2 K), y, g, w, d
VECTORS = 6
# Samples of a leaf between two checks of the stop flag: at most some ten
# milliseconds.
POLL = 1 << 20


def frame_words(num_actions: int, state_words: int) -> int:
    """Words of a frame."""
    return FIELDS + 3 * num_actions + state_words


def scratch_words(num_actions: int, state_words: int, depth: int) -> int:
    """Words of memory that ``run_shard`` needs.

    They hold vectors, then a frame for the root and one for each level of depth.
    """
    frames = (depth + 2) * frame_words(num_actions, state_words)
    return VECTORS * num_actions + frames


def transition(data: Any, state: int, action: int, rng: Any) -> Any:
    """The tabular step, with the end flag that every step has inside the engine."""
    reward, next_state = tabular_step(data, state, action, rng)
    return reward, next_state, False


def leaf_transition(data: Any, state: int, action: int, rng: Any) -> Any:
    """``transition`` without the next state: leaves of plain problems ignore it."""
    return tabular_reward(data, state, action, rng), False


def allocate(depth: int) -> NDArray[np.int64]:
    """Memory for ``depth`` integer states.

    ``states.codec`` does the same for other types; the tree engine keeps
    its states so.
    """
    return np.empty(depth, np.int64)


def load(stack: Any, i: int) -> Any:
    """The state at ``i``."""
    return stack[i]


def store(stack: Any, i: int, state: Any) -> None:
    """Store a state at ``i``."""
    stack[i] = state


def keep(stack: Any, i: int, state: Any) -> Any:
    """The next state as it is: an integer needs no copy."""
    return state


def load_word(address: int) -> Any:
    """The integer state at an address."""
    return int_at(address, 0)


def store_word(address: int, state: Any) -> None:
    """Store an integer state at an address."""
    put_int(address, 0, state)


def keep_word(address: int, state: Any) -> Any:
    """The next state as it is: an integer needs no copy."""
    return state


def no_bound(data: Any, state: Any) -> float:
    """A placeholder for a bound on V that depends on the state."""
    return 0.0


STEP, LEGAL, TERMINAL, PLAYER = (
    transition,
    tabular_legal,
    tabular_terminal,
    tabular_player,
)
LEAF = leaf_transition  # STEP without the next state
LOAD, STORE, KEEP = load_word, store_word, keep_word
VALUE: Any = builtin_value
# Whether states may hold arrays, which a step could write into. It is a constant, so
# that problems without arrays pay nothing; a machine for all states asks the plan.
FRAGILE = False
# Whether bounds on V are functions of the state, a constant for the same reason.
BOUNDED = False
BELOW, ABOVE = no_bound, no_bound
# Whether all actions are legal, nothing is terminal and one player moves: such problems
# have a machine of their own, without tests of these three in every turn.
PLAIN = False
BOTH: Any = builtin_both
# Whether this is machine code. Interpreted, each call of a step notices a stop by itself,
# so that the flag is read between samples alone.
COMPILED = True


def no_value(code: int, q: Any, w: Any, t: float) -> float:
    """VALUE in a machine for the inlined operator alone, which never calls it.

    The functions of all the other operators are a quarter of the time of compiling.
    """
    return np.nan


def no_both(code: int, q: Any, w: Any, t: float, out: Any) -> float:
    """BOTH in such a machine."""
    return np.nan


def pick(floats: Any, g_at: int, size: int, rng: Any) -> tuple[int, float]:
    """A slot sampled in proportion to the gradient, and the gradient's norm.

    It takes one uniform and a running sum.
    """
    norm = 0.0
    for j in range(size):
        norm += floats[g_at + j]
    u = rng.random() * norm
    running_sum = 0.0
    slot = 0
    for j in range(size):
        g = floats[g_at + j]
        if g > 0.0:
            slot = j
            running_sum += g
            if u < running_sum:
                break
    return slot, norm


def sample_rung(rungs: Any, first: int, end: int, rng: Any) -> tuple[int, float]:
    """A rung from 1 on by one uniform, and its chance; 0 for no correction."""
    u = rng.random()
    running_sum = 0.0
    for i in range(first, end):
        chance = rungs[i]
        running_sum += chance
        if u < running_sum:
            return i - first + 1, chance
    return 0, 1.0


# Called once per node, with vectors that a call would spell out in seven words
# each. The compiler does not inline them by itself.
PICK: Any = Inlined(pick)
SOFT: Any = Inlined(inlined_value)
SOFT_BOTH: Any = Inlined(inlined_both)


def leaf_total(
    data: Any, state: Any, action: int, count: int, tail: float, low: float, high: float,
    rng: Any, stop: int,
) -> tuple[float, int]:  # fmt: skip
    """The sum of reward + ``tail`` over ``count`` backups, and a status.

    Most calls are made in this loop.
    """
    total = 0.0
    while True:
        for _ in range(min(count, POLL)):
            reward, is_over = LEAF(data, state, action, rng)
            if not (low <= reward <= high):
                return total, BAD_REWARD
            if is_over:
                return total, UNDECLARED_END
            total += reward + tail
        count -= POLL
        if count <= 0:
            return total, DONE
        if COMPILED and flag_at(stop) != 0:
            return total, STOPPED


def careful_leaf_total(
    data: Any, state: Any, action: int, count: int, constant: float, shift: float,
    center: float, discount: float, low: float, high: float, ends: bool, game: bool,
    rng: Any, stop: int,
) -> tuple[float, int]:  # fmt: skip
    """``leaf_total`` for problems where the next state matters.

    It may be terminal, or its mover may set the sign of the shift.
    """
    total = 0.0
    while True:
        for _ in range(min(count, POLL)):
            reward, next_state, is_over = STEP(data, state, action, rng)
            if not (low <= reward <= high):
                return total, BAD_REWARD
            if is_over and not ends:
                return total, UNDECLARED_END
            if ends and (is_over or TERMINAL(data, next_state)):
                total += reward - center
            else:
                value = constant
                if shift != 0.0:
                    mover = PLAYER(data, next_state) if game else 1
                    if mover != 1 and mover != 2:
                        return total, BAD_PLAYER
                    value += (1.0 if mover == 1 else -1.0) * shift
                total += reward + (discount * value - center)
        count -= POLL
        if count <= 0:
            return total, DONE
        if COMPILED and flag_at(stop) != 0:
            return total, STOPPED


def middle_of(
    data: Any, state: Any, gap: float, low: float, high: float, slack: float
) -> tuple[float, bool]:
    """The middle of the bounds at a state, and whether they keep their claims."""
    lower, upper = BELOW(data, state), ABOVE(data, state)
    # nothing holds of NaN
    is_consistent = (
        -slack <= upper - lower <= gap + slack
        and lower <= high + slack
        and upper >= low - slack
    )
    if lower < low:
        lower = low
    if upper > high:
        upper = high
    return 0.5 * (lower + upper), is_consistent


def bounded_leaf_total(
    data: Any, state: Any, action: int, count: int, gap: float, value_low: float,
    value_high: float, slack: float, center: float, discount: float, low: float,
    high: float, ends: bool, rng: Any, stop: int,
) -> tuple[float, int]:  # fmt: skip
    """``leaf_total`` where the middle of bounds values the next state."""
    total = 0.0
    while True:
        for _ in range(min(count, POLL)):
            reward, next_state, is_over = STEP(data, state, action, rng)
            if not (low <= reward <= high):
                return total, BAD_REWARD
            if is_over and not ends:
                return total, UNDECLARED_END
            if ends and (is_over or TERMINAL(data, next_state)):
                total += reward - center
            else:
                value, is_consistent = middle_of(
                    data, next_state, gap, value_low, value_high, slack
                )
                if not is_consistent:
                    return total, BAD_BOUNDS
                total += reward + (discount * value - center)
        count -= POLL
        if count <= 0:
            return total, DONE
        if COMPILED and flag_at(stop) != 0:
            return total, STOPPED


def value_at(
    operator: int, floats: Any, x_at: int, w_at: int, size: int, temperature: float
) -> float:
    """F of the ``size`` numbers at ``x_at``, with the prior weights at ``w_at``."""
    x = floats_at(address_of_word(floats, x_at), (size,))
    w = floats_at(address_of_word(floats, w_at), (size,))
    if is_inlined(operator):
        return SOFT(x, w, temperature)  # type: ignore[no-any-return]
    return VALUE(operator, x, w, temperature)  # type: ignore[no-any-return]


def both_at(
    operator: int, floats: Any, x_at: int, w_at: int, g_at: int, size: int,
    temperature: float,
) -> float:  # fmt: skip
    """F less the inner product of x and its gradient, which is written to ``g_at``."""
    x = floats_at(address_of_word(floats, x_at), (size,))
    w = floats_at(address_of_word(floats, w_at), (size,))
    g = floats_at(address_of_word(floats, g_at), (size,))
    if is_inlined(operator):
        value = SOFT_BOTH(x, w, temperature, g)
    else:
        value = BOTH(operator, x, w, temperature, g)
    inner_product = 0.0
    for j in range(size):
        inner_product += x[j] * g[j]
    return value - inner_product  # type: ignore[no-any-return]


def clip_mean(mean: float, low: float, high: float) -> float:
    """A mean of Q-hat, clipped to the schedule's box (Alg. 3, line 9)."""
    return low if mean < low else high if mean > high else mean


def add_score(
    kind: int, half: float, scale: float, distance: float, score: Any
) -> None:
    """Add a root sample to the scores of the root's bound."""
    if kind == BINNED:
        weights = int_words(score)
        point, above = bin_of(distance, half, scale)
        weights[point] += WHOLE - above
        weights[point + 1] += above
    elif kind == LOGGED:
        float_words(score)[0] += psi(scale * distance)


def mark_of(ints: Any, at: int, size: int) -> int:
    """A digest of ``size`` words, which shows a change of any of them.

    The words are its digits, and it is taken modulo 2**64.
    """
    mark = 0
    for i in range(size):
        mark = mark * 6_364_136_223_846_793_005 + ints[at + i]
    return mark


def load_state(ints: Any, at: int) -> Any:
    """The state in the words from ``at`` on."""
    return LOAD(address_of_word(ints, at))


def store_state(ints: Any, at: int, state: Any) -> None:
    """Write a state into the words from ``at`` on."""
    STORE(address_of_word(ints, at), state)


def keep_state(ints: Any, at: int, state: Any) -> Any:
    """A next state in a form that the next step cannot change."""
    return KEEP(address_of_word(ints, at), state)


def list_actions(ints: Any, at: int, data: Any, state: Any, num_actions: int) -> int:
    """The number of legal actions, which are written in order from ``at`` on."""
    size = 0
    for a in range(num_actions):
        if LEGAL(data, state, a):
            ints[at + size] = a
            size += 1
    return size


def run_shard(
    plan: ScheduleTable,
    data: Any,
    root_state: Any,
    action: int,
    count: int,
    center: float,
    rng: Any,
    stop: Any,
    block: Any,
    score: Any,
) -> tuple[int, int, float, float]:
    """(status, oracle calls, sum and sum of squares) of ``count`` root samples.

    The sums are of the samples' distances to ``center``; their scores are added to
    those at ``score``. Action -1 samples X itself. After a stop the sums are of
    the samples before it, and LEFT of the root's frame says how many were to follow
    the one that was not finished.
    """
    ints, floats = int_words(block), float_words(block)
    kinds, samples = int_words(plan.kind), int_words(plan.samples)
    query, continuation = int_words(plan.query), int_words(plan.continuation)
    constants, shifts = float_words(plan.constant), float_words(plan.shift)
    weights, blind_head = float_words(plan.weights), float_words(plan.blind_head)
    centers, fewest = float_words(plan.center), plan.fewest
    rungs, first_rung = float_words(plan.rungs), int_words(plan.first_rung)
    K, discount, unit, low, high = (
        plan.num_actions,
        plan.discount,
        plan.unit,
        plan.low,
        plan.high,
    )
    clips, clip_low, clip_high = plan.clips, plan.clip_low, plan.clip_high
    operator, temperature, root_row = plan.operator, plan.temperature, plan.root_row
    varies, ends = plan.varies and not PLAIN, plan.ends and not PLAIN
    game, words = plan.game and not PLAIN, plan.state_words
    mark = 0  # digest of a node's state, where a step could write into it
    is_watched = FRAGILE and plan.fragile
    weighted = plan.weighted
    uniform_at_zero = plan.uniform_at_zero

    x_at, y_at, g_at, w_at, d_at = 0, 2 * K, 3 * K, 4 * K, 5 * K
    bottom = VECTORS * K
    state_at = FIELDS  # offsets inside a frame
    actions_at = state_at + plan.state_words
    means_at = actions_at + K
    stride = means_at + 2 * K
    for j in range(K):
        floats[w_at + j] = weights[j]

    calls = 0
    grand_total = 0.0
    grand_square = 0.0
    store_state(ints, bottom + state_at, root_state)
    ints[bottom + LEFT] = count
    if is_watched:
        ints[bottom + MARK] = mark_of(ints, bottom + state_at, words)
    frame = bottom
    state = load_state(ints, bottom + state_at)
    row = root_row
    total = 0.0
    weight = 1.0
    begin = ROOT
    while True:
        if begin == ENTER:
            kind = kinds[row]
            if kind == CONSTANT:
                v = constants[row]
                shift = shifts[row]
                if shift != 0.0:
                    mover = PLAYER(data, state) if game else 1
                    if mover != 1 and mover != 2:
                        return BAD_PLAYER, calls, grand_total, grand_square
                    v += (1.0 if mover == 1 else -1.0) * shift
                v = total + weight * v
                phase = RETURN
            elif BOUNDED and kind == MIDDLE:
                v, is_consistent = middle_of(
                    data, state, plan.gap, plan.value_low, plan.value_high, plan.slack
                )
                if not is_consistent:
                    return BAD_BOUNDS, calls, grand_total, grand_square
                v = total + weight * v
                phase = RETURN
            else:
                sign = 1.0
                size = K
                if game:
                    mover = PLAYER(data, state)
                    if mover != 1 and mover != 2:
                        return BAD_PLAYER, calls, grand_total, grand_square
                    sign = 1.0 if mover == 1 else -1.0
                if varies:
                    size = list_actions(ints, frame + actions_at, data, state, K)
                    if size < fewest:
                        return FEW_ACTIONS, calls, grand_total, grand_square
                if kind == BLIND:
                    norm = 1.0
                    if uniform_at_zero:
                        slot = rng.integers(size)
                    else:
                        for j in range(size):
                            floats[x_at + j] = 0.0
                            if varies:
                                action_j = ints[frame + actions_at + j]
                                floats[w_at + j] = weights[action_j]
                        both_at(operator, floats, x_at, w_at, g_at, size, temperature)
                        slot, norm = PICK(floats, g_at, size, rng)
                        if unit:
                            norm = 1.0
                    head = sign * blind_head[size] + sign * shifts[row]
                    phase = ACT
                else:
                    number = samples[row]
                    goal = size
                    phase = ASK
        else:
            if COMPILED:
                begin = hidden(begin)  # not one switch: ENTER is tested first
            if begin == HALVES:
                if COMPILED:
                    frame = hidden(frame)
                kind = kinds[row]
                size, sign = ints[frame + SIZE], floats[frame + SIGN]
                number, goal = ints[frame + NUMBER], 2 * size
                phase = ASK
            elif begin == COMPLETE:
                if COMPILED:
                    frame = hidden(frame)
                row = ints[frame + ROW]
                kind = kinds[row]
                sign = floats[frame + SIGN]
                total, weight = floats[frame + TOTAL], floats[frame + WEIGHT]
                state = load_state(ints, frame + state_at)
                goal = ints[frame + GOAL]
                for j in range(goal):
                    floats[x_at + j] = sign * floats[frame + means_at + j]
                phase = FINISH if goal == ints[frame + SIZE] else CORRECT
            elif begin == END:
                v = total
                phase = RETURN
            else:
                phase = ROOT
        # Row, kind, state, size, sign, total and weight are those of the node.
        if phase == ASK:
            if COMPILED:
                frame = hidden(frame)
            child = query[row]
            if is_watched:
                mark = mark_of(ints, frame + state_at, words)
            middle = centers[row]
            bounded = BOUNDED and kinds[child] == MIDDLE
            if kinds[child] == CONSTANT or bounded:
                constant, shift = constants[child], shifts[child]
                is_simple = not ends and not (game and shift != 0.0)
                tail = (
                    discount * (constant + shift if shift != 0.0 else constant)
                    - middle
                )
                for j in range(goal):
                    leaf = j if j < size else j - size
                    a = ints[frame + actions_at + leaf] if varies else leaf
                    if BOUNDED and bounded:
                        subtotal, status = bounded_leaf_total(
                            data,
                            state,
                            a,
                            number,
                            plan.gap,
                            plan.value_low,
                            plan.value_high,
                            plan.slack,
                            middle,
                            discount,
                            low,
                            high,
                            ends,
                            rng,
                            stop,
                        )
                    elif is_simple:
                        subtotal, status = leaf_total(
                            data, state, a, number, tail, low, high, rng, stop
                        )
                    else:
                        subtotal, status = careful_leaf_total(
                            data,
                            state,
                            a,
                            number,
                            constant,
                            shift,
                            middle,
                            discount,
                            low,
                            high,
                            ends,
                            game,
                            rng,
                            stop,
                        )
                    if status != DONE:
                        return status, calls, grand_total, grand_square
                    calls += number
                    mean = middle + subtotal / number
                    if clips:
                        mean = clip_mean(mean, clip_low, clip_high)
                    floats[x_at + j] = sign * mean
                if is_watched and mark_of(ints, frame + state_at, words) != mark:
                    return WRITTEN, calls, grand_total, grand_square
                ints[frame + SIZE] = size
                phase = FINISH if goal == size else CORRECT
            else:
                store_state(ints, frame + state_at, state)
                if is_watched:
                    ints[frame + MARK] = mark_of(ints, frame + state_at, words)
                ints[frame + ROW] = row
                ints[frame + SIZE] = size
                floats[frame + SIGN] = sign
                floats[frame + TOTAL] = total
                floats[frame + WEIGHT] = weight
                ints[frame + SLOT] = 0
                ints[frame + ACTION] = ints[frame + actions_at] if varies else 0
                ints[frame + CHILD] = child
                floats[frame + CENTER] = middle
                ints[frame + LEFT] = number
                floats[frame + SUM] = 0.0
                ints[frame + NUMBER] = number
                ints[frame + GOAL] = goal
                phase = DRAW
        # Row, kind, state, sign, total, weight and x = sign * Q-hat are those of the
        # node.
        if phase == FINISH:
            if COMPILED:
                frame = hidden(frame)  # and so the size, the length of every loop here
            size = ints[frame + SIZE]
            if varies and weighted:
                for j in range(size):
                    floats[w_at + j] = weights[ints[frame + actions_at + j]]
            if kind in (PLUGIN, RANDOM_PLUGIN):
                value = value_at(operator, floats, x_at, w_at, size, temperature)
                head = sign * value + sign * shifts[row]
                v = total + weight * head
                slot, norm = 0, 1.0
                phase = RETURN
            else:
                value = both_at(operator, floats, x_at, w_at, g_at, size, temperature)
                slot, norm = PICK(floats, g_at, size, rng)
                if unit:
                    norm = 1.0
                head = sign * value + sign * shifts[row]
                phase = ACT
            if kind >= RANDOM_PLUGIN:
                rung, chance = sample_rung(
                    rungs, first_rung[row], first_rung[row + 1], rng
                )
                if rung > 0:
                    floats[frame + SIGN] = sign
                    floats[frame + HEAD] = head
                    ints[frame + CHOSEN] = slot
                    floats[frame + NORM] = norm
                    floats[frame + CHANCE] = chance
                    ints[frame + NUMBER] = samples[row] << (rung - 1)
                    begin = HALVES
                    continue
        # As in FINISH, with x = sign * q of the first half, then of the second.
        elif phase == CORRECT:
            if COMPILED:
                frame = hidden(frame)
            size = ints[frame + SIZE]
            if varies and weighted:
                for j in range(size):
                    floats[w_at + j] = weights[ints[frame + actions_at + j]]
            for j in range(size):
                floats[y_at + j] = 0.5 * (floats[x_at + j] + floats[x_at + size + j])
                floats[d_at + j] = 0.0
            lacking = 0.0
            for term_index in range(3):
                share = 1.0 if term_index == 0 else -0.5
                term_at = y_at if term_index == 0 else x_at + (term_index - 1) * size
                if kind == RANDOM_PLUGIN:
                    lacking += share * value_at(
                        operator, floats, term_at, w_at, size, temperature
                    )
                    continue
                lacking += share * both_at(
                    operator, floats, term_at, w_at, g_at, size, temperature
                )
                for j in range(size):
                    change = share * floats[g_at + j]
                    floats[d_at + j] = floats[d_at + j] + change
            head, norm = floats[frame + HEAD], floats[frame + NORM]
            slot = ints[frame + CHOSEN]
            bracket, chance = sign * lacking, floats[frame + CHANCE]
            drift = 0.0
            is_moving = False
            if kind == RANDOM_ROLLOUT:
                for j in range(size):
                    delta = floats[d_at + j]
                    drift += delta
                    floats[g_at + j] = abs(delta)
                    is_moving = is_moving or delta != 0.0
            if is_moving:
                if not unit:
                    bracket += constants[row] * drift
                leaf, factor = PICK(floats, g_at, size, rng)
                store_state(ints, frame + state_at, state)
                if is_watched:
                    ints[frame + MARK] = mark_of(ints, frame + state_at, words)
                ints[frame + ROW] = ~row
                floats[frame + TOTAL] = total
                floats[frame + WEIGHT] = weight
                floats[frame + BRACKET] = bracket
                floats[frame + FACTOR] = (
                    factor if floats[d_at + leaf] > 0.0 else -factor
                )
                a = ints[frame + actions_at + leaf] if varies else leaf
                row = continuation[row]
                phase = DESCEND
            else:
                head += bracket / chance
                v = total + weight * head
                phase = RETURN if kind == RANDOM_PLUGIN else ACT
        if phase == RETURN:
            frame -= stride
            if frame == bottom:
                distance = (
                    v - center
                    if action < 0
                    else floats[frame + REWARD] + (discount * v - center)
                )
                grand_total += distance
                grand_square += distance * distance
                add_score(
                    plan.score, plan.score_half, plan.score_scale, distance, score
                )
                phase = ROOT
            else:
                if COMPILED and flag_at(stop) != 0:
                    return STOPPED, calls, grand_total, grand_square
                row = ints[frame + ROW]
                if row < 0:
                    row = ~row
                    if (
                        is_watched
                        and mark_of(ints, frame + state_at, words)
                        != ints[frame + MARK]
                    ):
                        return WRITTEN, calls, grand_total, grand_square
                    bracket = floats[frame + BRACKET] + floats[frame + FACTOR] * (
                        floats[frame + REWARD] + (discount * v - constants[row])
                    )
                    head = floats[frame + HEAD] + bracket / floats[frame + CHANCE]
                    norm, slot = floats[frame + NORM], ints[frame + CHOSEN]
                    total, weight = floats[frame + TOTAL], floats[frame + WEIGHT]
                    state = load_state(ints, frame + state_at)
                    phase = ACT
                else:
                    floats[frame + SUM] = floats[frame + SUM] + (
                        floats[frame + REWARD]
                        + (discount * v - floats[frame + CENTER])
                    )
                    phase = DRAW
        if phase == ROOT:
            if COMPILED:
                frame = hidden(frame)
            if (
                is_watched
                and mark_of(ints, frame + state_at, words) != ints[frame + MARK]
            ):
                return WRITTEN, calls, grand_total, grand_square
            samples_left = ints[frame + LEFT]
            if samples_left == 0:
                return DONE, calls, grand_total, grand_square
            ints[frame + LEFT] = samples_left - 1
            if flag_at(stop) != 0:
                # as in the middle of a sample: LEFT leaves out the next one
                return STOPPED, calls, grand_total, grand_square
            state = load_state(ints, frame + state_at)
            row = root_row
            a = action
            if a < 0:  # the root samples X at its own state
                total = 0.0
                weight = 1.0
                frame += stride
                begin = ENTER
                continue
        elif phase == DRAW:
            if (
                is_watched
                and mark_of(ints, frame + state_at, words) != ints[frame + MARK]
            ):
                return WRITTEN, calls, grand_total, grand_square
            samples_left = ints[frame + LEFT]
            if samples_left == 0:
                samples_left = ints[frame + NUMBER]
                mean_slot = ints[frame + SLOT]
                mean = floats[frame + CENTER] + floats[frame + SUM] / samples_left
                if clips:
                    mean = clip_mean(mean, clip_low, clip_high)
                floats[frame + means_at + mean_slot] = mean
                mean_slot += 1
                if mean_slot == ints[frame + GOAL]:
                    begin = COMPLETE
                    continue
                ints[frame + SLOT] = mean_slot
                floats[frame + SUM] = 0.0
                if mean_slot >= ints[frame + SIZE]:
                    mean_slot -= ints[frame + SIZE]
                ints[frame + ACTION] = (
                    ints[frame + actions_at + mean_slot] if varies else mean_slot
                )
            ints[frame + LEFT] = samples_left - 1
            state = load_state(ints, frame + state_at)
            row = ints[frame + CHILD]
            a = ints[frame + ACTION]
        elif phase == ACT:  # the sampled slot, head and norm are set
            a = ints[frame + actions_at + slot] if varies else slot
            reward, next_state, is_over = STEP(data, state, a, rng)
            calls += 1
            if not (low <= reward <= high):
                return BAD_REWARD, calls, grand_total, grand_square
            if is_over and not ends:
                return UNDECLARED_END, calls, grand_total, grand_square
            total += weight * (head + norm * reward)
            if ends and (is_over or TERMINAL(data, next_state)):
                begin = END
            else:
                weight *= discount * norm
                row = continuation[row]
                state = keep_state(ints, frame + state_at, next_state)
                begin = ENTER
            continue
        # ROOT, DRAW and DESCEND: a child is sampled at the next state, one frame higher.
        reward, next_state, is_over = STEP(data, state, a, rng)
        calls += 1
        if not (low <= reward <= high):
            return BAD_REWARD, calls, grand_total, grand_square
        if is_over and not ends:
            return UNDECLARED_END, calls, grand_total, grand_square
        floats[frame + REWARD] = reward
        frame += stride
        state = keep_state(ints, frame + state_at, next_state)
        total = 0.0
        weight = 1.0
        begin = END if ends and (is_over or TERMINAL(data, next_state)) else ENTER
