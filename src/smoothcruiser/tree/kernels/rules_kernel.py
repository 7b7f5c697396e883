"""How a node descends by a prior over its actions: PUCT, and Gumbel MuZero's rules.

As in ``tree.selection`` everything is seen from the mover's point of view, over the
legal actions, in scalar arithmetic of a fixed order: one definition for the plain and
for the compiled tree.

  PUCT (Silver et al. 2018)
    argmax x + c(N) p sqrt(N) / (1 + n),  c(N) = c_0 + log((1 + N + base) / base)
    N = 1 + sum n, the visits of the node with its own evaluation. c_0 is
    ``exploration``; NaN: 1.25, and x is scaled to [0, 1] over the node's actions.
  Gumbel MuZero (Danihelka et al. 2022)
    completed values   q(a) = x where tried, else
                       v_mix = (v + (sum n) sum_tried p x / sum_tried p) / (1 + sum n)
    transform          s(q) = (visit_offset + max n) value_scale q, q scaled to [0, 1]
    improved policy    pi' = softmax(log p + s(q))                       (their eq. 4)
    below the root     argmax pi' - n / (1 + sum n)                      (their eq. 14)
    at the root        argmax g + log p + s(q) among the actions with as many visits as
                       sequential halving considers next; g are Gumbel(0) numbers that
                       were drawn once

legend  x, n: signed values and visits; p, here ``w``: the prior; v, here
        ``first_value``: the evaluator's signed value of the node; g: ``gumbels``, by
        action

Not in this file: the sources of priors (``tree.evaluators``).

How a compiled node learns the bounds that are known of its state (``tree.pruning``).

Actions that the bounds exclude are marked as illegal ones are, so that nothing else in
the machine knows of them. The bounds of the others become the node's boxes
(``proof_kernel.clip``). The rows are sorted by time and state: one binary search per new
node.

UCT's choice read straight from a node's row, for compiled trees without extras.

It is ``kernel.gather`` followed by ``selection.upper_pick``, with the same numbers in the
same order and hence the same bits. Nothing is copied on the way: the copies took a fifth of
UCT's time on tic-tac-toe. Not in this file: every other descent.

Bounds that hold: the box of every action in a tree without chance.

Where every pair (state, action) has one outcome and the operator is Max, the end of a
line of play is a fact, and facts go up (score bounded tree search, Cazenave and
Saffidine 2010; with wins and losses alone it is MCTS-Solver, Winands et al. 2008):

    box(s, a) = r + gamma box(z),  {r} where the play ends with the move
    box(s)    = [max_a low(s, a), max_a high(s, a)]      min where min moves

An action that was not tried has the box that the declared rewards allow
(``Facts.q_bounds``). A box is *closed* where its ends are equal: the value is proven.
The descent leaves out actions with a closed box, and those that cannot be better
than another one is for sure: low(s, b) >= high(s, a), from the mover's point of view.
A node with an open box keeps at least one action: the one with the best high end has
low <= max low < high.

legend   symbol, name here
  box(s, a)   ``boxes[node, a]``, ``boxes[node, K + a]``: the ends, for max
  r           ``boxes[node, 2 K + a]``: the reward of the move, to notice another one

The file is plain Python in two forms (``tree.kernels.kernel``). Not in this file:
sentences about a box (``tree.proofs``).
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.tree.search_numbers import TreeRule
from smoothcruiser.tree.selection import SMALLEST_SCALE

USUAL_EXPLORATION = 1.25  # c_0 of AlphaZero and MuZero, for values in [0, 1]
LEAST_SPREAD = 1e-8  # values closer than this count as equal when they are scaled
LEAST_LOGIT = -700.0  # of an action with prior 0: exp of it is still above 0


def considered_visits(considered: int, simulations: int) -> list[int]:
    """The visits that the chosen root action has had, for each simulation in turn.

    It is sequential halving over ``considered`` actions in ``simulations`` steps,
    written by visits: a phase gives each action that is left as many visits as its
    share of the simulations, at least one; then the better half goes on, two at the
    least.
    """
    if considered <= 1:
        return list(range(simulations))
    num_phases = math.ceil(math.log2(considered))
    visits_given, actions_left = 0, considered
    plan: list[int] = []
    while len(plan) < simulations:
        for _ in range(max(1, simulations // (num_phases * actions_left))):
            plan += [visits_given] * actions_left
            visits_given += 1
        actions_left = max(2, actions_left // 2)
    return plan[:simulations]


def shares_of(prior: Any, acts: Any, size: int, out: Any) -> bool:
    """Write the shares of the legal actions' weights; False where they are unusable.

    Weights of illegal actions are ignored. The legal ones have to be finite, at least 0
    and not all 0.
    """
    total_weight = 0.0
    for j in range(size):
        weight = prior[acts[j]]
        if not 0.0 <= weight < math.inf:
            return False
        total_weight += weight
    if not 0.0 < total_weight < math.inf:
        return False
    for j in range(size):
        out[j] = prior[acts[j]] / total_weight
    return True


def best_untried(x: Any, n: Any, size: int) -> int:
    """The untried slot with the largest value, -1 where all were tried."""
    best_slot = -1
    for j in range(size):
        if n[j] == 0 and (best_slot < 0 or x[j] > x[best_slot]):
            best_slot = j
    return best_slot


def prior_pick(rule: TreeRule, x: Any, n: Any, w: Any, size: int) -> int:
    """The slot that PUCT selects; the first of equals wins."""
    total_visits = 1
    lowest_value, highest_value = math.inf, -math.inf
    for j in range(size):
        total_visits += n[j]
        lowest_value, highest_value = min(lowest_value, x[j]), max(highest_value, x[j])
    is_scaled = math.isnan(rule.exploration)
    c = USUAL_EXPLORATION if is_scaled else rule.exploration
    c += math.log((total_visits + rule.base) / rule.base)
    bonus_scale = c * math.sqrt(float(total_visits))
    best_slot = 0
    best_score = -math.inf
    for j in range(size):
        value = x[j]
        if is_scaled:
            value = (
                (value - lowest_value) / (highest_value - lowest_value)
                if highest_value - lowest_value > LEAST_SPREAD
                else 0.0
            )
        score = value + bonus_scale * w[j] / (1 + n[j])
        if score > best_score:
            best_score = score
            best_slot = j
    return best_slot


def logit(share: float) -> float:
    """The logarithm of a share of the prior."""
    return max(math.log(share), LEAST_LOGIT) if share > 0.0 else LEAST_LOGIT


def transform_values(
    rule: TreeRule, x: Any, n: Any, w: Any, first_value: float, size: int, y: Any
) -> None:
    """Write s(q) of the completed values to ``y``."""
    total_visits, most_visits = 0, 0
    tried_mass, tried_sum = 0.0, 0.0
    for j in range(size):
        total_visits += n[j]
        most_visits = max(most_visits, n[j])
        if n[j] > 0:
            tried_mass += w[j]
            tried_sum += w[j] * x[j]
    mixed_value = first_value
    if tried_mass > 0.0:
        mixed_value = (first_value + total_visits * (tried_sum / tried_mass)) / (
            1 + total_visits
        )
    lowest_value, highest_value = math.inf, -math.inf
    for j in range(size):
        y[j] = x[j] if n[j] > 0 else mixed_value
        lowest_value, highest_value = min(lowest_value, y[j]), max(highest_value, y[j])
    value_spread = max(highest_value - lowest_value, LEAST_SPREAD)
    visit_scale = (rule.visit_offset + most_visits) * rule.value_scale
    for j in range(size):
        y[j] = visit_scale * ((y[j] - lowest_value) / value_spread)


def improved_policy(
    rule: TreeRule,
    x: Any,
    n: Any,
    w: Any,
    first_value: float,
    size: int,
    y: Any,
    p: Any,
) -> None:
    """Write pi' = softmax(log p + s(q)) to ``p``; ``y`` is workspace."""
    transform_values(rule, x, n, w, first_value, size, y)
    largest_logit = -math.inf
    for j in range(size):
        y[j] += logit(w[j])
        largest_logit = max(largest_logit, y[j])
    exp_sum = 0.0
    for j in range(size):
        p[j] = math.exp(y[j] - largest_logit)
        exp_sum += p[j]
    for j in range(size):
        p[j] /= exp_sum


