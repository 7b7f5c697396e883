"""``run`` a schedule and ``resume`` a stored run: what happens between a plan
and its estimate.

A run is (problem, schedule, state, seed, cut): everything else (executor,
workers, progress, store, time) changes how fast it is done and what is kept of
it, never a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import Interrupted, InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import shaped
from smoothcruiser.schedule.schedule import Schedule

if TYPE_CHECKING:
    from smoothcruiser.engines.store import Store


@dataclass(frozen=True)
class How:
    """How a run is done: nothing here changes its result, but for ``shards``
    (which a store records).
    """

    executor: str | None = None  # None: the fastest that can
    workers: int | None = None  # None: all cores
    seconds: float | None = None  # stop then, with what the finished looks certify
    progress: Callable[[Any], object] | None = None
    shards: int | None = None  # how many an action is cut into, for slow simulators
    scheduler: str | None = None  # address of a Dask scheduler, for executor "dask"


def run(
    problem: Problem,
    schedule: Schedule,
    state: Any = None,
    *,
    seed: int = 0,
    executor: str | None = None,
    workers: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Any], object] | None = None,
    shards: int | None = None,
    scheduler: str | None = None,
    store: str | Path | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """The Estimate of one run of a schedule that ``explain`` returned: what
    ``plan`` does after choosing it.

    With ``store`` every finished shard is kept in that file, and ``resume``
    goes on after a kill.
    """
    if schedule.facts != problem.facts:
        raise InvalidInput(
            "The schedule was made for a problem with other facts (actions, "
            "discount, operator, rewards); explain this one."
        )
    state = problem.start(state)
    how = How(executor, workers, seconds, progress, shards, scheduler)
    if store is None:
        return _run(problem, schedule, state, seed, how, notes=notes)
    from smoothcruiser.engines.registry import default_executor
    from smoothcruiser.engines.store import Store

    with Store(store) as opened:
        number = opened.begin(
            problem,
            schedule,
            state,
            seed,
            shards,
            executor or default_executor(problem),
        )
        return _run(
            problem, schedule, state, seed, how, notes=notes, keeper=(opened, number)
        )


def resume(
    number: int,
    store: str | Path,
    problem: Problem | None = None,
    *,
    state: Any = None,
    executor: str | None = None,
    workers: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Any], object] | None = None,
    scheduler: str | None = None,
) -> Estimate:
    """The Estimate of a stored run, its finished shards reused: the same bits
    as if it had never been stopped.

    Problems that ``make`` built are built again from the store; for others pass
    the same ``problem`` (and ``state``) again.
    """
    from smoothcruiser.engines.store import Store, schedule_from

    if not Path(store).exists():
        raise InvalidInput(
            f"The store {store} does not exist; give the file that the run was "
            "started with."
        )
    with Store(store) as opened:
        stored = opened.get(number)
        problem = _same_problem(
            stored.spec, stored.fingerprint, stored.problem, number, problem
        )
        schedule = schedule_from(stored.schedule, problem)
        where = problem.start(
            shaped(stored.state, problem.initial_state) if state is None else state
        )
        how = How(
            executor or stored.executor,
            workers,
            seconds,
            progress,
            stored.shards,
            scheduler,
        )
        return _run(problem, schedule, where, stored.seed, how, keeper=(opened, number))


def _same_problem(
    spec: dict[str, Any] | None,
    expected: str,
    name: str,
    number: int,
    given: Problem | None,
) -> Problem:
    """The problem of a stored run: built from its spec or given again; its
    fingerprint must be the stored one.
    """
    from smoothcruiser.engines.store import fingerprint
    from smoothcruiser.problem.make import make

    if given is None:
        if spec is None:
            raise InvalidInput(
                f"Run {number} is of a problem made in Python ({name}); pass the "
                "same problem to resume()."
            )
        given = make(
            spec["problem"],
            discount=spec["discount"],
            temperature=spec["temperature"],
            operator=spec["operator"],
        )
    found = fingerprint(given)
    if found != expected:
        raise InvalidInput(
            f"Run {number} was made for another problem than this one (fingerprints "
            f"{expected} and {found}); pass the problem it was started with, or start "
            "a new run."
        )
    return given


def _run(
    problem: Problem,
    schedule: Schedule,
    state: Any,
    seed: int,
    how: How,
    *,
    notes: tuple[str, ...] = (),
    keeper: tuple[Store, int] | None = None,
) -> Estimate:
    from smoothcruiser.engines.answer import assemble, interval_of
    from smoothcruiser.engines.base import Job
    from smoothcruiser.engines.registry import open_workers
    from smoothcruiser.engines.run import Ledger, Listener
    from smoothcruiser.engines.run import run as run_shards
    from smoothcruiser.engines.shards import cut
    from smoothcruiser.engines.stopping import stopping_rule

    actions = (
        problem.legal_actions(state) if schedule.root.target == "q_values" else [0]
    )
    rule = stopping_rule(schedule, how.shards)
    keep = None if keeper is None else partial(keeper[0].keep, keeper[1])
    known = None if keeper is None else keeper[0].parts(keeper[1])
    listener = Listener(how.progress, keep, interval_of(problem, state, rule))
    segments = cut(schedule, shards=how.shards)
    ledger = Ledger(segments, actions, rule.enough, known)
    pool = open_workers(Job(problem, schedule, state, rule.center), how)
    try:
        pool.inspect(seed)
        outcome = run_shards(
            pool,
            schedule,
            ledger,
            seed=seed,
            listener=listener,
            seconds=how.seconds,
        )
        looked_calls, asked = pool.inspect(seed)
    except (Interrupted, KeyboardInterrupt) as error:
        kept = "Nothing is kept: --store FILE keeps finished shards."
        if keeper is not None:
            kept = (
                f"Finished shards are kept: go on with --resume {keeper[1]} --store "
                f"{keeper[0].path}."
            )
        told = str(error) or "The run was stopped while the step was looked at."
        raise Interrupted(f"{told} {kept}", calls=getattr(error, "calls", 0)) from error
    finally:
        pool.close()
    estimate = assemble(
        problem, state, rule, outcome, pool, seed=seed, looked=pool.seen(asked)
    )
    estimate = replace(
        estimate,
        notes=(*notes, *estimate.notes),
        run=None if keeper is None else keeper[1],
        num_calls=estimate.num_calls + looked_calls,
        calls_spent=(estimate.calls_spent or 0) + looked_calls,
        price=schedule.num_calls + looked_calls,
    )
    if keeper is not None and outcome.finished:
        keeper[0].finish(keeper[1], estimate)
    elif keeper is not None:
        hint = (
            f"Finished shards are kept: go on with --resume {keeper[1]} --store "
            f"{keeper[0].path}."
        )
        estimate = replace(estimate, notes=(*estimate.notes, hint))
    return estimate
