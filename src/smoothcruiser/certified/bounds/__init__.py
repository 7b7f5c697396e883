"""The table of confidence bounds on a pair of state and action, one file each.

``register`` adds a bound from another package (docs/extending.md).
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.certified.bounds.base import Bound
from smoothcruiser.certified.bounds.betting import BETTING
from smoothcruiser.certified.bounds.law import LAW, POOLED
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.model.known_outcomes import has_rows
from smoothcruiser.problem.problem import Problem

BOUNDS: dict[str, Bound] = {bound.word: bound for bound in (BETTING, LAW, POOLED)}
DEFAULT = BETTING.word


def default_bound(problem: Problem) -> str:
    """The bound that serves a problem best (measured: docs/certified.md, 2b).

    One law serves all numbers of steps left, and proves supports complete.
    """
    shares_samples = problem.horizon is not None and problem.horizon > 1
    is_declared = problem.min_probability is not None
    needs_law = shares_samples or is_declared or is_undiscounted(problem)
    if needs_law and not problem.deterministic:
        return LAW.word
    return DEFAULT


def check_pool(bound: Bound, problem: Problem) -> None:
    """Refuse a bound that pools unseen outcomes where that is not proved.

    The proof is in docs/pooled.md.
    """
    can_pool = (
        problem.horizon is None
        and problem.discount < 1.0
        and not problem.is_game
        and problem.operator.built_in
        and problem.min_probability is None
        and not problem.deterministic
        and not has_rows(problem)
    )
    if not can_pool:
        raise InvalidInput(
            f"bound={bound.word!r} is for samples of one player's problem with a "
            "discount below 1, no horizon, a built-in operator and no min_probability; "
            "drop bound=."
        )


def register(bound: Bound) -> Bound:
    """Put a bound into the table under its word, which must be free; return it."""
    if not isinstance(bound, Bound):
        raise InvalidInput(
            f"register takes a certified.bounds.base.Bound, got {type(bound).__name__}."
        )
    word: Any = bound.word
    if not isinstance(word, str) or not word.strip():
        raise InvalidInput(
            f"A bound needs a word, its name in certificates, got {word!r}."
        )
    if BOUNDS.get(word, bound) is not bound:
        raise InvalidInput(
            f"A bound called {word!r} is registered already; choose another word."
        )
    BOUNDS[word] = bound
    return bound


def bound_of(word: str) -> Bound:
    """Return the bound with the name ``word``."""
    if word not in BOUNDS:
        raise InvalidInput(f"bound must be one of {', '.join(BOUNDS)}, got {word!r}.")
    return BOUNDS[word]
