"""Totals without a discount and without a horizon: who can add them up, and who not.

A problem may have discount 1 and no horizon where its model is known and its operator is
``Max`` (``problem.declared``). Its values are expected totals over the whole play, which
only the exact solver can bound (docs/theory.md, section 13). Everything else is built on
a finite sum 1 + gamma + gamma**2 + ... and refuses, in the sentence made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.errors import InvalidInput

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts
    from smoothcruiser.problem.problem import Problem


def is_undiscounted(problem: Problem | Facts) -> bool:
    """Whether rewards are summed without a discount and without a horizon."""
    return problem.horizon is None and problem.discount == 1.0


def refuse_undiscounted(problem: Problem | Facts, who: str) -> None:
    """Refuse such a problem; ``who`` begins the sentence: the method or the verb."""
    if is_undiscounted(problem):
        raise InvalidInput(
            f"{who} needs a horizon or a discount below 1, got discount=1 without a "
            "horizon; give horizon=, a smaller discount, or method='exact', which "
            "solves known models at discount 1."
        )
