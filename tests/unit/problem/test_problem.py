"""Problems: every parameter refused once with its value and remedy; what a problem
says of itself.
"""

import dataclasses

import numba
import numpy as np
import pytest

import smoothcruiser as sc


def step(state, action, rng):
    return 0.0, state


GOOD = {"num_actions": 2, "discount": 0.5, "operator": sc.Entropy(1.0)}


def test_numpy_numbers_are_numbers():
    numbers = {"num_actions": np.int64(3), "discount": np.float32(0.5)}
    problem = sc.MDP(step, **(GOOD | numbers), horizon=np.int32(4))
    plain = (problem.num_actions, problem.discount, problem.horizon)
    assert plain == (3, 0.5, 4)
    assert [type(number) for number in plain] == [int, float, int]


def test_a_problem_is_frozen_and_prints_briefly():
    problem = sc.MDP(step, name="mine", **GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.discount = 0.9
    numbers = "num_actions=2, discount=0.5, operator=Entropy(temperature=1.0)"
    assert repr(problem) == f"MDP(name='mine', {numbers})"


def test_legal_actions_terminals_and_players():
    functions = {
        "player": lambda s: s,
        "legal": lambda s, a: a == 0 or s == 1,
        "terminal": lambda s: s == 9,
    }
    game = sc.Game(step, **functions, **GOOD)
    assert [game.legal_actions(s) for s in (1, 2)] == [[0, 1], [0]]
    assert game.mover(2) == 2
    assert [game.is_terminal(s) for s in (9, 1)] == [True, False]
    with pytest.raises(sc.InvalidInput, match=r"player\(7\) must be 1 \(max\) or 2"):
        game.mover(7)
    stuck = sc.MDP(step, legal=lambda s, a: False, **GOOD)
    with pytest.raises(sc.InvalidInput, match=r"State 5 has no legal action.*termina"):
        stuck.legal_actions(5)


def test_a_problem_is_compiled_if_all_its_functions_are():
    fast = numba.njit(step)
    assert not sc.MDP(step, **GOOD).is_compiled
    for ends, compiled in ((None, True), (True, True), (lambda s: False, False)):
        assert sc.MDP(fast, terminal=ends, **GOOD).is_compiled is compiled


def test_a_class_may_be_the_function_itself():
    """``tuple`` of a state is its key; a class whose objects are called is refused."""

    class Over:
        def __call__(self, state):
            return False

    problem = sc.MDP(step, key=tuple, terminal=bool, initial_state=[], **GOOD)
    assert problem.key_of([1, 2]) == (1, 2)
    with pytest.raises(sc.InvalidInput, match="terminal is a class, Over"):
        sc.MDP(step, terminal=Over, initial_state=0, **GOOD)
