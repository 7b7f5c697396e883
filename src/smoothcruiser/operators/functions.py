"""The built-in operators as plain functions, one pair each: F(q) and its
gradient, in one definition for Python and compiled code.

legend    q    action values over the k legal actions of a state (a list or an array of length k)
          w    prior weights of those actions (KL only; renormalized over them)
          t    the temperature lambda

Scalar arithmetic in a fixed order (``math.exp/log/sqrt``, sequential sums), so
that the interpreter and Numba return the same bits; ``jit.build`` rebuilds
these functions as compiled ones when an engine first needs them. All are for
the max player: the min player has -F(-q).
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence

# a list of floats in Python, a float64 array in compiled code
Vector = MutableSequence[float]

ENTROPY, KL_PRIOR, SPARSEMAX, SQUARE_ROOT, MAX, CUSTOM = range(6)


def entropy_value(q: Vector, w: Vector, t: float) -> float:
    """Lambda log sum exp(q / lambda), shifted by the maximum so that nothing
    overflows.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    total = 0.0
    for a in range(len(q)):
        total += math.exp((q[a] - top) / t)
    return top + t * math.log(total)


def entropy_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Softmax(q / lambda)."""
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    total = 0.0
    for a in range(len(q)):
        out[a] = math.exp((q[a] - top) / t)
        total += out[a]
    for a in range(len(q)):
        out[a] = out[a] / total


def kl_value(q: Vector, w: Vector, t: float) -> float:
    """Lambda log sum mu exp(q / lambda) with mu = w / sum(w); mellowmax when w
    is uniform. An action of weight 0 does not count.
    """
    top = -math.inf
    for a in range(len(q)):
        if w[a] > 0.0 and q[a] > top:
            top = q[a]
    total = 0.0
    mass = 0.0
    for a in range(len(q)):
        if w[a] > 0.0:
            total += w[a] * math.exp((q[a] - top) / t)
            mass += w[a]
    return top + t * math.log(total / mass)


def kl_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """The policy proportional to mu exp(q / lambda)."""
    top = -math.inf
    for a in range(len(q)):
        if w[a] > 0.0 and q[a] > top:
            top = q[a]
    total = 0.0
    for a in range(len(q)):
        out[a] = w[a] * math.exp((q[a] - top) / t) if w[a] > 0.0 else 0.0
        total += out[a]
    for a in range(len(q)):
        out[a] = out[a] / total


def sparsemax_threshold(q: Vector, t: float) -> float:
    """The tau with sum max((q - top)/lambda - tau, 0) = 1, by Michelot's
    algorithm: the support only shrinks, so at most k passes.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    tau = -math.inf
    size = len(q) + 1
    while True:
        total = 0.0
        count = 0
        for a in range(len(q)):
            z = (q[a] - top) / t
            if z > tau:
                total += z
                count += 1
        # the support only shrinks; rounding at a tie could make it grow again, and
        # that is the end too
        if count >= size:
            return tau
        size = count
        tau = (total - 1.0) / count


def sparsemax_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Euclidean projection of q / lambda on the simplex."""
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    tau = sparsemax_threshold(q, t)
    for a in range(len(q)):
        z = (q[a] - top) / t - tau
        out[a] = z if z > 0.0 else 0.0


def sparsemax_value(q: Vector, w: Vector, t: float) -> float:
    """<pi, q> - (lambda/2)(|pi|^2 - 1) at the projection pi, written around the
    maximum of q.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    tau = sparsemax_threshold(q, t)
    linear = 0.0
    square = 0.0
    for a in range(len(q)):
        z = (q[a] - top) / t
        p = z - tau
        if p > 0.0:
            linear += p * (q[a] - top)
            square += p * p
    return top + linear - 0.5 * t * (square - 1.0)


