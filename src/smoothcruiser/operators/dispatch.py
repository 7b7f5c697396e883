"""The operators of this folder by their code: one compiled function serves all.

Compiled loops take the operator's ``code`` as an argument, so that one machine,
cached on disk, runs every operator listed here; the order of the comparisons is
the order of ``code``. ``jit.build`` rebuilds these functions as compiled ones
when an engine first needs them. An operator that is not listed (``OWN``) works
everywhere too: ``parts.parts_of`` gives engines the operator's own functions to
use in place of these. Then every process compiles a machine for it.

All are for the max player: the min player has -F(-q).
"""

from __future__ import annotations

import math

from smoothcruiser.operators.base import Vector
from smoothcruiser.operators.entropy import (
    Entropy,
    entropy_both,
    entropy_gradient,
    entropy_omega,
    entropy_value,
)
from smoothcruiser.operators.kl import KL, kl_gradient, kl_omega, kl_value
from smoothcruiser.operators.max import Max, max_gradient, max_omega, max_value
from smoothcruiser.operators.sparsemax import (
    Sparsemax,
    sparsemax_gradient,
    sparsemax_omega,
    sparsemax_value,
)
from smoothcruiser.operators.square_root import (
    SquareRoot,
    square_root_gradient,
    square_root_omega,
    square_root_value,
)

ENTROPY, KL_PRIOR, SPARSEMAX = Entropy.code, KL.code, Sparsemax.code
SQUARE_ROOT, MAX = SquareRoot.code, Max.code

# The hottest loop inlines the functions of one operator: the paper's.
inlined_value, inlined_both = entropy_value, entropy_both


def builtin_value(code: int, q: Vector, w: Vector, t: float) -> float:
    """F(q) of the operator ``code``; NaN where no operator has it."""
    if code == ENTROPY:
        return entropy_value(q, w, t)
    if code == KL_PRIOR:
        return kl_value(q, w, t)
    if code == SPARSEMAX:
        return sparsemax_value(q, w, t)
    if code == SQUARE_ROOT:
        return square_root_value(q, w, t)
    if code == MAX:
        return max_value(q, w, t)
    return math.nan


def builtin_gradient(code: int, q: Vector, w: Vector, t: float, out: Vector) -> None:
    """Gradient of F at q of the operator ``code``, written to ``out``."""
    if code == ENTROPY:
        entropy_gradient(q, w, t, out)
    elif code == KL_PRIOR:
        kl_gradient(q, w, t, out)
    elif code == SPARSEMAX:
        sparsemax_gradient(q, w, t, out)
    elif code == SQUARE_ROOT:
        square_root_gradient(q, w, t, out)
    elif code == MAX:
        max_gradient(q, w, t, out)
    else:
        out[0] = math.nan


def builtin_omega(code: int, p: Vector, w: Vector, t: float) -> float:
    """Omega of a policy p under the operator ``code``."""
    if code == ENTROPY:
        return entropy_omega(p, w, t)
    if code == KL_PRIOR:
        return kl_omega(p, w, t)
    if code == SPARSEMAX:
        return sparsemax_omega(p, w, t)
    if code == SQUARE_ROOT:
        return square_root_omega(p, w, t)
    if code == MAX:
        return max_omega(p, w, t)
    return math.nan


def builtin_both(code: int, q: Vector, w: Vector, t: float, out: Vector) -> float:
    """Write the gradient to ``out`` and return the value, as a rollout needs them."""
    if code == ENTROPY:
        return entropy_both(q, w, t, out)
    builtin_gradient(code, q, w, t, out)
    return builtin_value(code, q, w, t)


def builtin_blind(code: int, zeros: Vector, w: Vector, t: float, out: Vector) -> None:
    """``Operator.blind`` of the operator ``code``, written to ``out``."""
    if code == KL_PRIOR:
        kl_gradient(zeros, w, t, out)
    else:
        uniform_blind(code, zeros, w, t, out)


def uniform_blind(code: int, zeros: Vector, w: Vector, t: float, out: Vector) -> None:
    """The uniform policy, for operators that are ``uniform_at_zero``."""
    for a in range(len(out)):
        out[a] = 1.0 / len(out)


def is_inlined(code: int) -> bool:
    """Whether ``inlined_value`` and ``inlined_both`` are those of ``code``."""
    return code == ENTROPY


def is_greedy(code: int) -> bool:
    """Return whether F is the plain maximum, whose policy is one best action.

    Every loop finds that action by a shortcut of its own.
    """
    return code == MAX
