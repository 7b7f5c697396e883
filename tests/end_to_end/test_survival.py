"""Kill and resume, workers of every kind: the same bits whatever happens on the way.

Long forms (ten kills, a loop of fifty, Dask workers killed in mid-shard):
benchmarks/survival.py, results in docs/evidence.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.store import Store

PROBLEM = "garnet:states=5,actions=2"
CHILD = """
import sys, time
import smoothcruiser as sc
problem = sc.make({problem!r}, discount=0.5, temperature=1.0)
options = dict(progress=lambda p: time.sleep(0.03))  # slow enough to be killed in the middle
if not {run!r}:
    schedule = sc.explain(problem, epsilon="8%", delta=0.1)
    sc.run(problem, schedule, seed=11, shards=40, store={store!r}, **options)
else:
    sc.resume({run!r}, {store!r}, **options)
"""


def child(store: Path, run: int | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD.format(problem=PROBLEM, store=str(store), run=run)]
    )


def shards_done(store: Path) -> int:
    if not store.exists():
        return 0
    try:
        with Store(store) as opened:
            return sum(run.shards_done for run in opened.runs())
    except sc.InvalidInput:
        return 0  # being created at this very moment


def test_killed_and_resumed_is_the_same(tmp_path: Path) -> None:
    """kill -9 in the middle, three times; what was finished is there, and the
    end result is bit-identical.
    """
    store = tmp_path / "runs.db"
    problem = sc.make(PROBLEM, discount=0.5, temperature=1.0)
    schedule = sc.explain(problem, epsilon="8%", delta=0.1)
    expected = sc.run(problem, schedule, seed=11, shards=40)
    moments = random.Random(1)
    before = 0
    for kill in range(3):
        process = child(store, None if kill == 0 else 1)
        goal = before + moments.randint(2, 8)
        while process.poll() is None and shards_done(store) < goal:
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert shards_done(store) >= before
        before = shards_done(store)
    final = sc.resume(1, store)
    assert (final.value, final.q_values, final.interval, final.num_calls) == (
        expected.value,
        expected.q_values,
        expected.interval,
        expected.num_calls,
    )
    with Store(store) as opened:
        assert opened.get(1).estimate is not None
        assert len(opened.runs()) == 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_threads_do_not_change_the_result(workers: int) -> None:
    problem = sc.make(PROBLEM, discount=0.5, temperature=1.0)
    promise = {"epsilon": "8%", "delta": 0.1, "method": "smoothcruiser", "shards": 30}
    assert (
        sc.plan(problem, workers=workers, **promise).q_values
        == sc.plan(problem, executor="reference", **promise).q_values
    )


def test_dask_gives_the_same_bits() -> None:
    """Two worker processes on loopback against threads, and an oracle's error
    arrives as it is.
    """
    pytest.importorskip("distributed")
    problem = sc.make(PROBLEM, discount=0.5, temperature=1.0)
    promise = {"epsilon": "8%", "delta": 0.1, "method": "smoothcruiser", "shards": 6}
    here, there = (
        sc.plan(problem, **promise),
        sc.plan(problem, executor="dask", workers=2, **promise),
    )
    assert (here.value, here.q_values, here.num_calls) == (
        there.value,
        there.q_values,
        there.num_calls,
    )
    assert there.executor == "dask"


def test_a_scheduler_address_needs_the_dask_executor() -> None:
    problem = sc.make(PROBLEM, discount=0.5, temperature=1.0)
    with pytest.raises(sc.InvalidInput, match="executor 'dask'"):
        sc.plan(
            problem,
            epsilon="20%",
            delta=0.1,
            method="smoothcruiser",
            executor="compiled",
            scheduler="127.0.0.1:1",
        )
