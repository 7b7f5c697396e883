"""A user's function that ends the program, as ``sys.exit`` tries to, is an error
that names the place; Ctrl-C stays what it is.
"""

import sys

import numpy as np
import pytest
from worlds import COMMON, PROMISE, walk

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


class Left(BaseException):
    """Not an Exception, as some libraries have them."""


def raises(error):
    """A walk that leaves with an error in state 3."""

    def step(state, action, rng):
        if state == 3:
            raise error
        return walk(state, action, rng)

    return step


def exits(state, action, rng):
    """At the top of a module, for other processes."""
    return raises(SystemExit("done"))(state, action, rng)


def rows(states, actions, rng):
    if (states == 3).any():
        sys.exit("done")
    return rng.random(len(states)), (states + actions) % 5


def ends_here(*_):
    sys.exit("done")


SAMPLING = {"smoothcruiser": PROMISE, "certified": {**PROMISE, "method": "certified"}}
TREE = {"method": "uct", "budget": 2000}


@pytest.mark.parametrize("executor", ["reference", "python"])
@pytest.mark.parametrize(
    "error", [SystemExit("done"), SystemExit(), Left("for good")], ids=repr
)
def test_an_oracle_that_exits_is_reported_with_its_place(executor, error):
    shown = f"{type(error).__name__}: {error}".removesuffix(": ")
    with pytest.raises(sc.OracleError, match=rf"^The .* {shown} at state 3, action"):
        sc.plan(sc.MDP(raises(error), **COMMON), 2, executor=executor, **PROMISE)


ELSEWHERE = {"executor": "processes", "workers": 1}
DONE = r"raised SystemExit: done at state 3, action [01]"


@pytest.mark.parametrize(
    "asked",
    [
        SAMPLING["certified"],
        TREE,
        SAMPLING["smoothcruiser"] | ELSEWHERE,
        SAMPLING["certified"] | ELSEWHERE,
    ],
)
def test_searches_and_worker_processes_report_it_too(asked):
    with pytest.raises(sc.OracleError, match=DONE):
        sc.plan(sc.MDP(exits, **COMMON), 2, **asked)


def test_an_exit_in_a_batch_names_a_row():
    problem = sc.MDP(sc.batched(rows), **{**COMMON, "initial_state": np.int64(0)})
    with pytest.raises(sc.OracleError, match=DONE):
        sc.plan(problem, np.int64(2), **PROMISE)


def test_evaluation_and_the_checker_report_it():
    problem = sc.MDP(exits, **COMMON)
    with pytest.raises(sc.OracleError, match=DONE):
        sc.evaluate(problem, lambda state: [0.5, 0.5], 2, budget=2000)
    wrong = [x.sentence for x in sc.check(problem).findings if x.verdict == "wrong"]
    assert any("SystemExit: done at state 3" in sentence for sentence in wrong)
    with pytest.raises(sc.InvalidInput, match=r"The policy raised SystemExit: done"):
        sc.evaluate(sc.MDP(walk, **COMMON), ends_here, budget=2000)


@pytest.mark.parametrize("name", ["legal", "terminal", "outcomes"])
def test_companions_that_exit_are_reported(name):
    problem = sc.MDP(walk, **COMMON, **{name: ends_here})
    asked = {"method": "exact"} if name == "outcomes" else PROMISE
    with pytest.raises(
        sc.OracleError, match=rf"^{name} raised SystemExit.* at state 0"
    ):
        sc.plan(problem, **asked)


def test_ctrl_c_inside_an_oracle_is_no_error_of_the_oracle():
    def pressed(state, action, rng):
        raise KeyboardInterrupt

    problem = sc.MDP(pressed, **COMMON)
    answer = sc.plan(problem, **PROMISE)
    assert answer.interval == problem.facts.value_bounds()
    assert any("stopped by hand" in note for note in answer.notes)
    grown = sc.plan(sc.MDP(pressed, **COMMON), **TREE)
    assert grown.interval is None
    assert any("Stopped by hand after 1 call" in note for note in grown.notes)