def improved_pick(
    rule: TreeRule,
    x: Any,
    n: Any,
    w: Any,
    first_value: float,
    size: int,
    y: Any,
    p: Any,
) -> int:
    """The slot with its visits furthest behind the improved policy."""
    improved_policy(rule, x, n, w, first_value, size, y, p)
    total_visits = 1
    for j in range(size):
        total_visits += n[j]
    best_slot = 0
    best_score = -math.inf
    for j in range(size):
        score = p[j] - n[j] / total_visits
        if score > best_score:
            best_score = score
            best_slot = j
    return best_slot


def halving_pick(
    rule: TreeRule, x: Any, n: Any, w: Any, first_value: float, acts: Any, size: int,
    root: Any, y: Any,
) -> int:  # fmt: skip
    """The root's slot by sequential halving, -1 where its plan is over."""
    visits_made = 0
    for j in range(size):
        visits_made += n[j] - root.since[acts[j]]
    if visits_made >= len(root.plan):
        return -1
    transform_values(rule, x, n, w, first_value, size, y)
    return halving_best(n, w, acts, size, root, root.plan[visits_made], y)


def halving_best(
    n: Any, w: Any, acts: Any, size: int, root: Any, visits: int, y: Any
) -> int:
    """The slot with the largest g + log p + s(q) among those with ``visits``, or -1.

    Visits are counted from when the node became the root.
    """
    best_slot = -1
    best_score = -math.inf
    for j in range(size):
        if n[j] - root.since[acts[j]] == visits:
            score = root.gumbels[acts[j]] + logit(w[j]) + y[j]
            if score > best_score:
                best_score = score
                best_slot = j
    return best_slot


