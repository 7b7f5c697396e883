"""One law for all functions: a bound from the counts of a pair alone.

The problem: a pair (s, a) with law P showed outcomes i = 1..K, c_i times each,
n times in all. Wanted is an upper bound on P f = E f for every function f <= M
of the outcomes and every n at once: the f of interest, r + gamma V, is unknown,
and a horizon has one for each number of steps left.

Before each sample name a law q on "outcome i again" and "an unseen outcome".
The product of q(event)/P(event) is a nonnegative supermartingale from 1, so
with probability 1 - alpha it stays below 1/alpha (Ville). The q here are
exchangeable: their product Q_n depends on the counts alone. With P(unseen) <=
1,

    sum of (c_i - 1) log P_i >= log Q_n - log(1/alpha)         for all n   (event E)

On E, for every f and every nu >= sup f, by Jensen (mirrored below):

    P f <= nu - exp(sum of p_i log(nu - f_i) - beta/n'),            n' = n - K,
    p_i = (c_i - 1)/n',  beta = log(1/alpha) + sum of (c_i - 1) log p_i - log Q_n.

With a declared least probability p of every outcome, E also tells when the
support is complete: the unseen mass is at most 1 - exp(-beta/n'), and an
outcome that was never seen has at least p.

legend   symbol        public name
  exp(-beta/n')        ``law_share``, rounded down
  nu - base            ``nu_up``, ``nu_down``: base is M, or the largest f of a
                       complete support
  p                    ``BoundRules.min_probability``; 0 where none is declared

``counts`` decides Q_n; this file the search for nu, and when the bets are made
of ``betting``, which do better where a pair has many outcomes. The proofs are
in docs/certified.md, section 2b.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.certified.bounds import betting
from smoothcruiser.certified.bounds.base import (
    EVERY,
    KEEP,
    SCAN,
    UNIT,
    Bound,
    BoundRules,
    Outcomes,
    pair_cost,
    sample_mean,
)
from smoothcruiser.certified.bounds.betting import LONGEST_LOG, SLOWEST, pole_guard
from smoothcruiser.certified.bounds.betting import side as betting_side
from smoothcruiser.certified.bounds.counts import (
    BETS_COST,
    CERTAIN,
    MOST_LABELS,
    refresh,
)
from smoothcruiser.certified.sweeps.memory_kernel import MANY_OUTCOMES
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.model.tabular import Floats

# Where each is worth its time (measured: docs/certified.md, 2b). The law's price grows
# with the outcomes, that of bets with the functions. Below a union of 4 = log 55 bets
# are better from K = 2 on, above it from K = 3 on; K = 1 is always the law's. Beyond
# 8 outcomes the law never was. It must not be used from ``MANY_OUTCOMES`` entries on:
# then a rounded reward may already have been counted as one of them.
MANY_FUNCTIONS = 4.0
LAW_OUTCOMES = min(MOST_LABELS, MANY_OUTCOMES - 1)
# Newton's steps in log(nu - base): no step is longer than a factor exp(2); within 3%
# of the best nu the radius is within 0.05% of the best.
LONGEST_STEP, NEAR_STEP = 2.0, 0.03
WALK_STEPS, SCAN_STEPS = 3, 16


# --- compiled -----------------------------------------------------------------


def outcome_value(
    g: Outcomes, e: int, node: int, upper: bool, rules: BoundRules
) -> float:
    """r + gamma U(z), or r + gamma L(z), of entry ``e``, within [m, M] on its side."""
    next_node = g.entries.target[e]
    if upper:
        value = g.entries.reward[e] + rules.discount * g.nodes["upper"][next_node]
        return float(min(value, g.nodes["q_high"][node]))
    value = g.entries.reward[e] + rules.discount * g.nodes["lower"][next_node]
    return float(max(value, g.nodes["q_low"][node]))


def edge(g: Outcomes, pair: int, upper: bool, rules: BoundRules) -> float:
    """No outcome that can come has f above (below, for the lower side).

    It is M, or the largest f of a complete support. There f is r + gamma U(z) as
    computed, which is exact where r = 0 and gamma = 1; else rounding is added.
    """
    node = g.pairs["node"][pair]
    range_end = g.nodes["q_high"][node] if upper else g.nodes["q_low"][node]
    if g.pairs["law_complete"][pair] != 1:
        return float(range_end)
    farthest_value, is_exact = 0.0, rules.discount == 1.0
    start = g.pairs["start"][pair]
    for e in range(start, start + g.pairs["length"][pair]):
        value = outcome_value(g, e, node, upper, rules)
        is_exact = is_exact and g.entries.reward[e] == 0.0
        if e == g.pairs["start"][pair] or (
            value > farthest_value if upper else value < farthest_value
        ):
            farthest_value = value
    if is_exact:
        return float(farthest_value)
    slack = 2.0 * UNIT * rules.scale
    return float(
        min(farthest_value + slack, range_end)
        if upper
        else max(farthest_value - slack, range_end)
    )


def one_outcome(
    g: Outcomes, pair: int, upper: bool, base: float, rules: BoundRules
) -> float:
    """The bound where all samples were equal: nu = M is the best.

    nu - (nu - f) exp(-b) increases with nu. No logarithm is needed.
    """
    if g.pairs["law_complete"][pair] == 1:
        return base
    value = outcome_value(
        g, g.pairs["start"][pair], g.pairs["node"][pair], upper, rules
    )
    guard = pole_guard(base, rules.scale)
    gap = (base - value if upper else value - base) - guard
    if gap <= guard:
        return base
    gap *= g.pairs["law_share"][pair] * (1.0 - 8.0 * UNIT)
    return float(base - gap + guard if upper else base + gap - guard)


def at_pole(
    g: Outcomes, pair: int, upper: bool, base: float, offset: float, rules: BoundRules
) -> tuple[float, float]:
    """The bound at nu = base + offset (or -), and a better offset, by Newton's step.

    Rounding is on the safe side, as in ``betting.bound_at``. The bound is convex in
    nu, with derivative 1 - G A for G the geometric mean (share included) and
    A = sum of p_i / |nu - f_i|. So it is best at the base where G A <= 1 there; the
    offset that comes back is then 0. Else G A = 1 is log S = log b for S = log of
    G A without the share: the step is Newton's for log S in log(offset). It is -1
    where ``offset`` is 0 and not the best.
    """
    node = g.pairs["node"][pair]
    pole = base + offset if upper else base - offset
    guard = pole_guard(pole, rules.scale)
    start = g.pairs["start"][pair]
    stop = g.pairs["start"][pair] + g.pairs["length"][pair]
    repeats = g.pairs["total"][pair] - g.pairs["length"][pair]
    log_sum, inverse_sum, square_sum = 0.0, 0.0, 0.0
    for e in range(start, stop):
        repeat_count = g.entries.weight[e] - 1.0
        if repeat_count > 0.0:
            value = outcome_value(g, e, node, upper, rules)
            gap = (pole - value if upper else value - pole) - guard
            if gap <= guard:
                return pole, -1.0 if offset == 0.0 else offset * math.exp(LONGEST_STEP)
            log_sum += repeat_count * math.log(gap)
            inverse_sum += repeat_count / gap
            square_sum += repeat_count / (gap * gap)
    if repeats < 1.0:
        return pole, 0.0
    log_sum = log_sum / repeats
    inverse_sum = inverse_sum / repeats
    square_sum = square_sum / repeats
    mean = math.exp(log_sum) * g.pairs["law_share"][pair]
    mean *= 1.0 - (stop - start + 8) * LONGEST_LOG * UNIT
    bound = pole - mean + guard if upper else pole + mean - guard
    if offset == 0.0:
        return bound, 0.0 if mean * inverse_sum <= 1.0 else -1.0
    spread = log_sum + math.log(inverse_sum)
    decay = g.pairs["law_beta"][pair] / repeats
    # of S by log(offset): not positive
    rate = offset * (inverse_sum - square_sum / inverse_sum)
    step = -LONGEST_STEP
    if spread > 0.0 and decay > 0.0 and rate < 0.0:
        step = -math.log(spread / decay) * spread / rate
        step = min(LONGEST_STEP, max(-LONGEST_STEP, step))
    return bound, offset * math.exp(step)


def first_offset(
    g: Outcomes, pair: int, upper: bool, base: float, rules: BoundRules
) -> float:
    """A first offset: the best pole is about sigma sqrt(n'/(2 beta)) from the mean."""
    node = g.pairs["node"][pair]
    repeats = g.pairs["total"][pair] - g.pairs["length"][pair]
    first_moment, second_moment = 0.0, 0.0
    start = g.pairs["start"][pair]
    for e in range(start, start + g.pairs["length"][pair]):
        base_distance = base - outcome_value(g, e, node, upper, rules)
        repeat_share = (g.entries.weight[e] - 1.0) / repeats
        first_moment += repeat_share * base_distance
        second_moment += repeat_share * base_distance * base_distance
    if g.pairs["law_beta"][pair] <= 0.0:
        return 0.0
    variance = max(0.0, second_moment - first_moment * first_moment)
    best_distance = math.sqrt(variance * repeats / (2.0 * g.pairs["law_beta"][pair]))
    return float(max(best_distance - abs(first_moment), 0.05 * best_distance))


def descend(
    g: Outcomes, pair: int, upper: bool, base: float, steps: int, rules: BoundRules
) -> tuple[float, float]:
    """The best bound over nu that a few steps of Newton find, and its offset.

    They begin at the base, then at the last offset; many steps begin anew as well.
    """
    bound, next_offset = at_pole(g, pair, upper, base, 0.0, rules)
    best_offset = 0.0
    if next_offset == 0.0:  # convex: no other nu is better
        return bound, best_offset
    last_offset = g.pairs["nu_up"][pair] if upper else g.pairs["nu_down"][pair]
    for attempt in range(2):
        offset = last_offset
        if attempt == 1 or last_offset <= 0.0:
            offset = first_offset(g, pair, upper, base, rules)
        for _ in range(steps):
            if not 0.0 < offset < 1e30:
                break
            new_bound, next_offset = at_pole(g, pair, upper, base, offset, rules)
            if new_bound < bound if upper else new_bound > bound:
                bound, best_offset = new_bound, offset
            is_near = abs(next_offset - offset) <= NEAR_STEP * offset
            offset = next_offset
            if is_near:
                break
        if last_offset <= 0.0 or steps == WALK_STEPS:
            break
    return bound, best_offset


def declared_side(
    g: Outcomes, pair: int, upper: bool, base: float, rules: BoundRules
) -> float:
    """The bound that a declared least probability gives: each seen outcome has it.

    P f <= base - p * (sum of base - f_i), and exact where the outcomes use up all of
    the probability.
    """
    node = g.pairs["node"][pair]
    least_probability = rules.min_probability * (1.0 - CERTAIN)
    base_distance, num_outcomes = 0.0, g.pairs["length"][pair]
    for e in range(g.pairs["start"][pair], g.pairs["start"][pair] + num_outcomes):
        base_distance += abs(base - outcome_value(g, e, node, upper, rules))
    guard = (num_outcomes + 4) * UNIT * (abs(base) + rules.scale)
    base_distance = max(0.0, least_probability * base_distance - guard)
    return float(base - base_distance if upper else base + base_distance)


def spare(g: Outcomes, pair: int, rules: BoundRules) -> float:
    """The probability that the outcomes leave over, times the span of their values."""
    node, num_outcomes = g.pairs["node"][pair], g.pairs["length"][pair]
    smallest_value, largest_value = g.nodes["q_high"][node], g.nodes["q_low"][node]
    for e in range(g.pairs["start"][pair], g.pairs["start"][pair] + num_outcomes):
        smallest_value = min(smallest_value, outcome_value(g, e, node, False, rules))
        largest_value = max(largest_value, outcome_value(g, e, node, True, rules))
    spare_probability = 1.0 - num_outcomes * rules.min_probability
    return (
        float(max(0.0, spare_probability) * max(0.0, largest_value - smallest_value))
        if spare_probability > CERTAIN
        else 0.0
    )


def law_side(
    g: Outcomes, pair: int, upper: bool, tune: int, rules: BoundRules
) -> float:
    """The bound of the law alone, and its slope.

    Slope: at a fixed nu the derivative of the bound by n is beta/n'**2 times |nu -
    bound|. That is 0 where all of U is M, although more samples help as soon as U has
    come down. So the mean of the other side counts too, and the slope is not taken to
    be less than ``SLOWEST`` allows. A pair with one outcome and a complete support
    gains nothing.
    """
    base = edge(g, pair, upper, rules)
    is_complete, offset = g.pairs["law_complete"][pair] == 1, 0.0
    if g.pairs["length"][pair] == 1:
        bound = one_outcome(g, pair, upper, base, rules)
    elif tune in (KEEP, EVERY):
        offset = g.pairs["nu_up"][pair] if upper else g.pairs["nu_down"][pair]
        bound, _ = at_pole(g, pair, upper, base, offset, rules)
    else:
        num_steps = SCAN_STEPS if tune == SCAN else WALK_STEPS
        bound, offset = descend(g, pair, upper, base, num_steps, rules)
    if is_complete:
        bound = min(bound, base) if upper else max(bound, base)
    final_bound = bound
    if rules.min_probability > 0.0:
        declared_bound = declared_side(g, pair, upper, base, rules)
        final_bound = (
            min(bound, declared_bound) if upper else max(bound, declared_bound)
        )
    if tune in (KEEP, EVERY) and not (is_complete and g.pairs["length"][pair] == 1):
        return float(final_bound)
    slope = 0.0
    if not (is_complete and g.pairs["length"][pair] == 1):
        pole = base + offset if upper else base - offset
        other_mean = sample_mean(g, pair, not upper, rules)
        mean = sample_mean(g, pair, upper, rules)
        node = g.pairs["node"][pair]
        span, known_share = g.nodes["q_high"][node] - g.nodes["q_low"][node], 0.0
        if span > 0.0:
            known_share = max(0.0, 1.0 - abs(mean - other_mean) / span)
        seen_often = g.pairs["total"][pair] * rules.min_probability >= 1.0
        if seen_often and g.pairs["total"][pair] >= 64.0 and not is_complete:
            known_share = 1.0
        pole_reach = max(abs(pole - bound), known_share * abs(pole - other_mean))
        # without the allowance for rounding
        radius = (
            abs(bound - mean)
            - 4.0 * (g.pairs["length"][pair] + 8) * UNIT * rules.scale
        )
        beta = (
            g.pairs["law_beta"][pair]
            if g.pairs["law_share"][pair] > 0.0
            else g.pairs["cost"][pair]
        )
        slope = max(
            beta * pole_reach, SLOWEST * g.pairs["total"][pair] * max(0.0, radius)
        )
        if is_complete:  # samples move no bound beyond the declared rest
            slope = min(slope, g.pairs["total"][pair] * spare(g, pair, rules))
    if upper:
        g.pairs["nu_up"][pair], g.pairs["slope_up"][pair] = offset, slope
    else:
        g.pairs["nu_down"][pair], g.pairs["slope_down"][pair] = offset, slope
    return float(final_bound)


def tilt(
    g: Outcomes, pair: int, upper: bool, rules: BoundRules, weights: Floats
) -> None:
    """Write by how much the law's bound moves with the value of each next state.

    The offset is improved first. Where the support is complete, the edge moves with
    the farthest value.
    """
    refresh(g, pair, rules)
    start = g.pairs["start"][pair]
    stop = g.pairs["start"][pair] + g.pairs["length"][pair]
    base, is_complete = edge(g, pair, upper, rules), g.pairs["law_complete"][pair] == 1
    if stop - start == 1:
        weights[start] = rules.discount * (
            1.0 if is_complete else g.pairs["law_share"][pair]
        )
        return
    bound, offset = descend(g, pair, upper, base, WALK_STEPS, rules)
    if upper:
        g.pairs["nu_up"][pair] = offset
    else:
        g.pairs["nu_down"][pair] = offset
    pole = base + offset if upper else base - offset
    node, far_entry, weight_left = g.pairs["node"][pair], start, 1.0
    farthest_value = outcome_value(g, start, node, upper, rules)
    for e in range(start, stop):
        value = outcome_value(g, e, node, upper, rules)
        if value > farthest_value if upper else value < farthest_value:
            far_entry, farthest_value = e, value
        gap = abs(pole - value)
        repeat_share = (g.entries.weight[e] - 1.0) / max(
            1.0, g.pairs["total"][pair] - stop + start
        )
        entry_share = (
            min(weight_left, repeat_share * abs(pole - bound) / gap)
            if gap > 0.0
            else 0.0
        )
        weights[e] = rules.discount * entry_share
        weight_left -= entry_share
    if is_complete:
        weights[far_entry] += rules.discount * weight_left


def bets_side(
    g: Outcomes, pair: int, upper: bool, tune: int, rules: BoundRules
) -> float:
    """The bound of ``betting`` with its part of the pair's share, and its slope."""
    pair_cost_before = g.pairs["cost"][pair]
    g.pairs["cost"][pair] = pair_cost_before + BETS_COST + rules.union
    bound = betting_side(g, pair, upper, tune, rules)
    g.pairs["cost"][pair] = pair_cost_before
    return float(bound)


def side(g: Outcomes, pair: int, upper: bool, tune: int, rules: BoundRules) -> float:
    """Return the better of the law's bound and that of bets, and write its slope.

    A pair with many entries may hold rewards rounded at random, which are no outcomes
    of its law: bets alone bound it. Where a least probability is declared no reward is
    rounded, and the law alone serves: its bound holds for all functions. SCAN tries
    both wherever it may: the price rests on the bets. EVERY makes no bets, which are
    about V alone; where rewards may be rounded, nothing is left but [m, M].
    """
    is_declared, num_outcomes = rules.min_probability > 0.0, g.pairs["length"][pair]
    if tune == EVERY and not is_declared and num_outcomes >= MANY_OUTCOMES:
        node = g.pairs["node"][pair]
        return float(g.nodes["q_high"][node] if upper else g.nodes["q_low"][node])
    if tune != EVERY and not is_declared and num_outcomes > LAW_OUTCOMES:
        return bets_side(g, pair, upper, tune, rules)
    refresh(g, pair, rules)
    has_few = num_outcomes == 1 or (num_outcomes == 2 and rules.union > MANY_FUNCTIONS)
    if is_declared or tune == EVERY or (has_few and tune != SCAN):
        return law_side(g, pair, upper, tune, rules)
    bets_bound = bets_side(g, pair, upper, tune, rules)
    bets_slope = g.pairs["slope_up"][pair] if upper else g.pairs["slope_down"][pair]
    bound = law_side(g, pair, upper, tune, rules)
    if bets_bound < bound if upper else bets_bound > bound:
        bound = bets_bound
        if upper:
            g.pairs["slope_up"][pair] = bets_slope
        else:
            g.pairs["slope_down"][pair] = bets_slope
    return float(bound)


# --- before a run -------------------------------------------------------------


def price(facts: Facts, epsilon: float, delta: float, num_pairs: int) -> int:
    """Return the samples of each of ``num_pairs`` pairs that certainly suffice.

    It is the price of the bets, which the last sweeps try for every pair, with
    their part of delta: a quarter, divided by the horizon where there is one. (It is
    not that of a search with a declared least probability, which makes no bets.)
    """
    num_functions = 1 if facts.horizon is None else max(1, facts.horizon)
    return betting.price(facts, epsilon, delta / (4.0 * num_functions), num_pairs)


def readable(pairs: Any) -> bool:
    """Return whether every pair remembers numbers that ``side`` can compute with.

    Like the bounds of a pair themselves, beta is taken as stored: it cannot be
    computed anew without the counts.
    """
    field_names = (
        "law_total",
        "law_found",
        "law_beta",
        "law_share",
        "nu_up",
        "nu_down",
    )
    if not all(
        bool(np.all((pairs[field_name] >= 0.0) & (pairs[field_name] < 1e30)))
        for field_name in field_names
    ):
        return False
    is_current = (pairs["law_total"] <= pairs["total"]) & (
        pairs["law_found"] <= pairs["law_total"]
    )
    counts_fit = bool(np.all(is_current & (pairs["law_length"] <= pairs["length"])))
    marks_fit = bool(np.all(np.isin(pairs["law_complete"], (-1, 0, 1))))
    shares_fit = bool(np.all(pairs["law_share"] <= 1.0))
    return counts_fit and marks_fit and shares_fit and betting.readable(pairs)


LAW = Bound(
    word="law",
    fields=(
        ("law_total", "f8"),  # the samples for which the next ones were computed,
        ("law_beta", "f8"),
        ("law_share", "f8"),
        ("nu_up", "f8"),
        ("nu_down", "f8"),
        # the samples when its last outcome turned up, or somewhat more
        ("law_found", "f8"),
        ("law_length", "i4"),  # and the outcomes
        ("law_complete", "i4"),
        # Last: Numba takes a record that begins with the fields of another bound for
        # that bound's, and warns.
        *betting.BETTING.fields,
    ),
    side=side,
    cost=pair_cost,
    price=price,
    floor=betting.rounding_floor,
    readable=readable,
    every_function=True,
    tilt=tilt,
)

# For ``certified.sweeps.pooled``: outcomes that no pair has shown are paid for by all pairs
# together, with an eighth of delta. Bets decide where pooling does not help, so their
# part is larger: ``POOLED_UNION`` takes BETS_COST back (a pair's bets have all of its
# share instead of a quarter, its law has 3/4 as before), and pairs have half of delta:
# 1/8 + (1 + 3/4)/2 = 1.
POOLED_UNION = -BETS_COST
POOLED = LAW._replace(word="pooled", pool_share=1.0 / 8.0, pair_share=1.0 / 2.0)
