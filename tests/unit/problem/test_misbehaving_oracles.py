"""Oracles that misbehave: one clear error with the state and action at hand,
from every executor that can meet them, and nothing lost.

Each test names the fault and the sentence it has to end in.
"""

import math
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import smoothcruiser as sc

COMMON = {
    "num_actions": 2,
    "discount": 0.5,
    "operator": sc.Entropy(1.0),
    "initial_state": 0,
}
PROMISE = {"epsilon": "15%", "delta": 0.1, "method": "smoothcruiser"}
PYTHON = ["reference", "python"]


def walk(state, action, rng):
    return rng.random(), (state + action) % 5


def faulty(answer):
    """A step that is well at first and answers something else in state 3."""

    def step(state, action, rng):
        reward, after = walk(state, action, rng)
        return answer(reward, after) if state == 3 else (reward, after)

    return step


FAULTS = {
    "NaN": (
        lambda r, z: (math.nan, z),
        (
            r"reward nan at state 3, action [01], outside reward_range \(0, 1\); "
            r"declare "
            r"the range"
        ),
    ),
    "infinite": (
        lambda r, z: (math.inf, z),
        r"reward inf at state 3, action [01], outside reward_range",
    ),
    "too large": (
        lambda r, z: (1.5, z),
        r"reward 1\.5 at state 3, action [01], outside reward_range \(0, 1\)",
    ),
    "too small": (
        lambda r, z: (-1e-9, z),
        r"reward -1e-09 at state 3, action [01], outside reward_range",
    ),
    "one value": (
        lambda r, z: (r,),
        (
            r"must return \(reward, next_state\) or \(reward, next_state, "
            r"terminated\), "
            r"got .* at state 3"
        ),
    ),
    "four values": (
        lambda r, z: (r, z, False, {}),
        r"must return \(reward, next_state\).* at state 3, action [01]",
    ),
    "nothing": (
        lambda r, z: None,
        r"must return \(reward, next_state\).*got None at state 3",
    ),
    "a word": (
        lambda r, z: ("much", z),
        r"must return \(reward, next_state\).*'much'.* at state 3",
    ),
    "an undeclared end": (
        lambda r, z: (r, z, True),
        (
            r"ended the episode at state 3, action [01], but .*no terminal states; "
            r"pass "
            r"terminal="
        ),
    ),
}


@pytest.mark.parametrize("executor", PYTHON)
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_bad_answer_is_named_with_its_state_and_action(fault, executor):
    answer, message = FAULTS[fault]
    problem = sc.MDP(faulty(answer), **COMMON)
    with pytest.raises(sc.OracleError, match=message):
        sc.plan(problem, 2, executor=executor, **PROMISE)


@pytest.mark.parametrize("method", ["certified", "uct"])
@pytest.mark.parametrize("fault", ["NaN", "too large", "an undeclared end"])
def test_searches_name_it_too(fault, method):
    answer, message = FAULTS[fault]
    problem = sc.MDP(faulty(answer), **COMMON)
    promise = {"epsilon": 0.05, "delta": 0.1} if method == "certified" else {}
    with pytest.raises(sc.OracleError, match=message):
        sc.plan(problem, 2, method=method, budget=20_000, **promise)


@pytest.mark.parametrize("executor", PYTHON)
def test_an_exception_in_the_middle_keeps_its_cause(executor):
    def step(state, action, rng):
        if state == 3 and rng.random() < 0.5:
            raise KeyError("no such part")
        return walk(state, action, rng)

    with pytest.raises(
        sc.OracleError,
        match=r"raised KeyError: 'no such part' at state 3, action [01]; mend",
    ) as caught:
        sc.plan(sc.MDP(step, **COMMON), 2, executor=executor, **PROMISE)
    assert isinstance(caught.value.__cause__, KeyError)


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


# --- oracles that hang --------------------------------------------------------


def sleeps(state, action, rng):
    if state == 3:
        time.sleep(60)
    return walk(state, action, rng)


def loops(state, action, rng):
    while state == 3:
        pass
    return walk(state, action, rng)


