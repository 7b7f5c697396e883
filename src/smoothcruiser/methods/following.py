"""What an agent keeps of a method that would prepare every decision anew.

Preparing a schedule takes longer than a short decision may: the simulator is timed, and
the optimizer takes tenths of a second. ``auto`` looks at the simulator besides. Neither
depends on more of the state than how many steps are left of a horizon. So

  Following   prepares a schedule once and runs it at every state: the same answers
  Settled     under a time limit, lets ``auto`` choose once, at the first state, and goes
              on with the chosen method's own session. Certified search then keeps one
              memory, and one delta, for all decisions (with a horizon each decision
              has its own); where ``auto`` would run a schedule after it, the search
              has all the time.

What is prepared once counts against the seconds of no decision, as compiling does
(``jit.stopwatch``). Without a time limit ``auto`` chooses at every state, as ``plan``
does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from smoothcruiser.estimate import Estimate
from smoothcruiser.jit.stopwatch import Stopwatch, uncounted
from smoothcruiser.methods.base import Prepared, Session, prepared
from smoothcruiser.methods.portfolio import (
    Chosen,
    Race,
    choice_notes,
    with_calls_before,
)
from smoothcruiser.methods.scheduled import Scheduling
from smoothcruiser.query import Query

# A schedule serves all time limits within this factor of the one it was chosen for. The
# clock ends a run that would take longer.
SIMILAR = 2.0


class Following(Session):
    """Decisions that follow one schedule for each number of steps left."""

    _kept: Any = None  # what was prepared, and for which seconds, by horizon

    def keep(self, query: Query, ready: Scheduling) -> None:
        """Follow a schedule that was prepared for ``query``."""
        once = None if ready.fitted is None else ready.fitted.again()
        self._kept = self._kept or {}
        seconds = query.limits.seconds
        self._kept[query.problem.horizon] = replace(ready, fitted=once), seconds

    def _decide(self, query: Query) -> Estimate:
        ready = self._known(query)
        if ready is None:
            watch = Stopwatch()
            with uncounted():
                found = prepared(self.method, query)
            if not isinstance(found, Scheduling):
                return found.answer()
            self.keep(query, ready := found)
            if ready.fitted is not None:
                took = watch.stood_still()
                fitted = replace(ready.fitted, compile_seconds=took)
                ready = replace(ready, fitted=fitted)
        here = ready.query.at(query.state, query.seed)
        here = replace(here, limits=query.limits, progress=query.progress)
        return replace(ready, query=here).answer()

    def _known(self, query: Query) -> Scheduling | None:
        ready: Scheduling | None
        ready, before = (self._kept or {}).get(query.problem.horizon, (None, None))
        now = query.limits.seconds
        if ready is None or before == now:
            return ready
        similar = before is not None and now is not None
        similar = similar and before / SIMILAR <= now <= before * SIMILAR
        return ready if similar else None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": None}


class Settled(Session):
    """Decisions of ``auto``; under a time limit it chooses once."""

    _inner: Session | None = None
    _notes: tuple[str, ...] = ()

    def _decide(self, query: Query) -> Estimate:
        if query.limits.seconds is None:
            return super()._decide(query)
        looked, watch = 0, Stopwatch()
        told: tuple[str, ...] = ()
        if self._inner is None:
            with uncounted():
                ready = self._chosen(query)
                self._inner = self._session(ready)
            if self._inner is None:
                return ready.answer()
            looked, told = ready.looked, choice_notes(ready)
            self._notes = ready.notes
        took = watch.stood_still()
        if looked and query.limits.calls is not None:  # the look was paid for
            calls = max(1, query.limits.calls - looked)
            query = replace(query, limits=replace(query.limits, calls=calls))
        self._inner.query = self.query
        found = self._inner._decide(query)
        return replace(
            with_calls_before(found, looked),
            compile_seconds=found.compile_seconds + took,
            notes=(*self._notes, *told, *found.notes),
        )

    def _chosen(self, query: Query) -> Prepared:
        ready = prepared(self.method, query)
        if isinstance(ready, Race):
            return ready.searching(
                "auto chose certified search: states come back, and a decision has no "
                "time for two methods."
            )
        return ready

    def _session(self, ready: Prepared) -> Session | None:
        """The session of what was chosen; None where a stop came before."""
        part = ready.inner if isinstance(ready, Chosen) else ready
        if isinstance(part, Scheduling):
            following = Following(part.method, self.query)
            following.keep(ready.query, part)
            return following
        if part.method is self.method:  # nothing was chosen
            return None
        return part.method.session(self.query)

    def reviewed(self, estimate: Estimate, deadline: float) -> Estimate:  # noqa: D102
        if self._inner is None:
            return estimate
        return self._inner.reviewed(estimate, deadline)

    def close(self) -> None:  # noqa: D102
        if self._inner is not None:
            self._inner.close()
