"""Declarations about chance: how rare an outcome may be, how soon episodes end.

``min_probability=p`` claims that every outcome (reward and next state) that a step
can have from a state that is not terminal has at least probability p. It bounds no
value; a method that samples may conclude from it that it has seen every outcome.

``episodes_end=(m, q)`` claims that from every state that is not terminal, whatever
is played, the episode ends within m steps with probability at least q. The expected
number of steps is then at most m/q (docs/theory.md, section 13), which is finite
without a discount. A horizon that cuts an episode off does not end it.

This file leaves out bounds on V by m/q (``problem.facts``), rows that
``outcomes=`` lists (``problem.rows``), walks that test the claims (``checks.chances``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_number, is_whole, shorten_value
from smoothcruiser.problem.facts import BOUNDS_ROUNDING, expected_steps

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem

# of the expected number of steps: sums over longer plays have no digit left
MOST_EXPECTED = 1e15


def check_chances(p: Problem) -> None:
    """Refuse claims about chance that cannot hold, and tables that disprove them."""
    min_probability: Any = p.min_probability
    if min_probability is not None:
        if not (is_number(min_probability) and 0.0 < min_probability <= 1.0):
            raise InvalidInput(
                "min_probability must be a number above 0 and at most 1, or None, got "
                f"{shorten_value(min_probability)}."
            )
        if p.tables is not None:
            _check_tables(p)
    if p.episodes_end is not None:
        _check_end(p)


def _check_end(p: Problem) -> None:
    episodes_end: Any = p.episodes_end
    is_valid = (
        isinstance(episodes_end, tuple)
        and len(episodes_end) == 2
        and is_whole(episodes_end[0])
        and episodes_end[0] >= 1
        and is_number(episodes_end[1])
        and 0.0 < episodes_end[1] <= 1.0
    )
    if not is_valid:
        raise InvalidInput(
            "episodes_end must be (steps, probability), a whole number of at least 1 "
            f"and a number above 0 and at most 1, got {shorten_value(episodes_end)}."
        )
    if episodes_end[0] > MOST_EXPECTED or expected_steps(episodes_end) > MOST_EXPECTED:
        raise InvalidInput(
            f"episodes_end must have steps/probability of at most {MOST_EXPECTED:g}, "
            f"got {shorten_value(episodes_end)}; declare a sooner end, or drop it."
        )
    if p.terminal is None or p.terminal is False:
        raise InvalidInput(
            "episodes_end needs ends: pass terminal= (a function, or True if the "
            "step's own flag ends an episode)."
        )


def _check_tables(p: Problem) -> None:
    """Refuse tables with a rarer outcome than ``min_probability``."""
    tables, min_probability = p.tables, p.min_probability
    assert tables is not None
    assert min_probability is not None
    usable_pairs = (~tables.terminal[:, None] & tables.legal).reshape(-1)
    is_used = np.repeat(usable_pairs, np.diff(tables.start))
    is_rare = (tables.prob > 0.0) & (tables.prob < min_probability)
    for entry in np.flatnonzero(is_used & is_rare).tolist():
        row_index = int(np.searchsorted(tables.start, entry, side="right")) - 1
        state, action = divmod(row_index, tables.num_actions)
        row_slice = slice(
            int(tables.start[row_index]), int(tables.start[row_index + 1])
        )
        outcomes = zip(
            tables.reward[row_slice].tolist(),
            tables.next_state[row_slice].tolist(),
            strict=True,
        )
        smallest = rarest(min_probability, tables.prob[row_slice].tolist(), outcomes)
        if smallest is not None:
            raise InvalidInput(too_rare(p, f"state {state}, action {action}", smallest))


def rarest(
    least: float, shares: Iterable[float], outcomes: Iterable[Hashable]
) -> float | None:
    """The smallest probability of an outcome where it is below ``least``, else None.

    An outcome that is listed twice has the sum of both. Rounding is forgiven.
    """
    shares_by_outcome: dict[Hashable, list[float]] = {}
    for share, outcome in zip(shares, outcomes, strict=True):
        if share > 0.0:
            shares_by_outcome.setdefault(outcome, []).append(share)
    smallest = min(
        (math.fsum(outcome_shares) for outcome_shares in shares_by_outcome.values()),
        default=1.0,
    )
    return smallest if smallest < least * (1.0 - BOUNDS_ROUNDING) else None


def too_rare(p: Problem, where: str, found: float) -> str:
    """The sentence on an outcome that ``min_probability`` excludes."""
    return (
        f"min_probability={p.min_probability:g} needs every outcome to have at least "
        f"that probability, but {where} has one with {found:g}; declare the smallest "
        "of all, or drop min_probability=."
    )
