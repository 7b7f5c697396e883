"""Pools: each item once, from this thread, and nothing left running behind."""

import os
import threading
import time

import pytest

import smoothcruiser as sc
from smoothcruiser import InvalidInput, OracleError
from smoothcruiser.engines.pools import threads as threads_module
from smoothcruiser.engines.pools.base import Build, check_workers
from smoothcruiser.engines.pools.processes import Processes
from smoothcruiser.engines.pools.threads import ThisThread, Threads
from smoothcruiser.errors import Interrupted

pytestmark = pytest.mark.compiles


def step(state, action, rng):
    return rng.random(), state


def problem():
    return sc.MDP(
        step, num_actions=2, discount=0.4, operator=sc.Entropy(1.0), initial_state=0
    )


# --- what workers build and do, at the top of a module so that it can be sent ---


def built(problem, **more):
    return {"actions": problem.num_actions, "process": os.getpid(), **more}


def times(thing, item):
    if item < 0:
        raise OracleError(f"item {item} is below 0")
    return item * int(thing["factor"])


def process_of(thing, item):
    return int(thing["process"])


def sleeping(thing, item):
    time.sleep(item)
    return item


def collected(pool, task, items, most=10**9):
    found = {}

    def report(item, result):
        assert item not in found
        assert threading.current_thread() is threading.main_thread()
        found[item] = result
        return len(found) >= most

    pool.map(task, items, report)
    return found


def here():
    """Pools in this process, whose stop is heard by what was built."""
    pools = []
    for make in (ThisThread, lambda *parts: Threads(2, *parts)):
        thing = {"factor": 3, "stops": 0}

        def interrupt(thing=thing):
            thing["stops"] += 1

        pools.append(make(thing, interrupt))
    return pools


def test_every_item_is_reported_once_and_no_more_than_are_needed():
    for pool in here():
        assert collected(pool, times, iter(range(20))) == {i: 3 * i for i in range(20)}
        endless = iter(range(10**9))
        assert len(collected(pool, times, endless, most=5)) == 5
        assert next(endless) <= 5 + 2  # pulled only when a worker was free
        assert pool.ask(times, 7) == 21
        pool.close()


def test_the_first_error_ends_the_rest():
    for pool in here():
        with pytest.raises(OracleError, match="item -1 is below 0"):
            collected(pool, times, iter([1, -1, 2]))
        pool.close()


def test_stop_is_heard_by_what_runs_and_ends_the_map():
    """In this thread the task itself raises; a pool of threads is told."""
    single, threads = here()
    single.stop()
    threads.stop()
    assert single.built["stops"] == threads.built["stops"] == 1
    with pytest.raises(Interrupted, match="stopped before all shards were finished"):
        collected(threads, times, iter(range(5)))
    # what was under way is waited for, and is known to the one who counts calls
    assert all(isinstance(x, int) for x in threads.abandoned_results)
    threads.close()


def test_a_call_that_never_returns_is_left_behind(monkeypatch):
    """The map ends without it, closing does not wait for it, and it is counted."""
    monkeypatch.setattr(threads_module, "GRACE_SECONDS", 0.05)
    release = threading.Event()

    def waits(thing, item):
        if item == 1:
            release.wait()  # as machine code in an endless loop
        return item

    pool = Threads(2, {}, lambda: None)
    assert pool.reachable
    assert collected(pool, waits, iter([1, 2, 3]), most=2) == {2: 2, 3: 3}
    assert pool.stuck == 1
    assert not pool.reachable
    pool.close()
    release.set()


def test_processes_build_once_and_come_back_after_they_were_ended():
    """One spawn for the whole test: items, an error, an end in the middle of an
    item that nobody needs, and a question after it.
    """
    pool = Processes(1, Build(problem(), built, {"factor": 5}))
    try:
        assert collected(pool, times, iter(range(4))) == {0: 0, 1: 5, 2: 10, 3: 15}
        first = pool.ask(process_of, 0)
        assert first == pool.ask(process_of, 0) != os.getpid()
        with pytest.raises(OracleError, match="item -2 is below 0"):
            pool.ask(times, -2)
        pool.ahead = 2
        # nobody waits for the ten minutes
        assert collected(pool, sleeping, iter([0.0, 600.0]), most=1) == {0.0: 0.0}
        assert pool.ask(process_of, 0) not in (first, os.getpid())
        assert pool.reachable
        pool.stop()
        assert not pool.reachable
    finally:
        pool.close()


def test_what_cannot_travel_is_refused_by_name():
    with pytest.raises(InvalidInput, match=r"The state cannot be sent to another"):
        Processes(1, Build(problem(), built, {"state": lambda: 0}))


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "two"])
def test_a_number_of_workers_is_checked(workers):
    with pytest.raises(sc.InvalidInput, match="workers must be a whole number"):
        check_workers(workers)
