"""Pools of threads and processes: what they share, rebuild and start."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from worlds import COMMON, PROMISE, walk

import smoothcruiser as sc
from smoothcruiser import InvalidInput, OracleError
from smoothcruiser.engines.pools import threads as threads_module
from smoothcruiser.engines.pools.base import Build, check_workers
from smoothcruiser.engines.pools.processes import (
    VARIABLE,
    Processes,
    forget_safe_path,
    outside_folder,
    rebuild_problem,
    recipe_of,
)
from smoothcruiser.engines.pools.threads import ThisThread, Threads
from smoothcruiser.errors import Interrupted, describe_error
from smoothcruiser.problem.fingerprint import fingerprint

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


# --- processes rebuild a problem ----------------------------------------------


def late(state, action, rng):
    """At the top of a module, for other processes."""
    if state == 3:
        raise RuntimeError("out of coffee")
    return walk(state, action, rng)


def plan_elsewhere(step, method="smoothcruiser"):
    """A plan by one worker process."""
    how = {"executor": "processes", "workers": 1} | PROMISE | {"method": method}
    return sc.plan(sc.MDP(step, **COMMON), 2, **how)


def test_an_exception_in_another_process_arrives():
    sentence = r"raised RuntimeError: out of coffee at state 3, action [01]"
    with pytest.raises(sc.OracleError, match=sentence):
        plan_elsewhere(late)


def dies(state, action, rng):
    """Ends its process, as a crash in native code does."""
    import os

    os._exit(3)


def test_a_worker_that_dies_is_reported():
    sentence = r"worker process died .*\(exit code 3: os\._exit.*executor='reference'"
    with pytest.raises(sc.OracleError, match=sentence):
        plan_elsewhere(dies)


UNGUARDED = """
import smoothcruiser as sc

def step(state, action, rng):
    return rng.random(), state

problem = sc.MDP(step, num_actions=1, discount=0.2, operator=sc.Max(), initial_state=0)
try:
    sc.plan(problem, epsilon=0.3, delta=0.1, method={method!r}, executor="processes", workers=1)
except sc.SmoothcruiserError as error:
    print(error)
"""


@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_a_script_without_a_main_guard_is_told_so(method, tmp_path):
    """Its worker dies while it imports the script, before it is asked for
    anything: the oracle has no part in it.
    """
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED.format(method=method))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert 'under if __name__ == "__main__":' in done.stdout, done.stderr
    assert "oracle" not in done.stdout


class Licensed:
    """A simulator that can be used in the process where it was made and nowhere
    else.
    """

    def __call__(self, state, action, rng):
        return walk(state, action, rng)

    def __setstate__(self, state):
        raise RuntimeError("no licence here")

    def __getstate__(self):
        return {"home": 1}


@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_a_worker_that_cannot_begin_says_why(method):
    sentence = r"rebuilt in a worker process \(RuntimeError: no licence here\)"
    with pytest.raises(sc.InvalidInput, match=sentence):
        plan_elsewhere(Licensed(), method)


ENDLESS = """
import os, sys
import numba
import smoothcruiser as sc

@numba.njit
def spin(x):  # machine code that never returns and never frees the interpreter's lock
    while x > 0:
        x += 2
    return x

def step(state, action, rng):
    with open(sys.argv[1], "a") as file:
        print(os.getpid(), file=file, flush=True)
    return spin(1), state

if __name__ == "__main__":
    problem = sc.MDP(step, num_actions=1, discount=0.2, operator=sc.Max(), initial_state=0)
    how = dict(method="smoothcruiser", executor="processes", workers=1)
    sc.plan(problem, epsilon=0.3, delta=0.1, **how)
