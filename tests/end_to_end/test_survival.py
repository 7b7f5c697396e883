"""Kill and resume, workers of every kind: the same bits whatever happens on the way.

Sixty kills, signals and endless steps: benchmarks/reliability/survival.py, results in
docs/evidence.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from benchmarks.reliability import certified_survival

import smoothcruiser as sc
from fresh_process import begin_words
from smoothcruiser.run_control.signal_listener import ENDED, SAME_SECONDS, STOPPING
from smoothcruiser.store import Store

PROBLEM = "garnet:states=5,actions=2"
RUNS = """
import os, sys, time
import smoothcruiser as sc

def step(state, action, rng):
    return rng.random(), int(rng.random() * 4)

def waiting(state, action, rng):
    time.sleep(0.002)
    return step(state, action, rng)

def problem_of(step):
    return sc.MDP(step, num_actions=2, discount=0.2, operator=sc.Entropy(1.0),
                  initial_state=0)

def pressed(number):
    calls = []  # the step sends a signal to its own process at its 200th call
    def step(state, action, rng):
        calls.append(state)
        if len(calls) == 200:
            os.kill(os.getpid(), number)
        return rng.random(), state
    return sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0),
                  initial_state=0)

def terminated():
    import signal
    return pressed(signal.SIGTERM)

def run(executor, store, **options):
    problem, epsilon = problem_of(step if store is None else waiting), "12%"
    if executor == "compiled":
        problem, epsilon = sc.make({problem!r}, discount=0.5, temperature=1.0), "8%"
        if store is not None:  # slow enough to be killed in the middle
            options["progress"] = lambda p: time.sleep(0.03)
    if store is not None and os.path.exists(store):
        return sc.resume(1, store, problem, workers=1, **options)
    schedule = sc.explain(problem, epsilon=epsilon, delta=0.1)
    how = dict(seed=11, shards=40, executor=executor, workers=1)
    return sc.run(problem, schedule, store=store, **how, **options)

if __name__ == "__main__":
    import survivors  # under the name that workers and the test know it by
    survivors.run(*sys.argv[1:])
"""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """The module of the runs, which processes of their own and workers find too."""
    (tmp_path / "survivors.py").write_text(RUNS.replace("{problem!r}", repr(PROBLEM)))
    monkeypatch.syspath_prepend(tmp_path)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.chdir(tmp_path)
    import survivors

    yield survivors
    del sys.modules["survivors"]


def shards(store: Path) -> dict[tuple[int, int], Any]:
    """The finished shards of run 1, read from outside."""
    try:
        with Store(store, write=False) as opened:
            return opened.parts(1)
    except sc.SmoothcruiserError:
        return {}  # being created at this very moment


def left(session: int) -> list[int]:
    """The processes of a session that are not over."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def soon(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether a condition came to hold in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("executor", "kills"), [("compiled", 2), ("processes", 1)])
def test_killed_and_resumed_is_the_same(executor, kills, runs, tmp_path):
    """kill -9 in the middle of drawing: what was finished is there, no process is
    left, and the end result is bit-identical.
    """
    store, moments = tmp_path / "runs.db", random.Random(1)
    seen: dict[tuple[int, int], Any] = {}
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "survivors.py", executor, str(store)],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        try:
            goal = len(seen) + moments.randint(2, 8)
            assert soon(lambda goal=goal: len(shards(store)) >= goal)
            seen = shards(store)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
        assert soon(lambda session=process.pid: not left(session))
        after = shards(store)
        assert seen.items() <= after.items()
        assert len(after) < 80, "the kill fell inside drawing"
    expected = runs.run("compiled" if executor == "compiled" else "python", None)
    final = runs.run(executor, str(store))
    for name in ("value", "q_values", "interval", "num_calls"):
        assert getattr(final, name) == getattr(expected, name)
    with Store(store, write=False) as opened:
        assert opened.get(1).estimate is not None
        assert len(opened.runs()) == 1


def test_sigterm_ends_as_ctrl_c_does(runs, run):
    """A batch system's signal: its own exit code, and how to resume."""
    promise = "--method smoothcruiser --epsilon 5% --delta 0.1"
    done = run(f"plan survivors:terminated {promise} --store runs.db")
    assert done.code == 128 + signal.SIGTERM
    assert "Stopped by SIGTERM;" in done.err
    assert "--resume 1 --store runs.db" in done.words
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
@pytest.mark.compiles
def test_a_search_killed_in_the_middle_ends_with_the_same_bits(tmp_path):
    """kill -9 while certified search samples a slow step: the resumed run has the bits
    of one that nobody disturbed. Ten kills: benchmarks/reliability/certified_survival.py.
    """
    ended = certified_survival.survive(
        tmp_path / "store.db", kills=1, executor="python"
    )
    assert ended.same
    assert len(ended.kills) == 1
    assert 0 < ended.kills[0] < ended.calls


