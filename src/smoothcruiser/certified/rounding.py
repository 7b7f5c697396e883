"""The cost of rounding where nothing is estimated: rows of a known model.

A search from samples has radii far above rounding. One from rows has none, and its
intervals must hold the value of the model as it was given, to the last bit. Sweeps
allow for the rounding of a mean and of F (``sweeps_kernel``), and ``Facts`` for that of
the first bounds; this file says how narrow intervals can become. Proofs:
docs/certified.md, section 4.
"""

from __future__ import annotations

import math

from smoothcruiser.certified.bounds.base import UNIT, value_rounding
from smoothcruiser.certified.ranges import largest_value
from smoothcruiser.problem.facts import Facts

USUAL_ROW = 16  # outcomes of a pair, for a half-width that can be reached


def model_floor(facts: Facts) -> float:
    """Return a half-width that can be reached in spite of rounding, with usual rows.

    A backup widens an interval by the allowances of a mean and of F on either side,
    and a sweep that moves a bound by less than one unit does not move it: twice
    their sum over all steps is certainly reached. Nothing is known at discount 1
    without a horizon.
    """
    if facts.steps(facts.horizon) == math.inf:
        return 0.0
    scale = largest_value(facts)
    mean_rounding = (USUAL_ROW + 4.0) * UNIT * scale
    backup_rounding = value_rounding(
        facts.num_actions, scale, float(facts.operator.strength)
    )
    return 2.0 * facts.steps(facts.horizon) * (mean_rounding + backup_rounding)
