"""An independent check of every schedule, recomputed from the table, bottom up.

Promise and price are recomputed by the analysis that the table was built under.

Two analyses: ``paper_promise`` (Lemma 2 of the paper with the printed constants) and
``sharp`` (theory/moments.py). A table that does not keep its promise raises
``BrokenPromise``; a table that keeps more passes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smoothcruiser.schedule.prices import PricedTable


def verify(schedule: PricedTable) -> None:
    """Raise ``BrokenPromise`` unless the table keeps (epsilon, delta).

    An infinite epsilon promises nothing (tables written by hand).
    """
    if schedule.epsilon == math.inf:
        return
    if schedule.delta_prime is not None:
        from smoothcruiser.schedule.verify.paper_promise import verify_paper

        verify_paper(schedule)
    else:
        from smoothcruiser.schedule.verify.sharp import verify_sharp

        verify_sharp(schedule)
