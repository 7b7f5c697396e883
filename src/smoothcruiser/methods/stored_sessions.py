"""Resuming a stored run: the same problem, state, seed, cut, versions and streams.

A store may come from elsewhere. Its contents are checked before anything is run: the
seals and numbers (``store``), then the imports that would rebuild the problem, which
need the caller's consent (``trust``), then the fingerprint of the problem and the
versions. The bits are those of a run that was never stopped.

A session that prepares once, for ``auto``, which would prepare every decision anew.

Preparing a schedule takes longer than a short decision may
(``methods.schedules.scheduled.ScheduleSession``), and ``auto`` looks at the simulator besides. So
``AutoSession``, under a time limit, lets ``auto`` choose once, at the first state, and
continues with the chosen method's own session. Certified search then keeps one memory,
and one delta, for all decisions (with a horizon each decision has its own); where
``auto`` would run a schedule after it, the search has all the time.

Preparing once counts against the seconds of no decision, like compiling
(``run_control``). Without a time limit ``auto`` chooses at every state, as ``plan``
does.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods import METHODS
from smoothcruiser.methods.base import Prepared, Session, prepare_answer
from smoothcruiser.methods.portfolio import ChosenMethod, Race, choice_notes
from smoothcruiser.methods.schedules.schedule_run import with_calls_before
from smoothcruiser.methods.schedules.scheduled import (
    PreparedSchedule,
    ScheduleSession,
    SmoothCruiser,
)
from smoothcruiser.problem.arguments import check_keywords, is_whole
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback
from smoothcruiser.query import ComputeKeywords, Query
from smoothcruiser.run_control.clock import Clock, pause_clock

if TYPE_CHECKING:
    from smoothcruiser.store import StoredRun


log = logging.getLogger(__name__)


class Resuming(ComputeKeywords, total=False):
    """The keywords of ``plan`` that a run of ours may be taken up with."""

    budget: float | None
    seconds: float | None
    max_states: int | None
    progress: bool | Callback | None


def resume(
    number: int,
    store: str | Path,
    problem: Problem | None = None,
    *,
    state: Any = None,
    trust: bool = False,
    **asked: Unpack[Resuming],
) -> Estimate:
    """The Estimate of a stored run, which reuses its finished parts.

    The bits are those of a run that was never stopped.

    Args:
        number: the run's number in the store (``smoothcruiser runs`` lists them).
        store: the file that the run was started with.
        problem: the same problem again, where ``make`` did not build it.
        state: the same state again, where the store cannot hold it.
        trust: whether the store may name a module that is imported to rebuild the
            problem. Built-in problems need no trust.
        **asked: ``executor``, ``workers``, ``scheduler``, ``tls``, ``seconds``
            and ``progress``, as in ``plan``; for certified search also ``budget``
            and ``max_states``.
    """
    known_keywords = frozenset().union(
        *(method.resumes for method in METHODS.values())
    )
    check_keywords("resume", asked, sorted(known_keywords))
    stored = stored_run(number, store)
    return pick_up(stored, store, problem, state=state, trust=trust, **asked).run()


def stored_run(number: int, store: str | Path) -> StoredRun:
    """A run of a store; nothing is executed and nothing written."""
    from smoothcruiser.store import Store

    if not is_whole(number):
        raise InvalidInput(f"A run has a whole number, got {number!r}.")
    with Store(store, write=False) as open_store:
        return open_store.get(int(number))


def pick_up(
    stored: StoredRun,
    store: str | Path,
    problem: Problem | None = None,
    *,
    state: Any = None,
    trust: bool = False,
    **asked: Unpack[Resuming],
) -> Prepared:
    """A stored run that is about to go on; the arguments are those of ``resume``."""
    from smoothcruiser.store.record_checks import same_problem
    from smoothcruiser.store.store_file import check_versions

    method = METHODS.get(stored.method, SmoothCruiser())  # any schedule can be run
    check_keywords(f"resume of a {stored.method} run", asked, sorted(method.resumes))
    check_versions(stored.id, stored.versions)
    problem, notes = same_problem(stored, problem, trust)
    start_state = stored.state_at(problem, state)
    if asked.get("executor") is None and asked.get("scheduler") is None:
        asked["executor"] = stored.executor
    query = Query.of(problem, start_state, store=store, **asked)
    query = replace(
        query, seed=stored.seed, compute=replace(query.compute, shards=stored.shards)
    )
    log.info(
        "run %d of %s goes on with %s, after %d calls",
        stored.id,
        store,
        stored.method,
        stored.calls_done,
    )
    return method.pick_up(stored, query).with_notes(*notes)


class AutoSession(Session):
    """Decisions of ``auto``; under a time limit it chooses once."""

    _inner: Session | None = None
    _notes: tuple[str, ...] = ()

    def answer_query(self, query: Query) -> Estimate:  # noqa: D102
        if query.limits.seconds is None:
            return super().answer_query(query)
        look_calls, watch = 0, Clock()
        choice_words: tuple[str, ...] = ()
        if self._inner is None:
            with pause_clock():
                ready = self._choose_once(query)
                self._inner = self._session(ready)
            if self._inner is None:
                return ready.answer()
            look_calls, choice_words = ready.looked, choice_notes(ready)
            query = query.at(query.state, query.seed)  # they are added below
            self._notes = ready.notes
        compile_seconds = watch.compile_seconds()
        if look_calls and query.limits.calls is not None:  # the look was paid for
            calls_left = max(1, query.limits.calls - look_calls)
            query = replace(query, limits=replace(query.limits, calls=calls_left))
        self._inner.query = self.query
        estimate = self._inner.answer_query(query)
        return replace(
            with_calls_before(estimate, look_calls),
            compile_seconds=estimate.compile_seconds + compile_seconds,
            notes=(*self._notes, *choice_words, *estimate.notes),
        )

    def _choose_once(self, query: Query) -> Prepared:
        ready = prepare_answer(self.method, query)
        if isinstance(ready, Race):
            return ready.search_alone(
                "auto chose certified search: states come back, and a decision has no "
                "time for two methods."
            )
        return ready

    def _session(self, ready: Prepared) -> Session | None:
        """The session of the chosen method; None where a stop came before."""
        chosen = ready.inner if isinstance(ready, ChosenMethod) else ready
        if isinstance(chosen, PreparedSchedule):
            following = ScheduleSession(chosen.method, self.query)
            following.keep(ready.query, chosen)
            return following
        if chosen.method is self.method:  # nothing was chosen
            return None
        return chosen.method.session(self.query)

    def review(self, estimate: Estimate, deadline: float) -> Estimate:  # noqa: D102
        if self._inner is None:
            return estimate
        return self._inner.review(estimate, deadline)

    def close(self) -> None:  # noqa: D102
        if self._inner is not None:
            self._inner.close()
