"""Totals without a discount and without a horizon, and the methods that can bound them.

A problem may have discount 1 and no horizon where its operator is ``Max`` and either
its model is known or a declaration bounds its total (``problem.declared``). Its values
are expected totals over the whole play. The exact solver bounds them for known models,
certified search where a declaration does (docs/theory.md, section 13). Everything else
is built on a finite sum 1 + gamma + gamma**2 + ... and refuses, in the sentence made
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.totals import AT_THE_END

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import Facts
    from smoothcruiser.problem.problem import Problem


def is_undiscounted(problem: Problem | Facts) -> bool:
    """Whether rewards are summed without a discount and without a horizon."""
    return problem.horizon is None and problem.discount == 1.0


def has_bounded_total(problem: Problem) -> bool:
    """Whether a declaration bounds the expected total, whatever the discount.

    One reward at the end does; so do an end that comes with some probability within
    some steps, and a range of the total, or two numbers that bound V, where partial sums
    have one direction.
    """
    reward_low, reward_high = problem.reward_range
    one_sign = reward_low >= 0.0 or reward_high <= 0.0
    return (
        problem.payoffs == AT_THE_END
        or problem.episodes_end is not None
        or (problem.total_reward_range is not None and one_sign)
        or (problem.facts.given_bounds is not None and one_sign)
    )


def refuse_unbounded(problem: Problem, who: str) -> None:
    """Refuse such a problem unless a declaration bounds its total."""
    if not has_bounded_total(problem):
        refuse_undiscounted(problem, who)


def refuse_undiscounted(problem: Problem, who: str) -> None:
    """Refuse such a problem; ``who``, the method or the verb, begins the sentence."""
    if not is_undiscounted(problem):
        return
    remedies = ["horizon=", "a smaller discount"]
    if problem.tables is not None or problem.outcomes is not None:
        remedies.append("method='exact', which solves known models at discount 1")
    if has_bounded_total(problem):
        remedies.append("method='certified', which searches where the total is bounded")
    raise InvalidInput(
        f"{who} needs a horizon or a discount below 1, got discount=1 without a "
        f"horizon; give {', '.join(remedies[:-1])}, or {remedies[-1]}."
    )
