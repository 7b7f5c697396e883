"""Worker processes that fail: the error arrives, and it names what to change."""

import subprocess
import sys

import pytest
from worlds import COMMON, PROMISE, walk

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def late(state, action, rng):
    """At the top of a module, for other processes."""
    if state == 3:
        raise RuntimeError("out of coffee")
    return walk(state, action, rng)


def test_an_exception_in_another_process_arrives():
    with pytest.raises(
        sc.OracleError,
        match=r"raised RuntimeError: out of coffee at state 3, action [01]",
    ):
        sc.plan(sc.MDP(late, **COMMON), 2, executor="processes", workers=1, **PROMISE)


def dies(state, action, rng):
    """Ends its process, as a crash in native code does."""
    import os

    os._exit(3)


def test_a_worker_that_dies_is_reported():
    with pytest.raises(
        sc.OracleError, match=r"worker process died.*executor='reference'"
    ):
        sc.plan(sc.MDP(dies, **COMMON), 2, executor="processes", workers=1, **PROMISE)


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
    with pytest.raises(
        sc.InvalidInput,
        match=(
            r"could not be rebuilt in a worker process \(RuntimeError: no licence "
            r"here\)"
        ),
    ):
        sc.plan(
            sc.MDP(Licensed(), **COMMON),
            2,
            executor="processes",
            workers=1,
            **{**PROMISE, "method": method},
        )
