"""The bound of an exact solution that was stopped.

With a discount, any sweep has a bound of its own (``solver``). With a horizon H, the
first h stages bound the last one, V_H = T^h V_(H-h):

    V_n <= max(T0, 0) (1 + gamma + ... + gamma^(n-1)) = c_n,

by induction from T(V + c) <= TV + gamma c for c >= 0, and the same from below. So
V_h + gamma^h b <= V_H <= V_h + gamma^h c, where c = c_(H-h) and b is its counterpart
below; action values lie as far from those of stage h.
"""

from __future__ import annotations

import numpy as np

from smoothcruiser.exact.loops import Model
from smoothcruiser.problem.tabular import Floats

UNIT = 2.0**-53  # unit roundoff of float64
SLACK = 1.0 + 2.0**-20  # covers the roundings in the evaluation of a bound itself


def last_stage(model: Model, stages: Floats, horizon: int, bound: float) -> float:
    """The bound on the last stage's values, which it puts in the place of V_h.

    ``stages`` are V_0 to V_h, with rounding up to ``bound``; ``model.q`` holds the
    action values of stage h, and then those of the last one.
    """
    discount_sum = sum(model.discount**i for i in range(len(stages) - 1, horizon))
    lower_shift = discount_sum * min(float(stages[1].min()), 0.0)
    upper_shift = discount_sum * max(float(stages[1].max()), 0.0)
    max_size = float(np.abs(stages[-1]).max()) + abs(lower_shift) + abs(upper_shift)
    shift, half_spread = (
        0.5 * (lower_shift + upper_shift),
        0.5 * (upper_shift - lower_shift),
    )
    model.q[:] += shift
    stages[-1] = np.where(model.sign == 0.0, 0.0, stages[-1] + shift)
    # a sum of so many terms, the shift of values and that of action values
    rounding = UNIT * (4.0 * horizon * half_spread + 8.0 * max_size)
    return SLACK * (bound + half_spread + rounding)


def left_early(sweeps: int, bound: float) -> str:
    """The note of a solution that was stopped before its aim."""
    return (
        f"The sweeps were stopped after {sweeps:,}, which prove {bound:.3g}; more of "
        "them prove less."
    )
