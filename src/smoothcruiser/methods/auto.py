"""``auto``: the method that a user most likely means, with the reason in the notes.

The exact solution where the model is known as tables (no calls, no doubt), the sharp
schedule where the promise can be paid, certified search where it cannot and states
can be told apart. The choice is made when the answer is prepared, so ``explain``
prints what ``plan`` runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.methods.base import (
    DEFAULT_BUDGET,
    Method,
    Prepared,
    Session,
    listed,
    unused,
)
from smoothcruiser.methods.certified import CertifiedSearch
from smoothcruiser.methods.exact import Exact, Lookup
from smoothcruiser.methods.scheduled import SmoothCruiser
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import check_recognizable
from smoothcruiser.query import KEYWORDS, Query
from smoothcruiser.schedule.numbers import short


@dataclass(frozen=True, kw_only=True)
class Auto(Method):
    """Choose between exact, smoothcruiser and certified search."""

    name = "auto"
    because = ": it chooses among methods that keep a promise"
    compared = False

    @property
    def takes(self) -> frozenset[str]:  # noqa: D102
        return frozenset(KEYWORDS) - {"simulations"}

    def prepare(self, query: Query) -> Prepared:
        """The chosen method's own preparation, with the reason as its first note."""
        chosen = self._choose(query)
        idle = unused(query, chosen.method.takes)
        if not idle:
            return chosen
        because = chosen.method.because
        note = f"{chosen.method.name} does not use {listed(idle)}{because}."
        return replace(chosen, notes=(*chosen.notes, note))

    def needs_promise(self, problem: Problem) -> bool:  # noqa: D102
        return problem.tables is None

    def session(self, query: Query) -> Session:
        """The solution's where the model is known; else every decision is its own."""
        if query.problem.tables is not None:
            return Lookup(self, query)
        return super().session(query)

    def _choose(self, query: Query) -> Prepared:
        problem, promise = query.problem, query.promise
        if problem.tables is not None:
            return (
                Exact()
                .prepare(query)
                .with_notes(
                    "auto chose exact: the model is known as tables, so no sampling "
                    "is needed and delta is 0."
                )
            )
        if promise.epsilon is None or promise.delta is None:
            return SmoothCruiser().prepare(query)  # it says what is missing
        budget = query.limits.calls or DEFAULT_BUDGET
        try:
            price = SmoothCruiser().schedule(query).num_calls
            if price + problem.inspection_calls <= budget:
                sharp = SmoothCruiser().prepare(query)
                return sharp.with_notes(
                    "auto chose smoothcruiser: its schedule keeps the promise "
                    f"for {price:,} calls."
                )
            reason = f"the sharp schedule would cost {short(price)} calls"
        except (InvalidInput, Unpayable) as error:
            reason = f"no sharp schedule ({error})"
        if query.state is not None and _recognizable(problem, query.state):
            return (
                CertifiedSearch()
                .prepare(query)
                .with_notes(
                    f"auto chose certified search: {reason}, and states can be told "
                    "apart."
                )
            )
        return SmoothCruiser().prepare(query)


def _recognizable(problem: Problem, state: object) -> bool:
    """Whether certified search would know the state again."""
    try:
        check_recognizable(state, problem.key_of(state))
    except InvalidInput:
        return False
    return True
