"""Worker processes that fail: the error arrives, and it names what to change."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worlds import COMMON, PROMISE, walk

import smoothcruiser as sc
from smoothcruiser.engines.pools.processes import rebuild_problem, recipe_of
from smoothcruiser.problem.fingerprint import fingerprint

pytestmark = pytest.mark.compiles


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