def test_threads_and_dask_do_not_change_the_result():
    """One to three threads, and two worker processes on loopback."""
    pytest.importorskip("distributed")
    problem = sc.make(PROBLEM, discount=0.5, temperature=1.0)
    promise = {"epsilon": "8%", "delta": 0.1, "method": "smoothcruiser", "shards": 6}
    here = sc.plan(problem, executor="reference", **promise)
    workers = [{"workers": 1}, {"workers": 2}, {"workers": 3}]
    for how in (*workers, {"executor": "dask", "workers": 2}):
        there = sc.plan(problem, **how, **promise)
        for name in ("value", "q_values", "num_calls"):
            assert getattr(there, name) == getattr(here, name)
    assert there.executor == "dask"


ENDLESS = """
import numba
import numpy as np
import smoothcruiser as sc

LINE = np.frombuffer(b"\\n", np.uint8)
ADDRESS = LINE.ctypes.data
write = numba.types.ExternalFunction(
    "write", numba.int64(numba.int32, numba.int64, numba.int64)
)

@numba.njit
def step(state, action, rng):
    number = rng.random()
    if state == 1:
        write(2, ADDRESS, 1)  # says that it never returns from here
    while state == 1 and number >= 0.0:
        number += 1.0
    return number, 1 if number < 1e-4 else 0

def problem(start):
    return sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0),
                  initial_state=start)

at_once, rarely = problem(1), problem(0)
"""
EVALUATES = """
from smoothcruiser.run_control.stop_requests import stoppable

with stoppable():
    import smoothcruiser as sc, endless
    sc.evaluate(endless.at_once, lambda state: 0, budget=1000)
"""
PLAN = ("-m", "smoothcruiser", "plan")
PROMISE = ("--method", "smoothcruiser", "--delta", "0.1", "--epsilon", "2%")
THREADS = """
import sys
from smoothcruiser.cli.app import main
from smoothcruiser.engines.pools import threads

threads.GRACE_SECONDS = 60.0  # in which a first Ctrl-C waits for the step
sys.argv[0] = "smoothcruiser"
main()
"""
ENDLESS_RUNS = {  # in each the user's module is imported when the run has begun
    "inspection": (*PLAN, "endless:at_once", *PROMISE),
    "seconds": (*PLAN, "endless:at_once", "--seconds", "1"),
    "evaluate": ("-c", EVALUATES),
    "threads": ("-c", THREADS, "plan", "endless:rarely", *PROMISE, "--workers", "2"),
}


@pytest.mark.skipif(os.name != "posix", reason="only there a thread hears signals")
def test_the_second_ctrl_c_ends_a_compiled_step_that_never_returns(
    tmp_path, monkeypatch
):
    """Law: wherever machine code loops, with Python's lock in its hand or without."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(len(ENDLESS_RUNS)) as pool:
        ended = dict(
            zip(
                ENDLESS_RUNS, pool.map(ended_twice, ENDLESS_RUNS.values()), strict=True
            )
        )
    assert {name: code for name, (code, _) in ended.items()} == dict.fromkeys(
        ended, 130
    )
    for _, written in ended.values():
        first, last = written.splitlines()
        assert first == STOPPING
        assert last.startswith(ENDED)


def ended_twice(words: tuple[str, ...]) -> tuple[int, str]:
    """(exit code, what it wrote) of a child that gets two Ctrl-C when its step loops.

    It is killed if that does not end it.
    """
    child = begin_words(*words)
    try:
        said = child.stderr.readline()
        assert said == "\n", said + child.stderr.read()
        child.send_signal(signal.SIGINT)
        time.sleep(2 * SAME_SECONDS)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        soon(lambda: child.poll() is not None, 10)
    finally:
        child.kill()
        child.wait()
    return child.returncode, child.stderr.read()


PRESSED = """
import os, signal
import numba
from smoothcruiser.jit import build
import smoothcruiser as sc

compile_form = build._unlocked_listen

def pressed(listener):
    os.kill(os.getpid(), signal.SIGINT)
    form = compile_form(listener)
    print("compiled", flush=True)
    return form

build._unlocked_listen = pressed

@numba.njit
def step(state, action, rng):
    return rng.random(), state

problem = sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0),
                 initial_state=0)
print("made", flush=True)
"""


def test_ctrl_c_while_the_listener_is_compiled_ends_the_run_after_it(
    tmp_path, monkeypatch
):
    """Law: half of a module would stay behind in Numba."""
    (tmp_path / "pressed.py").write_text(PRESSED)
    monkeypatch.chdir(tmp_path)
    child = begin_words(*PLAN, "pressed:problem", *PROMISE)
    out, err = child.communicate()
    assert child.returncode == 130, err
    assert out.splitlines()[0] == "compiled"
    assert "made" not in out
    assert err.startswith(STOPPING)
    assert "Traceback" not in err
