"""``auto``: the method that an expert would run, with the reasons.

A model that is known is solved, or searched as far as the answer needs it. Of a
simulator, the price of the sharp schedule is known before the first call; that of
certified search is not, and is often thousands of times lower where states come
back. So ``auto`` looks first (``engines.pilot``), and then runs

  the schedule           where states do not come back, or where its price is below
                         that of any search
  certified search       where the schedule cannot be paid
  both, one after the    everywhere else: certified search for about as long as the
  other                  schedule would take, then the schedule (``methods.portfolio``)

so that an answer costs little more than twice the price of the better of the two.
Without an epsilon, a limit is shared in the same way. The decision is made when the
answer is prepared, so ``explain`` prints the method that ``plan`` runs; it does not
depend on the clock, unless ``seconds=`` makes it. Proofs, measurements: docs/auto.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from smoothcruiser.methods.auto_choice import AutoChoice
from smoothcruiser.methods.base import (
    Forecast,
    Method,
    Prepared,
    Session,
    UnstartedAnswer,
    list_arguments,
    unused_options,
    with_delta,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import DEFAULT_DELTA, KEYWORDS, Query
from smoothcruiser.run_control.stop_requests import count_stop, stoppable

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Auto(Method):
    """Choose between exact, smoothcruiser and certified search, or race the two."""

    name = "auto"
    because = ": it chooses among methods that keep a promise"
    compared = False
    default_delta = DEFAULT_DELTA
    sums_totals = True  # by exact, or by certified search where a total is bounded
    takes = frozenset(KEYWORDS) - {"simulations"}

    def prepare(self, query: Query) -> Prepared:
        """The chosen method's own preparation, with the reason as its first note."""
        chosen = self._choose(query)
        if chosen.notes:
            log.info("%s", chosen.notes[0])
        takes = chosen.method.takes
        unused_names = unused_options(query, takes)
        if not unused_names:
            return chosen
        because = chosen.method.because
        note = f"{chosen.method.name} does not use {list_arguments(unused_names)}{because}."
        return replace(chosen, notes=(*chosen.notes, note))

    def needs_promise(self, problem: Problem) -> bool:  # noqa: D102
        return problem.tables is None

    def session(self, query: Query) -> Session:
        """The solution's where the model is known; else that of one choice, in time."""
        if query.problem.tables is not None:
            from smoothcruiser.methods.exact_method import SolutionSession

            return SolutionSession(self, query)
        from smoothcruiser.methods.stored_sessions import AutoSession

        return AutoSession(self, with_delta(self, query))

    def _choose(self, query: Query) -> Prepared:
        if query.problem.tables is not None:
            from smoothcruiser.methods.exact_method import Exact

            return (
                Exact()
                .prepare(query)
                .with_notes(
                    "auto chose exact: the model is known as tables, so no sampling "
                    "is needed and delta is 0."
                )
            )
        choosing = AutoChoice(self, query)
        try:
            with stoppable():
                return choosing.choose()
        except KeyboardInterrupt as stop:  # Ctrl-C while it looked
            if query.state is None:
                raise
            count_stop(stop)
            reason = "Stopped by hand before it was decided."
            forecast = Forecast(self.name, query.ledger.total, reason)
            return UnstartedAnswer(method=self, query=query, explanation=forecast)
