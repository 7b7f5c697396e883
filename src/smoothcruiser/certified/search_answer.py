"""The result of a query of certified search: an estimate and its certificate.

The values are those of the counted model (``counted``), brought into the
intervals, and the policy is the one at these action values. Where a query has
reached its epsilon they are brought within epsilon of both ends, unless that moves the
value by more than ``NOISE`` usual errors: the value is the best estimate, and the
interval the promise. So it is with the mean of paths beside the search (``PathHelper``).

Loss of the policy: pi = grad F(q), q the action values that are returned. Its one-step
regularized loss at the true Q is the Bregman remainder D(Q, q) = F(Q) - F(q) -
<pi, Q - q>, a convex function of Q, so its largest value over the box is at a
corner: with up to ``CORNERS`` actions all corners are tried, beyond that D <=
min(curv s**2 / 8, s) bounds it, with s the largest span of Q - q over the box:
(Q - q)(a) - (Q - q)(b) is at most the way from q(a) up plus that from q(b) down.

Bounds that cross (L > U) have probability at most delta if the certificate's
assumptions are true. The query then raises an error that says so. Far more
often the cause is a key that leaves out something on which the state's future
depends.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from smoothcruiser.certified.query_limits import FULL, QueryLimits
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.search_state import SearchState
from smoothcruiser.certified.sweeps.counted_model import UNKNOWN, Guess
from smoothcruiser.estimate import (
    ADVICE,
    Certificate,
    Estimate,
    Interval,
    Spread,
    best_action,
    bring_inside,
    error_if_near,
    estimate_subject,
    not_excluded,
    note_agreement,
)
from smoothcruiser.operators import Operator
from smoothcruiser.operators.outward import sum_in_order
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Compute
from smoothcruiser.schedule.number_text import count_noun

# columns of a memory's states as a table (``state_table``)
STATE_COLUMNS = (
    *("state", "remaining", "player", "value", "low", "high"),
    *("action", "label", "policy", "samples"),
)
NOISE = 2.0  # usual errors that an estimate may be moved by
CORNERS = 10  # actions: 1,024 corners take a few milliseconds
NO_WORKERS = (
    "Executor and workers were not used: nothing is sampled, and outcomes= is read in "
    "this process."
)
NO_SAMPLE = (
    "This state was not sampled: its action values are only the middle of what is "
    "possible, no estimate."
)


def answer(
    search: SearchState,
    root: int,
    state: Any,
    *,
    limits: QueryLimits,
    half_width: float,
    reason: str,
    num_calls: int,
    num_rows: int,
    **spent: Any,
) -> Estimate:
    """The Estimate of a query that ended for ``reason`` with this ``half_width``.

    It took ``num_calls`` of the step and of ``outcomes``, of which ``num_rows`` were
    rows; ``spent`` is its ``seconds`` and ``compile_seconds``.
    """
    problem, memory = search.problem, search.memory
    is_exact = search.shares.exact
    num_sampled = int((memory.graph.pairs["total"][: memory.num_pairs] > 0).sum())
    unread_calls = memory.num_calls - memory.num_rows
    guess = guess_at(search, root, with_error=True)
    if search.helper is not None:
        guess = search.helper.improve(guess)
    if reason == "epsilon":
        guess = guess._replace(
            within=likely_within(guess, limits, memory.interval(root))
        )
    seen_text = (
        f"{count_noun(memory.num_nodes - 1, 'state')}, {count_noun(num_sampled, 'pair')} and "
        f"{count_noun(memory.num_entries, 'outcome')}"
    )
    calls_text = count_noun(unread_calls, "call")
    if search.known:
        rest_text = f" and {calls_text} where there is none" if unread_calls else ""
        calls_text = (
            f"{count_noun(memory.num_rows, 'row')} of outcomes= read{rest_text}"
        )
    unused_workers = search.known and is_exact and search.compute != Compute()
    notes = (
        *search.notes,
        *((NO_WORKERS,) if unused_workers else ()),
        *_notes(limits, half_width, reason, num_calls),
        *((NO_SAMPLE,) if not guess.q_values else ()),
        *_agreement(search, guess, memory.interval(root)),
        f"{seen_text} seen; {calls_text} in this memory so far.",
        *_no_chance(search, num_sampled),
        *_endless(search, reason, num_sampled),
    )
    return describe(
        problem,
        memory,
        root,
        state,
        guess=guess,
        confidence=1.0 if is_exact else 1.0 - search.delta,
        bound="interval iteration" if is_exact else search.bound.word,
        assumptions=search.assumed,
        epsilon=limits.epsilon
        if reason == "epsilon" and limits.epsilon is not None
        else half_width,
        delta=0.0 if is_exact else search.delta,
        num_calls=num_calls - num_rows,
        **spent,
        seed=search.seed,
        notes=notes,
    )


def guess_at(search: SearchState, root: int, *, with_error: bool = False) -> Guess:
    """The counted model's estimate of the first node of the search's region."""
    if search.loop is None:
        return UNKNOWN
    counted = search.region.counted
    counted.settle(search.memory.num_calls)
    return counted.at(root, with_error=with_error)


def promised_within(
    limits: QueryLimits, interval: Interval
) -> tuple[float | None, float | None]:
    """How far the values of a query that is answered may be from either end."""
    promised_width = limits.promised_width(interval)
    return promised_width, promised_width if limits.target == "q_values" else None


def likely_within(
    guess: Guess, limits: QueryLimits, interval: Interval
) -> tuple[float | None, float | None]:
    """``promised_within`` where that does not contradict the estimate, else nothing."""
    within = promised_within(limits, interval)
    value = guess.value if guess.mean is None else guess.mean
    if value is None or guess.standard_error is None:
        return within
    distance = abs(
        bring_inside(value, interval, within[0]) - bring_inside(value, interval)
    )
    return within if distance <= NOISE * guess.standard_error else (None, None)


def describe(
    problem: Problem,
    memory: Memory,
    root: int,
    state: Any,
    *,
    guess: Guess,
    confidence: float,
    bound: str,
    assumptions: tuple[str, ...],
    **fields: Any,
) -> Estimate:
    """Return the Estimate at node ``root``: the ``guess``, brought into the box.

    Where it says ``within``, the value and the action values are at most so far from
    either end. Beside them it has the policy, its loss and the actions that may be best.
    """
    node, interval = memory.graph.nodes[root], memory.interval(root)
    pairs = memory.pairs_of(root)
    player, actions = 1 if node["sign"] > 0 else 2, pairs["action"].tolist()
    priors = problem.operator.weights(problem.num_actions)
    spread, value = spread_guess(problem, pairs, player, guess)
    certificate = Certificate(
        kind="search",
        interval=interval,
        q_intervals=spread.q_intervals,
        confidence=confidence,
        bound=bound,
        assumptions=assumptions,
        policy_loss=policy_loss(
            problem.operator,
            [spread.q_intervals[action] for action in actions],
            [spread.q_values[action] for action in actions],
            player,
            [float(priors[action]) for action in actions],
        ),
        best_actions=not_excluded(spread.q_intervals, player),
    )
    if not guess.q_values:
        middle = 0.5 * (interval[0] + interval[1])
        value = middle if guess.value is None else guess.value
    if guess.mean is not None:
        value = guess.mean
    estimated = guess.value if guess.mean is None else guess.mean
    value = bring_inside(value, interval, guess.within[0])
    return Estimate(
        value=value,
        interval=interval,
        q_values=spread.q_values,
        policy=spread.policy,
        action=best_action(spread.policy, spread.q_values, player),
        method="certified",
        certificate=certificate,
        standard_error=error_if_near(guess.standard_error, estimated, value),
        **estimate_subject(problem, state),
        **fields,
    )


def spread_guess(
    problem: Problem, pairs: Any, player: int, guess: Guess
) -> tuple[Spread, float]:
    """A guess of a node brought into the boxes of its pairs, and F of it.

    Where none of them was sampled it is the middle of the boxes.
    """
    operator, actions = problem.operator, pairs["action"].tolist()
    priors = operator.weights(problem.num_actions)
    weights = [float(priors[action]) for action in actions]
    boxes = list(
        zip(pairs["q_lower"].tolist(), pairs["q_upper"].tolist(), strict=True)
    )
    q_values = [0.5 * (q_low + q_high) for q_low, q_high in boxes]
    if guess.q_values:
        q_values = [
            bring_inside(q_value, q_box, guess.within[1])
            for q_value, q_box in zip(guess.q_values, boxes, strict=True)
        ]
    policy = operator.gradient(q_values, player=player, weights=weights)
    value = operator.value(q_values, player=player, weights=weights)
    spread = Spread.over(problem.num_actions, actions, q_values, boxes, policy)
    return spread, value


def policy_loss(
    operator: Operator,
    boxes: list[Interval],
    q_values: list[float],
    player: int,
    weights: list[float],
) -> float | None:
    """Return the largest one-step regularized loss of the policy over the box.

    The policy is that of ``q_values``, a point of the box. None where gradients are no
    policies.
    """
    if not operator.shift_invariant:
        return None
    if len(boxes) == 1:
        return 0.0
    span_bound, span = 0.0, _largest_span(boxes, q_values)
    if span > 0.0:
        span_bound = min(operator.curvature(len(boxes)) * span * span / 8.0, span)
    # all corners suffice only for a convex F, which a user's need not be
    if len(boxes) > CORNERS or not operator.convex:
        return span_bound
    sign = 1.0 if player == 1 else -1.0
    guess_value = operator.value(q_values, player=player, weights=weights)
    policy = operator.gradient(q_values, player=player, weights=weights)
    largest_loss = 0.0
    for corner in product(*boxes):
        linear_part = sum_in_order(
            action_share * (box_end - q_value)
            for action_share, box_end, q_value in zip(
                policy, corner, q_values, strict=True
            )
        )
        corner_value = operator.value(list(corner), player=player, weights=weights)
        corner_loss = sign * (corner_value - guess_value - linear_part)
        largest_loss = max(largest_loss, corner_loss)
    scale = max(abs(box_end) for box in boxes for box_end in box) + operator.strength
    # 64 k units allow for the rounding of three sums of that size
    return min(span_bound, largest_loss + 64.0 * len(boxes) * 2.0**-52 * scale)


def _largest_span(boxes: list[Interval], q_values: list[float]) -> float:
    """The largest of (Q - q)(a) - (Q - q)(b) over a != b and Q in the box."""
    box_and_value = list(zip(boxes, q_values, strict=True))
    ups = [high - q for (_, high), q in box_and_value]
    downs = [q - low for (low, _), q in box_and_value]
    # the two largest of either suffice: at most one pair of them is of one action
    largest_ups = sorted(range(len(ups)), key=lambda a: -ups[a])[:2]
    largest_downs = sorted(range(len(downs)), key=lambda a: -downs[a])[:2]
    return max(ups[a] + downs[b] for a in largest_ups for b in largest_downs if a != b)


def _agreement(
    search: SearchState, guess: Guess, interval: Interval
) -> tuple[str, ...]:
    """A note on the standard error where no samples of a pair differ.

    Values that epsilon has moved rest on the interval, and need no such note.
    """
    is_moved = guess.within[0] is not None
    if search.shares.exact or is_moved or guess.standard_error is None:
        return ()
    by_chance = guess.standard_error - guess.unsolved
    return note_agreement("samples", by_chance, 0.5 * (interval[1] - interval[0]))


def _no_chance(search: SearchState, num_sampled: int) -> tuple[str, ...]:
    """Advice where every pair that was sampled has had one outcome."""
    is_single = search.memory.num_entries == num_sampled and not search.known
    if (
        search.shares.exact
        or not is_single
        or search.memory.num_calls < 2 * max(num_sampled, 1)
    ):
        return ()
    return (
        f"{ADVICE}no chance was seen in {count_noun(num_sampled, 'pair')}. "
        "If there is none, "
        f"deterministic=True learns as much from {count_noun(num_sampled, 'call')}, not "
        f"{search.memory.num_calls:,}.",
    )


def _endless(search: SearchState, reason: str, num_sampled: int) -> tuple[str, ...]:
    """A note on why bounds of totals without a discount stayed apart."""
    problem = search.problem
    if reason == "epsilon" or not is_undiscounted(problem):
        return ()
    low, high = problem.reward_range
    side_word = "upper" if low >= 0.0 else "lower"
    if search.shares.exact or problem.episodes_end is not None:
        return ()
    if problem.min_probability is None:
        return (
            f"At discount 1 the {side_word} bound cannot come closer, whatever is sampled, "
            "where play can go round for ever between the same states: a way out may "
            "be too rare to be seen. min_probability=, the least probability of any "
            "outcome, closes it.",
        )
    if low < 0.0 < high:
        return ()
    pairs = search.memory.graph.pairs[: search.memory.num_pairs]
    if "law_complete" not in (pairs.dtype.names or ()):
        return ()
    num_complete = int((pairs["law_complete"] == 1).sum())
    return (
        f"All outcomes are known to be seen in {num_complete:,} of "
        f"{count_noun(num_sampled, 'pair')} "
        f"so far; the {side_word} bound comes down behind them.",
    )


def _notes(
    limits: QueryLimits, half_width: float, reason: str, num_calls: int
) -> tuple[str, ...]:
    if reason == "epsilon":
        return ()
    if reason == "hand":
        return (
            f"Stopped by hand after {count_noun(num_calls, 'call')}, "
            f"at half-width {half_width:.4g}; "
            "the intervals hold as they are.",
        )
    stop_text = {
        "budget": f"the budget of {count_noun(num_calls, 'call')} was spent",
        "seconds": "the time was up",
        "callback": "the callback said stop",
        "rounding": (
            "double precision holds no less where values are of this size "
            "(move rewards towards 0), so it ended"
        ),
        "exhausted": (
            "all that can be seen was seen and what is left is rounding, so it ended"
        ),
        **FULL,
    }[reason]
    promise_text = (
        f"epsilon={limits.epsilon:g}" if limits.epsilon is not None else None
    )
    if limits.relative is not None:
        promise_text = f"epsilon={100.0 * limits.relative:g}% of the value"
    if promise_text is None:
        return (f"Stopped because {stop_text}; the intervals hold as they are.",)
    return (
        f"{promise_text} was not reached: {stop_text} at half-width {half_width:.4g}. "
        "The intervals hold as they are.",
    )