ANY_TIME = -1  # in the first column, where no steps are counted
TIME, STATE, FLAGS = range(3)  # columns of a row: moves made, state, then K flags


def known_row(known: Any, num_moves: int, state: int) -> int:
    """The row of a state after ``num_moves`` moves, -1 where nothing is known of it."""
    if len(known) == 0:
        return -1
    if known[0, TIME] == ANY_TIME:
        num_moves = ANY_TIME
    low_row, high_row = 0, len(known) - 1
    while low_row < high_row:
        middle_row = (low_row + high_row) // 2
        is_before = known[middle_row, TIME] < num_moves or (
            known[middle_row, TIME] == num_moves and known[middle_row, STATE] < state
        )
        if is_before:
            low_row = middle_row + 1
        else:
            high_row = middle_row
    return (
        low_row
        if known[low_row, TIME] == num_moves and known[low_row, STATE] == state
        else -1
    )


def bound_node(
    known: Any, ends: Any, num_moves: int, state: int, ints: Any, edge: int, boxes: Any,
    node: int,
) -> None:  # fmt: skip
    """Give a new node its boxes, and mark its excluded actions.

    ``edge`` is the first of its K columns of edge visits. ``ends`` are K lower ends and K
    upper ends.
    """
    row = known_row(known, num_moves, state)
    K = known.shape[1] - FLAGS
    for a in range(K):
        boxes[node, a] = -math.inf if row < 0 else ends[row, a]
        boxes[node, K + a] = math.inf if row < 0 else ends[row, K + a]
        if row >= 0 and known[row, FLAGS + a] == 1:
            ints[node, edge + a] = -1


def upper_action(
    rule: TreeRule, ints: Any, edge: int, floats: Any, total: int, node: int, K: int,
    sign: float, visits: int, rng: Any,
) -> int:  # fmt: skip
    """The action that UCT selects: a random untried one, or the best upper bound.

    ``edge`` and ``total`` are the first columns of edge visits and of totals.
    """
    num_untried = 0
    for a in range(K):
        if ints[node, edge + a] == 0:
            num_untried += 1
    if num_untried > 0:
        untried_left = rng.integers(num_untried)
        for a in range(K):
            if ints[node, edge + a] == 0:
                if untried_left == 0:
                    return a
                untried_left -= 1
    c = rule.exploration
    if math.isnan(c):
        c = SMALLEST_SCALE
        for a in range(K):
            edge_visits = ints[node, edge + a]
            if edge_visits > 0:
                mean_size = abs(floats[node, total + a] / edge_visits)
                c = mean_size if mean_size > c else c
    log_visits = math.log(float(visits)) if visits > 1 else 0.0
    best_action = 0
    best_score = -math.inf
    for a in range(K):
        edge_visits = ints[node, edge + a]
        if edge_visits > 0:
            x = sign * (floats[node, total + a] / edge_visits)
            score = x + c * math.sqrt(log_visits / edge_visits)
            if score > best_score:
                best_score = score
                best_action = a
    return best_action


# how ``prove`` ended
SAME_BOXES, NEW_BOXES, ROUNDED, BROKEN = range(4)


