"""Resuming a stored run: the same problem, state, seed, cut, versions and streams.

A store may come from elsewhere. Its contents are checked before anything is run: the
seals and numbers (``store``), then the imports that would rebuild the problem, which
need the caller's consent (``trust``), then the fingerprint of the problem and the
versions. The bits are those of a run that was never stopped.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.methods import METHODS
from smoothcruiser.methods.base import Prepared
from smoothcruiser.methods.scheduled import SmoothCruiser
from smoothcruiser.problem.arguments import check_keywords, is_whole
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback
from smoothcruiser.query import ComputeKeywords, Query

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
    known_keywords = frozenset().union(*(method.resumes for method in METHODS.values()))
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
    from smoothcruiser.store.sameness import same_problem
    from smoothcruiser.store.versions import check_versions

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