"""


def of_session(session):
    """The processes of a session that are not over."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_do_not_outlive_a_driver_that_is_killed(tmp_path):
    """Neither the worker, in a call that nothing in it can end, nor the helpers
    that multiprocessing starts.
    """
    script, called = tmp_path / "endless.py", tmp_path / "called"
    script.write_text(ENDLESS)
    driver = subprocess.Popen(
        [sys.executable, str(script), str(called)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert soon(lambda: called.exists() and called.read_text().endswith("\n"))
        assert int(called.read_text()) in of_session(driver.pid)
        driver.kill()
        driver.wait()
        assert soon(lambda: not of_session(driver.pid)), of_session(driver.pid)
    finally:
        for process in of_session(driver.pid):
            os.kill(process, signal.SIGKILL)
        driver.wait()


def soon(holds):
    """Whether a condition came to hold within a minute."""
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_a_worker_that_would_run_another_problem_is_refused():
    """A module that was edited while this process ran must not give half of the
    samples; a spec that no longer fits is passed over for the pickle.
    """
    made = sc.make("chain:n=3", discount=0.3, temperature=1.0)
    spec, pickled, parts = recipe_of(made)
    other = {**spec, "problem": "chain:n=4"}
    assert fingerprint(rebuild_problem((other, pickled, parts))).parts == parts
    edited = {**parts, "tables": "0"}
    with pytest.raises(sc.InvalidInput, match=r"rebuilt another problem .*tables"):
        rebuild_problem((spec, pickled, edited))
    with pytest.raises(sc.InvalidInput, match=r"gives another one \(tables differs"):
        rebuild_problem((spec, None, edited))


# --- new processes ------------------------------------------------------------


SCRIPT = """
import os, sys
import smoothcruiser as sc
if __name__ == "__main__":
    os.chdir(sys.argv[1])
    problem = sc.make("chain:n=3", discount=0.2, temperature=10.0)
    sc.plan(problem, epsilon="20%", delta=0.1, method="smoothcruiser", seed=1,
            executor=sys.argv[2], workers=1)
    assert not {"PYTHONSAFEPATH", "OMP_NUM_THREADS"} & os.environ.keys()
"""


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_a_worker_runs_no_file_of_the_current_folder(executor, tmp_path):
    if executor == "dask":
        pytest.importorskip("distributed")
    here, script = tmp_path / "here", tmp_path / "script.py"
    here.mkdir()
    script.write_text(SCRIPT)
    for name in ("multiprocessing", "pickle", "struct", "numpy"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    source = str(Path(sc.__file__).parents[1])
    hidden = ("OMP_NUM_THREADS", VARIABLE)
    rest = {name: x for name, x in os.environ.items() if name not in hidden}
    subprocess.run(
        [sys.executable, str(script), str(here), executor],
        env=rest | {"PYTHONPATH": source},
        check=True,
        timeout=100,
    )
    assert not (tmp_path / "ran").exists()


def test_variables_are_as_before_whatever_the_order(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("OTHER", "before")
    first, second = outside_folder("OTHER"), outside_folder()
    first.__enter__()
    second.__enter__()
    os.environ["OTHER"] = "meanwhile"
    first.__exit__(None, None, None)
    assert os.environ[VARIABLE] == "1"
    second.__exit__(None, None, None)
    assert VARIABLE not in os.environ
    assert os.environ["OTHER"] == "before"


@pytest.mark.parametrize("asked", [True, False])
def test_a_worker_keeps_what_the_user_asked_for(asked, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    forget_safe_path(asked)
    assert (VARIABLE in os.environ) is asked


def test_an_error_that_cannot_be_printed_is_named():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert describe_error(Mute()) == "Mute"


def test_ctrl_c_while_a_cluster_starts_ends_it_later(monkeypatch):
    pytest.importorskip("distributed")
    from smoothcruiser.engines.pools import dask_cluster
    from smoothcruiser.query import Compute

    closed, go = threading.Event(), threading.Event()

    class Cluster:
        def close(self, timeout):
            closed.set()

    class Pressed(dask_cluster.Future):
        def result(self, timeout=None):
            if not self.done():
                raise KeyboardInterrupt
            return super().result(timeout)

    def started(workers):
        go.wait(10)
        return Cluster()

    monkeypatch.setattr(dask_cluster, "local_cluster", started)
    monkeypatch.setattr(dask_cluster, "Future", Pressed)
    with pytest.raises(KeyboardInterrupt):
        dask_cluster.Connection(Compute(executor="dask", workers=1))
    assert not closed.is_set()
    go.set()
    assert closed.wait(10)