def open_boxes(boxes: Any, node: int, K: int, low: float, high: float) -> None:
    """Give every action of a new node the box that the rewards allow."""
    for a in range(K):
        boxes[node, a] = low
        boxes[node, K + a] = high
        boxes[node, 2 * K + a] = 0.0


def keep_undecided(
    boxes: Any, node: int, sign: float, K: int, acts: Any, n: Any, x: Any, h: Any, size: int
) -> int:  # fmt: skip
    """The number of actions that are worth a descent; they are moved to the front.

    Their signed values ``x`` are put into their boxes.
    """
    sure_value = -math.inf  # of the mover's best action
    for j in range(size):
        a = acts[j]
        low = boxes[node, a] if sign > 0.0 else -boxes[node, K + a]
        if low > sure_value:
            sure_value = low
    num_kept = 0
    for j in range(size):
        a = acts[j]
        low = boxes[node, a] if sign > 0.0 else -boxes[node, K + a]
        high = boxes[node, K + a] if sign > 0.0 else -boxes[node, a]
        if high > low and high > sure_value:
            value = x[j]
            if value < low:
                value = low
            if value > high:
                value = high
            acts[num_kept], n[num_kept], x[num_kept], h[num_kept] = (
                a,
                n[j],
                value,
                h[j],
            )
            num_kept += 1
    return num_kept if num_kept > 0 else size


def clip(
    boxes: Any, node: int, sign: float, K: int, acts: Any, x: Any, size: int
) -> None:
    """Put the signed values of all actions into their boxes."""
    for j in range(size):
        x[j] = sign * clip_to_box(boxes, node, acts[j], K, sign * x[j])


def clip_to_box(boxes: Any, node: int, action: int, K: int, value: float) -> float:
    """The nearest value that the box of an action holds."""
    if value < boxes[node, action]:
        return boxes[node, action]  # type: ignore[no-any-return]
    if value > boxes[node, K + action]:
        return boxes[node, K + action]  # type: ignore[no-any-return]
    return value


def box_of(ints: Any, edge: int, boxes: Any, node: int, sign: float, K: int) -> Any:
    """The two ends of a node's box; ``edge`` is the first column of edge visits."""
    box_low, box_high = -sign * math.inf, -sign * math.inf
    for a in range(K):
        if ints[node, edge + a] >= 0:
            if sign * boxes[node, a] > sign * box_low:
                box_low = boxes[node, a]
            if sign * boxes[node, K + a] > sign * box_high:
                box_high = boxes[node, K + a]
    return box_low, box_high


def is_exact(a: float, b: float, total: float) -> bool:
    """Whether ``total``, the rounded sum of two numbers, is their sum."""
    return total - a == b and total - b == a


def prove(
    ints: Any, edge: int, floats: Any, column: int, boxes: Any, path: Any, rewards: Any,
    depth: int, discount: float, slack: float, K: int,
) -> int:  # fmt: skip
    """Carry the end of a play of ``depth`` moves up, and return the outcome.

    ``column`` is that of a node's sign. ROUNDED says that a number was rounded, BROKEN
    that the declared rewards exclude the value of the play.
    """
    box_low, box_high = 0.0, 0.0
    outcome = SAME_BOXES
    for i in range(depth - 1, -1, -1):
        node, action, reward = path[i, 0], path[i, 1], rewards[i]
        low_end, high_end = reward + discount * box_low, reward + discount * box_high
        is_scaled = discount != 1.0 and (box_low != 0.0 or box_high != 0.0)
        if is_scaled or not (
            is_exact(reward, box_low, low_end) and is_exact(reward, box_high, high_end)
        ):
            outcome = ROUNDED
        elif outcome == SAME_BOXES:
            outcome = NEW_BOXES
        if (
            low_end > boxes[node, K + action] + slack
            or high_end < boxes[node, action] - slack
        ):
            return BROKEN
        if low_end <= boxes[node, action] and high_end >= boxes[node, K + action]:
            return outcome
        if low_end > boxes[node, action]:
            boxes[node, action] = low_end
        if high_end < boxes[node, K + action]:
            boxes[node, K + action] = high_end
        if boxes[node, action] > boxes[node, K + action]:  # by rounding alone
            boxes[node, action], boxes[node, K + action] = low_end, high_end
        box_low, box_high = box_of(ints, edge, boxes, node, floats[node, column], K)
    return outcome