def square_root_level(q: Vector, t: float) -> float:
    """U - max q for the U with sum ((lambda/2)/(U - q))**2 = 1: Newton from the
    left end of a safe bracket.

    The left side is convex and decreasing in U, so Newton from a point where it
    is at least 1 rises monotonically to the root; the bracket [lambda/2,
    (lambda/2) sqrt(k)] (theory, section 1) guards against rounding. It stops at
    a step of 1e-15 (five units in the last place): below that, steps are
    rounding and may go back and forth for ever.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    half = 0.5 * t
    low = half
    high = half * math.sqrt(len(q))
    level = low
    for _ in range(100):
        total = 0.0
        slope = 0.0
        for a in range(len(q)):
            gap = level + (top - q[a])
            ratio = half / gap
            total += ratio * ratio
            slope += ratio * ratio / gap
        if total > 1.0:
            low = level
        else:
            high = level
        proposal = level + (total - 1.0) / (2.0 * slope)
        if not (low <= proposal <= high):
            proposal = 0.5 * (low + high)
        if abs(proposal - level) <= 1e-15 * level:
            return proposal
        level = proposal
    return level


def square_root_value(q: Vector, w: Vector, t: float) -> float:
    """U + sum (lambda/2)**2 / (U - q): the dual form, insensitive to first
    order in an error of U.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    level = square_root_level(q, t)
    half = 0.5 * t
    total = level
    for a in range(len(q)):
        # in this order, because half * half overflows for lambda above 1e154
        total += half * (half / (level + (top - q[a])))
    return top + total


def square_root_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """The policy ((lambda/2)/(U - q))**2, normalized so that Newton's last bit
    does not matter.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    level = square_root_level(q, t)
    half = 0.5 * t
    total = 0.0
    for a in range(len(q)):
        ratio = half / (level + (top - q[a]))
        out[a] = ratio * ratio
        total += out[a]
    for a in range(len(q)):
        out[a] = out[a] / total


def max_value(q: Vector, w: Vector, t: float) -> float:
    """The maximum."""
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    return float(top)


def max_gradient(q: Vector, w: Vector, t: float, out: Vector) -> None:
    """All weight on the first of the largest."""
    best = 0
    for a in range(len(q)):
        out[a] = 0.0
        if q[a] > q[best]:
            best = a
    out[best] = 1.0


def builtin_value(code: int, q: Vector, w: Vector, t: float) -> float:
    """F(q) of the built-in operator ``code``: one compiled function serves all
    of them.
    """
    if code == ENTROPY:
        return entropy_value(q, w, t)
    if code == KL_PRIOR:
        return kl_value(q, w, t)
    if code == SPARSEMAX:
        return sparsemax_value(q, w, t)
    if code == SQUARE_ROOT:
        return square_root_value(q, w, t)
    return max_value(q, w, t)


def builtin_gradient(code: int, q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Gradient of F at q of the built-in operator ``code``, written to ``out``."""
    if code == ENTROPY:
        entropy_gradient(q, w, t, out)
    elif code == KL_PRIOR:
        kl_gradient(q, w, t, out)
    elif code == SPARSEMAX:
        sparsemax_gradient(q, w, t, out)
    elif code == SQUARE_ROOT:
        square_root_gradient(q, w, t, out)
    else:
        max_gradient(q, w, t, out)


def entropy_both(q: Vector, w: Vector, t: float, out: Vector) -> float:
    """``entropy_gradient`` and ``entropy_value`` in one pass over the
    exponentials, with the bits of each.
    """
    top = q[0]
    for a in range(1, len(q)):
        if q[a] > top:
            top = q[a]
    total = 0.0
    for a in range(len(q)):
        out[a] = math.exp((q[a] - top) / t)
        total += out[a]
    for a in range(len(q)):
        out[a] = out[a] / total
    return top + t * math.log(total)


def builtin_both(code: int, q: Vector, w: Vector, t: float, out: Vector) -> float:
    """The gradient written to ``out`` and the value returned: what a rollout needs."""
    if code == ENTROPY:
        return entropy_both(q, w, t, out)
    builtin_gradient(code, q, w, t, out)
    return builtin_value(code, q, w, t)


def proportional(p: Vector, size: int, goal: float) -> int:
    """The index at which the running sum of ``p`` passes ``goal``, never one of
    weight 0: with goal = u sum(p) a draw from p.
    """
    running = 0.0
    chosen = 0
    for j in range(size):
        if p[j] > 0.0:
            chosen = j
            running += p[j]
            if goal < running:
                break
    return chosen
