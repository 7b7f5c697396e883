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
from pathlib import Path
from typing import Any

import pytest
from benchmarks.reliability import certified_survival

import smoothcruiser as sc
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


def soon(holds: Callable[[], bool]) -> bool:
    """Whether a condition came to hold within a minute."""
    end = time.monotonic() + 60
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
