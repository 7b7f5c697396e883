"""What the user knows of chance: how rare an outcome may be, how soon episodes end.

``min_probability=p`` claims that every outcome (reward and next state) that a step
can have from a state that is not terminal has at least probability p. It bounds no
value; a method that samples may conclude from it that it has seen every outcome.

``episodes_end=(m, q)`` claims that from every state that is not terminal, whatever
is played, the episode ends within m steps with probability at least q. The expected
number of steps is then at most m/q (docs/theory.md, section 13), which is finite
without a discount. A horizon that cuts an episode off does not end it.

What this file leaves out: bounds on V by m/q (``problem.facts``), rows that
``outcomes=`` lists (``problem.rows``), walks that test the claims (``checks.chances``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number, is_whole, shortened
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, expected_steps

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem

# of the expected number of steps: sums over longer plays have no digit left
MOST_EXPECTED = 1e15


def check_chances(p: Problem) -> None:
    """Refuse what cannot be claimed of chance, and tables that disprove it."""
    least: Any = p.min_probability
    if least is not None:
        if not (is_number(least) and 0.0 < least <= 1.0):
            raise InvalidInput(
                "min_probability must be a number above 0 and at most 1, or None, got "
                f"{shortened(least)}."
            )
        if p.tables is not None:
            _check_tables(p)
    if p.episodes_end is not None:
        _check_end(p)


def _check_end(p: Problem) -> None:
    given: Any = p.episodes_end
    ok = (
        isinstance(given, tuple)
        and len(given) == 2
        and is_whole(given[0])
        and given[0] >= 1
        and is_number(given[1])
        and 0.0 < given[1] <= 1.0
    )
    if not ok:
        raise InvalidInput(
            "episodes_end must be (steps, probability), a whole number of at least 1 "
            f"and a number above 0 and at most 1, got {shortened(given)}."
        )
    if given[0] > MOST_EXPECTED or expected_steps(given) > MOST_EXPECTED:
        raise InvalidInput(
            f"episodes_end must have steps/probability of at most {MOST_EXPECTED:g}, "
            f"got {shortened(given)}; declare a sooner end, or drop it."
        )
    if p.terminal is None or p.terminal is False:
        raise InvalidInput(
            "episodes_end needs ends: pass terminal= (a function, or True if the "
            "step's own flag ends an episode)."
        )


def _check_tables(p: Problem) -> None:
    """Refuse tables with a rarer outcome than ``min_probability``."""
    tables, least = p.tables, p.min_probability
    assert tables is not None
    assert least is not None
    usable = (~tables.terminal[:, None] & tables.legal).reshape(-1)
    used = np.repeat(usable, np.diff(tables.start))
    rare = (tables.prob > 0.0) & (tables.prob < least)
    for place in np.flatnonzero(used & rare).tolist():
        row = int(np.searchsorted(tables.start, place, side="right")) - 1
        state, action = divmod(row, tables.num_actions)
        part = slice(int(tables.start[row]), int(tables.start[row + 1]))
        outcomes = zip(
            tables.reward[part].tolist(), tables.next_state[part].tolist(), strict=True
        )
        found = rarest(least, tables.prob[part].tolist(), outcomes)
        if found is not None:
            raise InvalidInput(too_rare(p, f"state {state}, action {action}", found))


def rarest(
    least: float, shares: Iterable[float], outcomes: Iterable[Hashable]
) -> float | None:
    """The smallest probability of an outcome where it is below ``least``, else None.

    An outcome that is listed twice has the sum of both. Rounding is forgiven.
    """
    sums: dict[Hashable, list[float]] = {}
    for share, outcome in zip(shares, outcomes, strict=True):
        if share > 0.0:
            sums.setdefault(outcome, []).append(share)
    smallest = min((math.fsum(parts) for parts in sums.values()), default=1.0)
    return smallest if smallest < least * (1.0 - BOUNDS_ROUNDING) else None


def too_rare(p: Problem, where: str, found: float) -> str:
    """The sentence on an outcome that ``min_probability`` excludes."""
    return (
        f"min_probability={p.min_probability:g} needs every outcome to have at least "
        f"that probability, but {where} has one with {found:g}; declare the smallest "
        "of all, or drop min_probability=."
    )