@pytest.mark.parametrize("step", [sleeps, loops])
def test_an_oracle_that_hangs_is_ended_at_its_time_limit(step):
    begin = time.perf_counter()
    with pytest.raises(
        sc.OracleError,
        match=(
            r"did not return within 0\.3 s at state 3, action [01]; mend the "
            r"simulator there, or raise"
        ),
    ):
        sc.plan(sc.MDP(step, call_seconds=0.3, **COMMON), 2, **PROMISE)
    assert time.perf_counter() - begin < 10


def test_a_companion_that_hangs_is_ended_too():
    def terminal(state):
        while state == 3:
            pass
        return False

    with pytest.raises(
        sc.OracleError, match=r"legal, terminal or player did not return within 0\.3 s"
    ):
        sc.plan(
            sc.MDP(walk, terminal=terminal, call_seconds=0.3, **COMMON), 2, **PROMISE
        )


def test_the_limit_holds_outside_the_main_thread_too():
    found = []

    def ask():
        try:
            sc.plan(sc.MDP(loops, call_seconds=0.3, **COMMON), 2, **PROMISE)
        except sc.OracleError as error:
            found.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(timeout=20)
    assert found
    assert "did not return within 0.3 s at state 3" in found[0]


def test_a_slow_oracle_within_its_limit_is_left_alone():
    def step(state, action, rng):
        time.sleep(0.002)
        return walk(state, action, rng)

    limited = sc.plan(
        sc.MDP(step, call_seconds=0.5, **COMMON),
        epsilon="40%",
        delta=0.3,
        method="smoothcruiser",
    )
    assert (
        limited.value
        == sc.plan(
            sc.MDP(walk, **COMMON), epsilon="40%", delta=0.3, method="smoothcruiser"
        ).value
    )


@pytest.mark.parametrize("limit", [0, -1, math.nan, "soon"])
def test_a_time_limit_that_is_none_is_refused(limit):
    with pytest.raises(
        sc.InvalidInput, match="call_seconds must be a number of seconds above 0"
    ):
        sc.MDP(walk, call_seconds=limit, **COMMON)


# --- companions of the step ---------------------------------------------------


@pytest.mark.parametrize("executor", PYTHON)
def test_a_state_without_an_action_and_a_player_that_does_not_exist(executor):
    stuck = sc.MDP(walk, legal=lambda s, a: s != 3, **COMMON)
    with pytest.raises(
        sc.InvalidInput, match=r"State 3 has no legal action.*terminal="
    ):
        sc.plan(
            stuck,
            2,
            executor=executor,
            epsilon="15%",
            delta=0.1,
            method="smoothcruiser",
        )
    third = sc.Game(walk, player=lambda s: 3 if s == 3 else 1, **COMMON)
    with pytest.raises(
        sc.InvalidInput, match=r"player\(3\) must be 1 \(max\) or 2 \(min\), got 3"
    ):
        sc.plan(
            third,
            2,
            executor=executor,
            epsilon="15%",
            delta=0.1,
            method="smoothcruiser",
        )


def test_states_that_cannot_be_hashed_are_refused_by_searches_and_accepted_by_schedules():
    problem = sc.MDP(
        lambda s, a, rng: (rng.random(), [s[0] + a]),
        **(COMMON | {"initial_state": [0]}),
    )
    with pytest.raises(sc.SmoothcruiserError, match=r"hash"):
        sc.plan(problem, method="certified", epsilon=0.1, delta=0.1)
    assert (
        sc.plan(problem, epsilon="30%", delta=0.1, method="smoothcruiser").num_calls > 0
    )


# --- oracles over arrays ------------------------------------------------------


def rows(states, actions, rng):
    return rng.random(len(states)), (states + actions) % 5


def spoiled(change):
    def step(states, actions, rng):
        rewards, after = rows(states, actions, rng)
        return change(rewards, after, states)

    return step


def _raise_at_three(rewards, after, states):
    if np.any(states == 3):
        raise ValueError("three")
    return rewards, after


