"""Values under the laws of seen outcomes, with a bonus at one pair, compiled.

Pooled over all pairs, the mass u_r that was never seen at pair r obeys

    sum over r of m_r u_r <= B,

m_r the pooled samples of r that were no discovery (``pooled``). With P~ the law given
"seen", V(s0) is then at most the largest W(s0) over r, where W is the fixed point of

    W(s) = F(Q(s, .)),   Q(p) = sup of P~(r + gamma W) + [p = r] c_r,   c_r = gap_r B/m_r,

and Q(p) is the bound that p has already where p has no part in the pool. P~ lies in the
set of Lemma K with support on the seen outcomes. Below everything is mirrored, with a
fixed policy in the place of F.

``solve`` looks for W by policy iteration. ``residual`` is the proof: nothing before it
matters. It computes Q and F with all rounding on the safe side, and W + rho/(1 - gamma)
is at least the fixed point where no backup of W exceeds W by more than rho.

legend   symbol      public name
  W                  ``values``, times ``side``: 1 above, -1 below
  c_r                ``bonus`` of pair ``at``
  P*                 ``weights``: the law for which P~(r + gamma W) is largest

The proof is in docs/pooled.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from smoothcruiser.certified.bounds.base import (
    UNIT,
    BoundRules,
    Outcomes,
    sample_mean,
    value_rounding,
)
from smoothcruiser.certified.bounds.betting import LONGEST_LOG, pole_guard
from smoothcruiser.certified.bounds.counts import refresh
from smoothcruiser.certified.graph import Graph
from smoothcruiser.certified.sweeps.sweeps_kernel import SweepRules, write_policy
from smoothcruiser.operators.dispatch import builtin_value
from smoothcruiser.problem.model.tabular import Floats, Ints

MOST_POLES = 12  # tried for one pair and one W
NEAR_POLE = 0.03  # of the offset: within it the radius is within 0.05% of the best
LONGEST_STEP = 2.0  # of log(offset)
MOST_POLICIES = 30  # steps of policy iteration
MOST_PASSES = 300  # over the listed nodes, for one policy


class PoolWork(NamedTuple):
    """Arrays of one computation: by node (N,), by pair (P,), by entry (E,)."""

    values: Floats  # (N,): side * W; 0 at the end
    backed: Floats  # (N,): its backup
    constant: Floats  # (N,): the part of a policy's backup without W
    q: Floats  # (P,)
    pooled: Ints  # (P,): 1 where the pair has a part in the pool
    offsets: Floats  # (P,): nu less the largest f, of the last time
    policy: Floats  # (P,): grad F at the last Q; the fixed one below
    tangent: Floats  # (N,): F(Q) - <policy, Q> at the fixed policy
    weights: Floats  # (E,): P*, then times policy and discount


def prepare(
    g: Graph, order: Ints, count: int, work: PoolWork, rules: SweepRules
) -> None:
    """Bring beta of every pair of the pool up to date."""
    outcomes = Outcomes(g.nodes, g.pairs, g.entries)
    for i in range(count):
        node = order[i]
        first_pair = g.nodes["first"][node]
        for p in range(first_pair, first_pair + g.nodes["size"][node]):
            if work.pooled[p] == 1:
                refresh(outcomes, p, rules.bound)


def seen_gap(g: Graph, p: int, side: float, discount: float) -> float:
    """M less the least r + gamma L(z) of the outcomes seen (mirrored below).

    So much can the mean over unseen outcomes exceed that over seen ones.
    """
    node = g.pairs["node"][p]
    smallest_value = math.inf
    start = g.pairs["start"][p]
    for e in range(start, start + g.pairs["length"][p]):
        next_node = g.entries.target[e]
        near_bound = (
            g.nodes["lower"][next_node] if side > 0.0 else g.nodes["upper"][next_node]
        )
        smallest_value = min(
            smallest_value, side * (g.entries.reward[e] + discount * near_bound)
        )
    low, high = g.nodes["q_low"][node], g.nodes["q_high"][node]
    smallest_value = max(smallest_value, low if side > 0.0 else -high)
    largest_value = high if side > 0.0 else -low
    return float(
        max(0.0, largest_value - smallest_value)
        + 8.0 * UNIT * (abs(largest_value) + abs(smallest_value))
    )


def gaps(g: Graph, pairs: Ints, side: float, discount: float, found: Floats) -> None:
    """Write ``seen_gap`` of the listed pairs."""
    for p in pairs:
        found[p] = seen_gap(g, p, side, discount)


def means(g: Graph, count: int, upper: bool, rules: BoundRules, found: Floats) -> None:
    """Write the mean of r + gamma U(z), or of r + gamma L(z), of every pair."""
    outcomes = Outcomes(g.nodes, g.pairs, g.entries)
    for p in range(count):
        if g.pairs["total"][p] > 0.0:
            found[p] = sample_mean(outcomes, p, upper, rules)


def at_offset(
    g: Graph,
    pair: int,
    base: float,
    offset: float,
    side: float,
    scale: float,
    work: PoolWork,
    rules: SweepRules,
) -> tuple[float, float]:
    """The bound at nu = base + offset, and a better offset by Newton's step.

    As ``bounds.law.at_pole``. Writes the weights P* of this nu.
    """
    pole = base + offset
    guard = pole_guard(pole, scale)
    start, stop = (
        g.pairs["start"][pair],
        g.pairs["start"][pair] + g.pairs["length"][pair],
    )
    repeats = g.pairs["total"][pair] - g.pairs["length"][pair]
    log_sum, inverse_sum, square_sum = 0.0, 0.0, 0.0
    for e in range(start, stop):
        repeat_count = g.entries.weight[e] - 1.0
        if repeat_count > 0.0:
            value = side * g.entries.reward[e]
            value += rules.bound.discount * work.values[g.entries.target[e]]
            gap = pole - value - guard
            if gap <= guard:
                return pole, offset * math.exp(LONGEST_STEP)
            log_sum += repeat_count * math.log(gap)
            inverse_sum += repeat_count / gap
            square_sum += repeat_count / (gap * gap)
            work.weights[e] = repeat_count / (gap * repeats)
    log_sum, inverse_sum, square_sum = (
        log_sum / repeats,
        inverse_sum / repeats,
        square_sum / repeats,
    )
    mean = math.exp(log_sum) * g.pairs["law_share"][pair]
    mean *= 1.0 - (stop - start + 8) * LONGEST_LOG * UNIT
    for e in range(start, stop):
        work.weights[e] *= mean
    spread, decay = (
        log_sum + math.log(inverse_sum),
        g.pairs["law_beta"][pair] / repeats,
    )
    rate = offset * (inverse_sum - square_sum / inverse_sum)
    step = -LONGEST_STEP
    if spread > 0.0 and decay > 0.0 and rate < 0.0:
        step = -math.log(spread / decay) * spread / rate
        step = min(LONGEST_STEP, max(-LONGEST_STEP, step))
    return pole - mean + guard, offset * math.exp(step)


def largest_mean(
    g: Graph, p: int, side: float, scale: float, work: PoolWork, rules: SweepRules
) -> float:
    """An upper bound of P~(r + gamma W) over the laws of Lemma K on seen outcomes.

    Writes the weights for which it is nearly that.
    """
    start, stop = g.pairs["start"][p], g.pairs["start"][p] + g.pairs["length"][p]
    repeats = g.pairs["total"][p] - g.pairs["length"][p]
    best_entry, largest_value, first_moment, second_moment = start, -math.inf, 0.0, 0.0
    smallest_value = math.inf
    for e in range(start, stop):
        value = side * g.entries.reward[e]
        value += rules.bound.discount * work.values[g.entries.target[e]]
        work.weights[e] = 0.0
        if value > largest_value:
            largest_value, best_entry = value, e
        smallest_value = min(smallest_value, value)
        first_moment += (g.entries.weight[e] - 1.0) * value
        second_moment += (g.entries.weight[e] - 1.0) * value * value
    base = largest_value + 2.0 * UNIT * scale
    work.weights[best_entry] = 1.0
    guard = pole_guard(base, scale)
    if stop - start == 1 or repeats < 1.0 or g.pairs["law_share"][p] <= 0.0:
        return float(base)
    if largest_value - smallest_value <= 4.0 * guard:
        return float(base)
    first_moment, second_moment = first_moment / repeats, second_moment / repeats
    bound, best_offset = base, 0.0
    offset = work.offsets[p]
    if offset <= 0.0:
        variance = max(0.0, second_moment - first_moment * first_moment)
        offset = math.sqrt(
            variance * repeats / (2.0 * max(g.pairs["law_beta"][p], 1e-9))
        )
        offset = max(
            offset - (largest_value - first_moment),
            0.05 * offset,
            1e-6 * (largest_value - smallest_value),
        )
    last_offset = 0.0
    for _ in range(MOST_POLES):
        if not 0.0 < offset < 1e30:
            break
        last_offset = offset
        new_bound, next_offset = at_offset(
            g, p, base, offset, side, scale, work, rules
        )
        if new_bound < bound:
            bound, best_offset = new_bound, offset
        is_near = abs(next_offset - offset) <= NEAR_POLE * offset
        offset = next_offset
        if is_near:
            break
    if best_offset > 0.0 and best_offset != last_offset:
        at_offset(g, p, base, best_offset, side, scale, work, rules)
    work.offsets[p] = best_offset
    weight_sum = 0.0
    for e in range(start, stop):
        if best_offset == 0.0:
            work.weights[e] = 0.0
        weight_sum += work.weights[e]
    if weight_sum > 1.0:
        for e in range(start, stop):
            work.weights[e] /= weight_sum
    work.weights[best_entry] += max(0.0, 1.0 - weight_sum)
    if rules.shrink != 1.0:  # wrong on purpose, for tests
        bound = first_moment + (bound - first_moment) * rules.shrink
    return float(bound)


def residual(
    g: Graph,
    order: Ints,
    count: int,
    at: int,
    bonus: float,
    side: float,
    scale: float,
    work: PoolWork,
    rules: SweepRules,
) -> float:
    """Back W up once, and return by how much a backup exceeds it at most.

    Below (``side`` -1) the policy is ``work.policy``, above that of F.
    """
    largest_excess = -math.inf
    for i in range(count):
        s = order[i]
        num_actions, first_pair = g.nodes["size"][s], g.nodes["first"][s]
        for a in range(num_actions):
            p = first_pair + a
            if work.pooled[p] == 1:
                work.q[p] = largest_mean(g, p, side, scale, work, rules)
            else:
                work.q[p] = (
                    g.pairs["q_upper"][p] if side > 0.0 else -g.pairs["q_lower"][p]
                )
            if p == at:
                work.q[p] += bonus + 2.0 * UNIT * scale
            rules.q[a] = work.q[p]
            rules.w[a] = rules.priors[g.pairs["action"][p]]
        if side > 0.0:
            value = builtin_value(
                rules.operator,
                rules.q[:num_actions],
                rules.w[:num_actions],
                rules.temperature,
            )
        else:
            value = work.tangent[s]
            for a in range(num_actions):
                value += work.policy[first_pair + a] * work.q[first_pair + a]
        value += value_rounding(num_actions, scale, rules.temperature)
        work.backed[s] = value
        largest_excess = max(largest_excess, value - work.values[s])
        if side > 0.0:
            write_policy(
                num_actions, rules, work.policy[first_pair : first_pair + num_actions]
            )
    return float(largest_excess)


def evaluate(
    g: Graph, order: Ints, count: int, still: float, work: PoolWork, rules: SweepRules
) -> None:
    """Move W to the values of the policy and the laws of the last ``residual``."""
    discount = rules.bound.discount
    for i in range(count):
        s = order[i]
        constant = work.backed[s]
        first_pair = g.nodes["first"][s]
        for p in range(first_pair, first_pair + g.nodes["size"][s]):
            if work.pooled[p] == 1:
                start = g.pairs["start"][p]
                for e in range(start, start + g.pairs["length"][p]):
                    work.weights[e] *= discount * work.policy[p]
                    constant -= work.weights[e] * work.values[g.entries.target[e]]
        work.constant[s] = constant
    for _ in range(MOST_PASSES):
        largest_move = 0.0
        for i in range(count - 1, -1, -1):
            s = order[i]
            value, own_weight = work.constant[s], 0.0
            first_pair = g.nodes["first"][s]
            for p in range(first_pair, first_pair + g.nodes["size"][s]):
                if work.pooled[p] == 1:
                    start = g.pairs["start"][p]
                    for e in range(start, start + g.pairs["length"][p]):
                        z = g.entries.target[e]
                        if z == s:
                            own_weight += work.weights[e]
                        else:
                            value += work.weights[e] * work.values[z]
            value /= 1.0 - own_weight
            largest_move = max(largest_move, abs(value - work.values[s]))
            work.values[s] = value
        if largest_move <= still:
            break


def solve(
    g: Graph,
    order: Ints,
    count: int,
    at: int,
    bonus: float,
    side: float,
    scale: float,
    still: float,
    work: PoolWork,
    rules: SweepRules,
) -> float:
    """Bring W near its fixed point; return the number to add to all of it.

    The returned number, with ``work.values`` and ``work.q``, is a proof: ``rho`` is
    that of the last backup of exactly this W. At a pair the same is added to Q, times
    gamma.
    """
    rho = residual(g, order, count, at, bonus, side, scale, work, rules)
    for _ in range(MOST_POLICIES):
        largest_move = 0.0
        for i in range(count):
            largest_move = max(
                largest_move, abs(work.backed[order[i]] - work.values[order[i]])
            )
        if largest_move <= still:
            break
        evaluate(g, order, count, 0.1 * still, work, rules)
        rho = residual(g, order, count, at, bonus, side, scale, work, rules)
    distance_left = max(0.0, rho) / (1.0 - rules.bound.discount)
    return float(distance_left * (1.0 + 8.0 * UNIT))


def fix_policy(
    g: Graph, order: Ints, count: int, work: PoolWork, rules: SweepRules
) -> None:
    """Fix the policy: grad F at Q_L, and the tangent of F there, times -1.

    F(Q) >= F(Q_L) + <policy, Q - Q_L> for every Q. ``work.q`` holds -Q_L.
    """
    for i in range(count):
        s = order[i]
        num_actions, first_pair = g.nodes["size"][s], g.nodes["first"][s]
        for a in range(num_actions):
            rules.q[a] = -work.q[first_pair + a]
            rules.w[a] = rules.priors[g.pairs["action"][first_pair + a]]
        value = builtin_value(
            rules.operator,
            rules.q[:num_actions],
            rules.w[:num_actions],
            rules.temperature,
        )
        policy = work.policy[first_pair : first_pair + num_actions]
        write_policy(num_actions, rules, policy)
        for a in range(num_actions):
            value -= policy[a] * rules.q[a]
        work.tangent[s] = -value


def worst_pair(
    g: Graph,
    order: Ints,
    count: int,
    candidates: Ints,
    bonuses: Floats,
    base: Floats,
    base_q: Floats,
    enough: Floats,
    tops: Floats,
    found: Floats,
    side: float,
    scale: float,
    still: float,
    work: PoolWork,
    rules: SweepRules,
) -> int:
    """Raise ``tops`` to the values of the requested state with each candidate in turn.

    ``tops`` is side * V of the requested node, then side * Q of its pairs; ``base`` and
    ``base_q`` are those of no bonus. A candidate is left out if its largest possible
    effect is below ``tops``. Ends where ``tops`` is nowhere below ``enough``: nothing
    is gained then. ``found`` is side * V of each candidate. Returns how many were done.
    """
    root = order[0]
    num_actions, first_pair = g.nodes["size"][root], g.nodes["first"][root]
    for c in range(len(candidates)):
        largest_effect = bonuses[c] / (1.0 - rules.bound.discount) + 8.0 * UNIT * scale
        is_needed = base_q[0] + largest_effect > tops[0]
        for a in range(num_actions):
            is_needed = is_needed or base_q[1 + a] + largest_effect > tops[1 + a]
        if not is_needed:
            found[c] = base_q[0] + largest_effect
            continue
        for i in range(count):
            work.values[order[i]] = base[order[i]]
        distance_left = solve(
            g,
            order,
            count,
            candidates[c],
            bonuses[c],
            side,
            scale + largest_effect,
            still,
            work,
            rules,
        )
        found[c] = work.values[root] + distance_left
        tops[0] = max(tops[0], found[c] + 4.0 * UNIT * scale)
        is_useless = tops[0] >= enough[0]
        for a in range(num_actions):
            tops[1 + a] = max(
                tops[1 + a],
                work.q[first_pair + a] + distance_left + 4.0 * UNIT * scale,
            )
            is_useless = is_useless and tops[1 + a] >= enough[1 + a]
        if is_useless:
            return c + 1
    return len(candidates)
