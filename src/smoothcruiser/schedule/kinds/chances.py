"""The chances of the corrections of a randomized level.

Corrections add sum_j e_j/p_j to the variance and sum_j p_j cost_j to the price. The
product of both is smallest where p_j is proportional to sqrt(e_j/cost_j); the factor
depends on the other levels of the table (``schedule.compiler.draft``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.theory.ground import Ground
from smoothcruiser.theory.moments import Backup
from smoothcruiser.theory.randomized import Terms

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Level

Array = Any

MOST_RUNGS = 40  # 2^40 samples: far beyond any count that is ever made
_ROOM = 1.0 - 1e-9  # the sum of all chances stays below 1 in whatever order it is taken


def chances(
    base: Ground,
    row: Level,
    terms: Terms,
    scale: Array | None,
    query: Backup,
    onward: Backup | None,
) -> Array:
    """Return p_j, shape (J, M): those of ``row``, or exp(scale) sqrt(e_j/cost_j)."""
    if scale is None:
        return np.array(row.rungs)[:, None]
    log_costs = rung_costs(base, terms, query, onward)
    with np.errstate(divide="ignore"):
        log_moments = np.log(np.max(terms.second, axis=1))
    rungs = np.exp(np.minimum(0.5 * (log_moments - log_costs) + scale, 0.0))
    return rungs / np.maximum(1.0, np.sum(rungs, axis=0) / _ROOM)


def rung_costs(
    base: Ground, terms: Terms, query: Backup, onward: Backup | None
) -> Array:
    """Return the logs of the calls that corrections make on average, shape (J, M)."""
    query_costs = np.log(2.0 * base.facts.num_actions * terms.samples) + query.log_calls
    return (
        query_costs if onward is None else np.logaddexp(query_costs, onward.log_calls)
    )


def rung_flaw(level: Level) -> str | None:
    """Return the fault of the rungs of ``level``, None if there is none."""
    rungs = level.rungs
    if len(rungs) > MOST_RUNGS:
        return f"has {len(rungs)} rungs, more than {MOST_RUNGS}"
    if not all(math.isfinite(p) and 0.0 <= p <= 1.0 for p in rungs):
        return f"has rungs that are no chances: {rungs}"
    if not math.fsum(rungs) <= 1.0:
        return f"has rungs whose chances add up to {math.fsum(rungs):g}, above 1"
    return None