BATCHED = {
    "NaN": (
        lambda r, z, s: (np.where(s == 3, np.nan, r), z),
        r"reward nan at state 3, action [01], outside reward_range",
    ),
    "too large": (
        lambda r, z, s: (np.where(s == 3, 7.0, r), z),
        r"reward 7\.0 at state 3, action [01], outside reward_range",
    ),
    "an exception": (
        _raise_at_three,
        r"raised ValueError: three at state 3, action [01]; mend the simulator there",
    ),
    "too few rewards": (
        lambda r, z, s: (r[:-1], z),
        r"batched oracle must return rewards of shape \(\d+,\), got shape",
    ),
    "a column": (
        lambda r, z, s: (r[:, None], z),
        r"rewards of shape \(\d+,\), got shape \(\d+, 1\)",
    ),
    "too few states": (
        lambda r, z, s: (r, z[:-1]),
        r"next states with \d+ rows, got shape",
    ),
    "one state": (lambda r, z, s: (r, 3), r"next states with \d+ rows, got int 3"),
    "nothing": (lambda r, z, s: None, r"must return \(rewards, next_states\)"),
    "words": (
        lambda r, z, s: (["much"] * len(r), z),
        r"rewards as an array of \d+ numbers",
    ),
    "an undeclared end": (
        lambda r, z, s: (r, z, s == 3),
        r"ended the episode at state 3, action [01].*pass terminal=",
    ),
}


@pytest.mark.parametrize("fault", list(BATCHED))
def test_a_bad_batch_is_named_by_the_row_at_fault(fault):
    change, message = BATCHED[fault]
    problem = sc.MDP(sc.batched(spoiled(change)), **COMMON)
    with pytest.raises(sc.OracleError, match=message):
        sc.plan(problem, 2, **PROMISE)


def test_batched_companions_have_to_return_one_answer_a_row():
    for name, function in (("legal", lambda s, a: True), ("terminal", lambda s: False)):
        problem = sc.MDP(sc.batched(rows), **{name: function}, **COMMON)
        with pytest.raises(
            sc.InvalidInput, match=r"must answer for every row of a batch.*shape \(1,\)"
        ):
            sc.plan(problem, 2, **PROMISE)


def test_a_batched_step_is_asked_for_where_it_is_needed():
    with pytest.raises(
        sc.InvalidInput, match=r"needs a step over arrays, marked as batched\(step\)"
    ):
        sc.plan(sc.MDP(walk, **COMMON), 2, executor="batched", **PROMISE)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (({"step": 3}), "takes a function"),
        (({"step": rows, "backend": "torch"}), "backend must be"),
        (({"step": rows, "each": True}), "needs backend='jax'"),
        (({"step": rows, "max_batch": 0}), "max_batch must be"),
    ],
)
def test_what_cannot_be_batched_is_refused(arguments, message):
    with pytest.raises(sc.InvalidInput, match=message):
        sc.batched(**arguments)


# --- nothing is lost ----------------------------------------------------------


class Moody:
    """Fails after a number of calls, until it is mended; the same object before
    and after, as a simulator behind a network is.
    """

    def __init__(self):
        self.left = 600

    def __call__(self, state, action, rng):
        self.left -= 1
        if self.left == 0:
            raise ConnectionError("gone")
        return walk(state, action, rng)


def test_shards_finished_before_a_fault_are_kept(tmp_path):
    """The resumed run makes only the calls that were missing and returns the
    bits of a run without the fault.
    """
    store = tmp_path / "runs.db"
    moody = Moody()
    problem = sc.MDP(moody, **COMMON)
    how = {
        "epsilon": "15%",
        "delta": 0.1,
        "method": "smoothcruiser",
        "shards": 12,
        "seed": 3,
    }
    calm = sc.plan(sc.MDP(walk, **COMMON), **how)
    with pytest.raises(sc.OracleError, match=r"raised ConnectionError: gone at state"):
        sc.plan(problem, store=store, **how)
    moody.left = -1
    resumed = sc.resume(1, store, problem)
    assert (resumed.value, resumed.q_values, resumed.num_calls) == (
        calm.value,
        calm.q_values,
        calm.num_calls,
    )
    assert -1 - moody.left < calm.num_calls
