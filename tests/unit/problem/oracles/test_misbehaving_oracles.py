"""Oracles that misbehave: one clear error with the state and action at hand,
from every executor that can meet them, and nothing lost.

Each test names the fault and the sentence it has to end in.
"""

import math

import pytest
from worlds import COMMON, PROMISE, mdp, walk

import smoothcruiser as sc

PYTHON = ["reference", "python"]


def faulty(answer):
    """A step that is well at first and answers something else in state 3."""

    def step(state, action, rng):
        reward, after = walk(state, action, rng)
        return answer(reward, after) if state == 3 else (reward, after)

    return step


# tests/unit/test_api_bad_input.py has more of them, met in the first state
FAULTS = {
    "NaN": (lambda r, z: (math.nan, z), "reward nan at state 3, action [01], outside"),
    "too small": (
        lambda r, z: (-1e-9, z),
        r"reward -1e-09 at state 3.*\(-10, 0\) for",
    ),
    "a word": (
        lambda r, z: ("much", z),
        r"must return \(reward, .*'much'.* at state 3",
    ),
    "an undeclared end": (
        lambda r, z: (r, z, True),
        "ended the episode at state 3, a",
    ),
}
RUNS = {
    "reference": PROMISE | {"executor": "reference"},
    "python": PROMISE | {"executor": "python"},
    "certified": {"method": "certified", "epsilon": 0.05, "delta": 0.1},
    "uct": {"method": "uct", "budget": 20_000},
}


@pytest.mark.compiles
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_answer_is_named_with_its_state_and_action(fault, run):
    answer, message = FAULTS[fault]
    with pytest.raises(sc.OracleError, match=message):
        sc.plan(sc.MDP(faulty(answer), **COMMON), 2, **RUNS[run])


# --- companions of the step ---------------------------------------------------


@pytest.mark.parametrize("executor", PYTHON)
def test_a_state_without_an_action_and_a_player_that_does_not_exist(executor):
    stuck = mdp(legal=lambda s, a: s != 3)
    with pytest.raises(sc.InvalidInput, match=r"State 3 has no legal action.*termina"):
        sc.plan(stuck, 2, executor=executor, **PROMISE)
    third = sc.Game(walk, player=lambda s: 3 if s == 3 else 1, **COMMON)
    with pytest.raises(sc.InvalidInput, match=r"player\(3\) must be 1 .*, got 3"):
        sc.plan(third, 2, executor=executor, **PROMISE)
    raising = mdp(terminal=lambda s: s == 3 and 1 / 0)
    with pytest.raises(sc.OracleError, match="terminal raised ZeroDivisionError"):
        sc.plan(raising, 2, executor=executor, **PROMISE)


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
    problem = mdp(moody)
    how = PROMISE | {"shards": 12, "seed": 3}
    calm = sc.plan(mdp(), **how)
    with pytest.raises(sc.OracleError, match=r"raised ConnectionError: gone at state"):
        sc.plan(problem, store=store, **how)
    moody.left = -1
    resumed = sc.resume(1, store, problem)
    facts = [(x.value, x.q_values, x.num_calls) for x in (resumed, calm)]
    assert facts[0] == facts[1]
    assert -1 - moody.left < calm.num_calls
